#if WARPTUNE_HAS_CUDA
#include "harness/device/cuda_device.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <variant>
#include <vector>

#include "harness/core/error.h"
#include "harness/device/clocks.h"
#include "harness/device/compile.h"
#include "harness/device/cuda_check.h"
#include "harness/device/cuda_pools.h"
#include "harness/device/loaded_kernel.h"
#include "harness/device/pinned_staging.h"
#include "harness/device/tensor_map.h"
#include "kernels/support/args.h"

namespace warptune {
namespace {

cudaStream_t native(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }

/// The UUID as nvidia-smi prints it.
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i)
    text += fmt::format("{}{:02x}", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                        static_cast<unsigned char>(uuid.bytes[i]));
  return text;
}

/// A loaded kernel and how to launch it.
class Kernel {
 public:
  Kernel(const Cubin& cubin, const Launch& launch) : kernel_(cubin.code, cubin.entry), launch_(launch) {
    if (launch.shared_bytes > 0)  // even below 48 KB: static shared memory adds to it
      kernel_.allow_shared_bytes(static_cast<int>(launch.shared_bytes));
    if (launch.cluster > 8) kernel_.allow_large_clusters();
  }

  /// Enqueues the kernel with its own geometry or a given one.
  void launch(const void* args, cudaStream_t stream, const Launch* geometry = nullptr,
              std::span<const TensorMapSpec> tensor_maps = {}) const {
    launch_with({const_cast<void*>(args)}, stream, geometry, tensor_maps);
  }
  /// The same with the address of each argument.
  void launch_with(std::vector<void*> arguments, cudaStream_t stream, const Launch* geometry = nullptr,
                   std::span<const TensorMapSpec> tensor_maps = {}) const {
    const Launch& l = geometry ? *geometry : launch_;
    Attributes attributes{};
    const cudaLaunchConfig_t config = configure(l, attributes, stream);
    std::vector<EncodedTensorMap> maps;
    for (const TensorMapSpec& map : tensor_maps) maps.push_back(encode_tensor_map(map));
    for (EncodedTensorMap& map : maps) arguments.push_back(&map);
    kernel_.launch(config, arguments.data());
  }

  /// Rounds the grid down to whole clusters, at most as many as the device runs at the same time: persistent
  /// blocks are one wave.
  void limit_to_one_wave() {
    launch_.grid.x -= launch_.grid.x % launch_.cluster;
    Attributes attributes{};
    const cudaLaunchConfig_t config = configure(launch_, attributes, nullptr);
    const auto clusters = static_cast<unsigned>(kernel_.max_active_clusters(config));
    launch_.grid.x = std::min(launch_.grid.x, clusters * launch_.cluster);
  }

 private:
  using Attributes = std::array<cudaLaunchAttribute, 2>;

  /// Refers to `attributes`, which it fills.
  static cudaLaunchConfig_t configure(const Launch& l, Attributes& attributes, cudaStream_t stream) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(l.grid.x, l.grid.y, l.grid.z);
    config.blockDim = dim3(l.block.x, l.block.y, l.block.z);
    config.dynamicSmemBytes = static_cast<std::size_t>(l.shared_bytes);
    config.stream = stream;
    config.attrs = attributes.data();
    if (l.pdl) {
      attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (l.cluster > 1) {
      attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
      attributes[config.numAttrs].val.clusterDim.x = l.cluster;
      attributes[config.numAttrs].val.clusterDim.y = 1;
      attributes[config.numAttrs++].val.clusterDim.z = 1;
    }
    return config;
  }

  LoadedKernel kernel_;
  Launch launch_;
};

/// A kernel of a plan, and the function that makes its tensor maps from the args of a launch (empty: none).
struct PlannedKernel {
  Kernel kernel;
  std::function<std::vector<TensorMapSpec>(const void* args)> tensor_maps;
  std::vector<KernelArgument> arguments = {};  // empty: the op's struct
  void* workspace = nullptr;                   // of the plan, for an argument

  void operator()(const void* args, void* stream) const {
    const auto maps = tensor_maps ? tensor_maps(args) : std::vector<TensorMapSpec>();
    if (arguments.empty())
      kernel.launch(args, native({stream}), nullptr, maps);
    else
      kernel.launch_with(addresses(args), native({stream}), nullptr, maps);
  }

 private:
  std::vector<void*> addresses(const void* args) const {
    std::vector<void*> list;
    for (const KernelArgument& a : arguments) {
      const void* const places[] = {static_cast<const std::byte*>(args) + a.offset, a.value.data(),
                                    &workspace};
      list.push_back(const_cast<void*>(places[static_cast<std::size_t>(a.kind)]));
    }
    return list;
  }
};

/// Kernels and library calls, in order.
class CudaPlan : public Plan {
 public:
  using Step = std::variant<PlannedKernel, VendorFunction>;
  /// `own` is memory that the steps use besides the workspace.
  CudaPlan(std::vector<Step> steps, Resources resources, std::int64_t workspace, Buffer own = {})
      : steps_(std::move(steps)), resources_(resources), workspace_(workspace), own_(std::move(own)) {}
  void launch(const void* args, Stream stream) const override {
    for (const Step& step : steps_)
      std::visit([&](const auto& enqueue) { enqueue(args, stream.handle); }, step);
  }
  std::int64_t workspace_bytes() const override { return workspace_; }
  Resources resources() const override { return resources_; }

 private:
  std::vector<Step> steps_;
  Resources resources_;
  std::int64_t workspace_;
  Buffer own_;
};

class CudaGraph : public CapturedGraph {
 public:
  CudaGraph(cudaStream_t stream, const std::function<void(Stream)>& body) {
    WARPTUNE_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    cudaGraph_t graph = nullptr;
    try {
      body({stream});
    } catch (...) {
      cudaStreamEndCapture(stream, &graph);
      if (graph) cudaGraphDestroy(graph);
      cudaGetLastError();
      throw;
    }
    WARPTUNE_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    const cudaError_t code = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    cuda_check(code, "cudaGraphInstantiate");
    WARPTUNE_CUDA_CHECK(cudaGraphUpload(executable_, stream));
  }
  ~CudaGraph() override {
    if (executable_) cudaGraphExecDestroy(executable_);
  }
  void launch(Stream stream) override { WARPTUNE_CUDA_CHECK(cudaGraphLaunch(executable_, native(stream))); }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(int ordinal) : compiler_(KernelSources(), default_cache_folder()), clocks_(ordinal) {
    compiler_.make_cache();
    WARPTUNE_CUDA_CHECK(cudaSetDevice(ordinal));
    cudaDeviceProp p{};
    WARPTUNE_CUDA_CHECK(cudaGetDeviceProperties(&p, ordinal));
    int toolkit = 0;
    WARPTUNE_CUDA_CHECK(cudaRuntimeGetVersion(&toolkit));
    facts_.backend = Backend::cuda;
    facts_.name = p.name;
    facts_.id = uuid_text(p.uuid);
    // Only the wgmma kernels need architecture-specific code; other devices compile for the base
    // architecture.
    const int arch = p.major * 10 + p.minor;
    facts_.arch = fmt::format("sm_{}{}", arch, arch == 90 ? "a" : "");
    facts_.driver = clocks_.driver_version();
    facts_.toolkit = fmt::format("{}.{}", toolkit / 1000, toolkit % 1000 / 10);
    facts_.sms = p.multiProcessorCount;
    facts_.l2_bytes = p.l2CacheSize;
    facts_.memory_bytes = static_cast<std::int64_t>(p.totalGlobalMem);
    facts_.shared_per_block = static_cast<std::int64_t>(p.sharedMemPerBlockOptin);
    facts_.shared_per_sm = static_cast<std::int64_t>(p.sharedMemPerMultiprocessor);
    facts_.registers_per_sm = p.regsPerMultiprocessor;
    facts_.threads_per_sm = p.maxThreadsPerMultiProcessor;
    persisting_l2_ = p.persistingL2CacheMaxSize > 0;
    WARPTUNE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    WARPTUNE_CUDA_CHECK(cudaEventCreate(&start_));
    WARPTUNE_CUDA_CHECK(cudaEventCreate(&stop_));
    pool_ = make_cuda_pool(default_pool_kind(), ordinal);
    spin_.emplace(own("support/stream.cu", "spin"));
    counter_ = allocate(sizeof(unsigned long long));
  }
  ~CudaDevice() override {
    cudaStreamSynchronize(stream_);
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
    cudaStreamDestroy(stream_);
  }

  const DeviceFacts& facts() const override { return facts_; }
  void set_peaks(const DeviceFacts& measured) override { facts_.set_peaks(measured); }

  Buffer allocate(std::size_t bytes) override {
    return Buffer(pool_->allocate(std::max<std::size_t>(bytes, 1)), bytes,
                  [pool = pool_](void* p) { pool->release(p); });
  }
  std::size_t free_bytes() const override {
    std::size_t free = 0, total = 0;
    WARPTUNE_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    return free;
  }
  Stream stream() const override { return {stream_}; }
  void upload(void* to, const void* from, std::size_t bytes, Stream stream) override {
    WARPTUNE_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, native(stream)));
  }
  std::unique_ptr<UploadStaging> upload_staging(std::size_t bytes) override {
    return make_pinned_staging(bytes, stream_);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    WARPTUNE_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_));
    WARPTUNE_CUDA_CHECK(cudaStreamSynchronize(stream_));
  }
  void set_bytes(void* to, int byte, std::size_t bytes, Stream stream) override {
    WARPTUNE_CUDA_CHECK(cudaMemsetAsync(to, byte, bytes, native(stream)));
  }
  void synchronize() override { WARPTUNE_CUDA_CHECK(cudaStreamSynchronize(stream_)); }
  void wait_for_all() override { WARPTUNE_CUDA_CHECK(cudaDeviceSynchronize()); }

  void fill_random(void* to, DType dtype, std::int64_t count, std::uint64_t seed, float scale) override {
    const FillArgs args{.data = to, .count = count, .seed = seed, .scale = scale};
    launch_over(fill_[index(dtype)], fmt::format("fill_random<{}>", kernel_type(dtype)), count, &args);
  }
  std::int64_t count_poisoned(const void* data, DType dtype, std::int64_t count) override {
    const CountArgs args{.data = data, .count = count, .found = counter_.as<unsigned long long>()};
    set_bytes(counter_.data(), 0, sizeof(unsigned long long), stream());
    launch_over(count_[index(dtype)], fmt::format("count_poisoned<{}>", kernel_type(dtype)), count, &args);
    unsigned long long found = 0;
    download(&found, counter_.data(), sizeof(found));
    return static_cast<std::int64_t>(found);
  }
  std::vector<std::uint64_t> checksums(std::span<const Region> regions) override {
    if (regions.empty()) return {};
    std::vector<ChecksumRegion> table;
    std::size_t most = 0;
    for (const Region& region : regions) {
      table.push_back({region.data, static_cast<long long>(region.bytes)});
      most = std::max(most, region.bytes);
    }
    const std::size_t table_bytes = table.size() * sizeof(ChecksumRegion);
    std::vector<std::uint64_t> sums(regions.size());
    const std::size_t sums_bytes = sums.size() * sizeof(std::uint64_t);
    const Buffer there = allocate(table_bytes + sums_bytes);
    std::byte* const sums_there = there.as<std::byte>() + table_bytes;
    upload(there.data(), table.data(), table_bytes, stream());
    set_bytes(sums_there, 0, sums_bytes, stream());
    const ChecksumArgs args{.regions = there.as<ChecksumRegion>(),
                            .sums = reinterpret_cast<unsigned long long*>(sums_there)};
    if (!checksum_) checksum_.emplace(own("support/fill.cu", "checksum"));
    const auto blocks =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(most) / (256 * 8 * 4), 1, 8 * facts_.sms);
    const Launch geometry{.grid = {static_cast<unsigned>(blocks), static_cast<unsigned>(regions.size())},
                          .block = {256}};
    checksum_->launch(&args, stream_, &geometry);
    download(sums.data(), sums_there, sums_bytes);
    return sums;
  }
  void flush_cache(Stream stream) override {
    reset_persisting_cache();
    const std::size_t bytes = static_cast<std::size_t>(2 * facts_.l2_bytes);
    if (!flush_.data()) {
      flush_ = allocate(bytes);
      set_bytes(flush_.data(), 0, bytes, stream);
    }
    if (!read_) read_.emplace(own("support/stream.cu", "stream_read<4>"));
    const StreamArgs args{
        .from = flush_.data(), .to = flush_.data(), .chunks = static_cast<long long>(bytes / 16)};
    const Launch geometry{.grid = {static_cast<unsigned>(4 * facts_.sms)}, .block = {512}};
    read_->launch(&args, native(stream), &geometry);
  }

  std::unique_ptr<Plan> prepare(const Variant& variant, const Problem& problem,
                                const Config& config) override {
    const std::int64_t workspace = variant.workspace_bytes ? variant.workspace_bytes(problem, config) : 0;
    std::vector<CudaPlan::Step> steps;
    if (variant.vendor) {
      steps.emplace_back(variant.vendor(problem, config));
      return std::make_unique<CudaPlan>(std::move(steps), Resources{}, workspace);
    }
    if (variant.stages.empty())
      throw InputError(
          fmt::format("variant '{}/{}' does not run on a CUDA device", problem.op, variant.name));
    const Resources resources = inspect(compiler_, variant, problem, config, facts_);
    Buffer own;
    if (const auto bytes = variant.own_workspace_bytes ? variant.own_workspace_bytes(problem, config) : 0) {
      own = allocate(static_cast<std::size_t>(bytes));
      set_bytes(own.data(), 0, own.bytes(), stream());
    }
    for (const Stage* stage : active_stages(variant, problem, config)) {
      if (stage->library) {
        steps.emplace_back(stage->library(problem, config));
        continue;
      }
      Launch launch = stage->launch(problem, config);
      if (launch.per_sm) {
        const unsigned blocks = launch.grid.x * static_cast<unsigned>(facts_.sms);
        launch.grid.x = launch.max_blocks > 0
                            ? static_cast<unsigned>(std::min<std::int64_t>(blocks, launch.max_blocks))
                            : blocks;
      }
      Kernel kernel(compiler_.compile(variant, *stage, problem, config, facts_.arch), launch);
      if (launch.per_sm && launch.cluster > 1) kernel.limit_to_one_wave();
      PlannedKernel planned{std::move(kernel), {}};
      if (stage->custom) {
        planned.arguments = stage->custom->arguments(problem, config);
        planned.workspace = own.data();
      }
      if (stage->tensor_maps)
        planned.tensor_maps = [maps = stage->tensor_maps, problem, config](const void* args) {
          return maps(problem, config, args);
        };
      steps.emplace_back(std::move(planned));
    }
    return std::make_unique<CudaPlan>(std::move(steps), resources, workspace, std::move(own));
  }

  std::unique_ptr<CapturedGraph> record(const std::function<void(Stream)>& body) override {
    return std::make_unique<CudaGraph>(stream_, body);
  }
  double time_us(CapturedGraph& graph) override {
    // The spin kernel keeps the device busy until all is enqueued, so that no launch gap lies between the
    // events.
    const SpinArgs wait{.nanoseconds = 40'000};
    const Launch one{.grid = {1}, .block = {1}};
    spin_->launch(&wait, stream_, &one);
    WARPTUNE_CUDA_CHECK(cudaEventRecord(start_, stream_));
    graph.launch({stream_});
    WARPTUNE_CUDA_CHECK(cudaEventRecord(stop_, stream_));
    WARPTUNE_CUDA_CHECK(cudaEventSynchronize(stop_));
    float ms = 0;
    WARPTUNE_CUDA_CHECK(cudaEventElapsedTime(&ms, start_, stop_));
    return 1000.0 * ms;
  }
  Clocks clocks() const override { return clocks_.read(); }
  Clocks quick_clocks() const override { return clocks_.read_quick(); }
  void reset_persisting_cache() override {
    if (!persisting_l2_) return;
    if (cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 0) != cudaSuccess) {
      cudaGetLastError();  // under MPS the limit cannot be set, and a kernel cannot have persisting lines
      persisting_l2_ = false;
      return;
    }
    WARPTUNE_CUDA_CHECK(cudaCtxResetPersistingL2Cache());
  }

 private:
  static std::size_t index(DType dtype) { return static_cast<std::size_t>(dtype); }
  Kernel own(const char* file, const std::string& expression) const {
    return Kernel(compiler_.compile(file, expression, facts_.arch), Launch{});
  }
  void launch_over(std::optional<Kernel>& kernel, const std::string& expression, std::int64_t count,
                   const void* args) {
    if (count == 0) return;
    if (!kernel) kernel.emplace(own("support/fill.cu", expression));
    const auto blocks = std::clamp<std::int64_t>(ceil_div(count, 1024), 1, 32 * facts_.sms);
    const Launch geometry{.grid = {static_cast<unsigned>(blocks)}, .block = {256}};
    kernel->launch(args, stream_, &geometry);
  }

  DeviceFacts facts_;
  Compiler compiler_;
  Nvml clocks_;
  std::shared_ptr<MemoryPool> pool_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
  std::optional<Kernel> spin_, read_;
  std::array<std::optional<Kernel>, 6> fill_, count_;
  std::optional<Kernel> checksum_;
  bool persisting_l2_ = false;  // the device supports persisting L2 lines
  Buffer counter_, flush_;
};

}  // namespace

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

OwnedDevice make_cuda_device(int ordinal) { return OwnedDevice(std::make_unique<CudaDevice>(ordinal)); }

}  // namespace warptune
#endif
