#if WARPTUNE_HAS_CUDA
#include "harness/device/cuda_device.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "harness/core/error.h"
#include "harness/device/compile.h"
#include "harness/device/cuda_check.h"
#include "harness/device/cuda_plan.h"
#include "harness/device/cuda_pools.h"
#include "harness/device/nvml.h"
#include "harness/device/peer_memory.h"
#include "harness/device/pinned_staging.h"
#include "kernels/support/args.h"

namespace warptune {
namespace {

/// The UUID as nvidia-smi prints it.
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i)
    text += fmt::format("{}{:02x}", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                        static_cast<unsigned char>(uuid.bytes[i]));
  return text;
}

/// Memory of this rank, and that of the others, which CUDA maps from their handles.
std::vector<void*> map_on_ranks(RankGroup& group, std::size_t bytes) {
  void* mine = nullptr;
  const cudaError_t code = cudaMalloc(&mine, bytes);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw ResourceError("there are no {} bytes for the exchange between ranks", bytes);
  }
  cuda_check(code, "cudaMalloc");
  cudaIpcMemHandle_t handle;
  WARPTUNE_CUDA_CHECK(cudaIpcGetMemHandle(&handle, mine));
  const std::vector<cudaIpcMemHandle_t> handles = group.all_gather(handle);
  std::vector<void*> memory;
  for (int rank = 0; rank < group.ranks(); ++rank) {
    void* mapped = mine;
    if (rank != group.rank())
      WARPTUNE_CUDA_CHECK(cudaIpcOpenMemHandle(&mapped, handles[rank], cudaIpcMemLazyEnablePeerAccess));
    memory.push_back(mapped);
  }
  return memory;
}

class CudaDevice : public Device {
 public:
  CudaDevice(int ordinal, std::string_view rehearsed, std::shared_ptr<RankGroup> ranks)
      : Device(std::move(ranks)), compiler_(KernelSources(), default_cache_folder()), clocks_(ordinal) {
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
    if (!rehearsed.empty()) {
      facts_ = facts_as(facts_, rehearsed);
      shared_carveout_pct_ = static_cast<int>(100 * facts_.shared_per_sm / p.sharedMemPerMultiprocessor);
    }
    persisting_l2_ = p.persistingL2CacheMaxSize > 0;
    WARPTUNE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    WARPTUNE_CUDA_CHECK(cudaEventCreate(&start_));
    WARPTUNE_CUDA_CHECK(cudaEventCreate(&stop_));
    pool_ = make_cuda_pool(default_pool_kind(), ordinal);
    spin_.emplace(own("support/stream.cu", "spin"));
    counter_ = allocate(sizeof(unsigned long long));
    if (group() && group()->ranks() > 1) {
      peer_memory_.emplace(
          *group(), [this](std::size_t bytes) { return map_on_ranks(*group(), bytes); },
          [this](void* memory, std::size_t bytes) {
            set_bytes(memory, 0, bytes, stream());
            synchronize();
          });
      meeting_ = peer_memory_->allocate(sizeof(unsigned) * kMaxRanks);
      meet_.emplace(own("support/stream.cu", "meet_ranks"));
    }
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
    const PoolStats pool = pool_->stats();
    return free + pool.reserved - pool.in_use;
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

  void fill_random(void* to, DType dtype, std::int64_t count, std::uint64_t seed, float scale,
                   const RowsWithin& rows) override {
    const FillArgs args{.data = to,
                        .count = count,
                        .seed = seed,
                        .first = rows.first,
                        .width = rows.width,
                        .stride = rows.stride,
                        .scale = scale};
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
  ElementErrors compare(const CompareArgs& elements, DType dtype) override {
    if (elements.count == 0) return {};
    auto& kernel = compare_[index(dtype)];
    if (!kernel) kernel.emplace(own("support/compare.cu", fmt::format("compare<{}>", kernel_type(dtype))));
    const auto blocks = std::clamp<std::int64_t>(ceil_div(elements.count, 1024), 1, 4 * facts_.sms);
    std::vector<ElementErrors> parts(static_cast<std::size_t>(blocks));
    const std::size_t bytes = parts.size() * sizeof(ElementErrors);
    const Buffer there = allocate(bytes);
    CompareArgs args = elements;
    args.errors = there.as<ElementErrors>();
    const Launch geometry{.grid = {static_cast<unsigned>(blocks)}, .block = {256}};
    kernel->launch(&args, stream_, &geometry);
    download(parts.data(), there.data(), bytes);
    for (std::size_t i = 1; i < parts.size(); ++i) add_errors(parts[0], parts[i]);
    return parts[0];
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
        .from = flush_.data(), .to = flush_.data(), .vectors = static_cast<long long>(bytes / 16)};
    const Launch geometry{.grid = {static_cast<unsigned>(4 * facts_.sms)}, .block = {512}};
    read_->launch(&args, native(stream), &geometry);
  }

  std::unique_ptr<Plan> prepare(const Variant& variant, const Problem& problem,
                                const Config& config) override {
    expect_ranks(*this, problem);
    const std::int64_t workspace = bytes_of(variant.workspace, variant, problem, config);
    std::vector<CudaPlan::Step> steps;
    if (variant.vendor || variant.vendor_ranks) {
      steps.emplace_back(variant.vendor ? variant.vendor(problem, config)
                                        : variant.vendor_ranks(problem, config, *group()));
      return std::make_unique<CudaPlan>(std::move(steps), Resources{}, workspace);
    }
    if (variant.stages.empty())
      throw InputError("variant '{}/{}' does not run on a CUDA device", problem.op, variant.name);
    const Resources resources = inspect(compiler_, variant, problem, config, facts_);
    Buffer own;
    if (const auto bytes = bytes_of(variant.own_workspace, variant, problem, config)) {
      own = allocate(static_cast<std::size_t>(bytes));
      set_bytes(own.data(), 0, own.bytes(), stream());
    }
    std::shared_ptr<const Peers> peers;
    if (const auto bytes = bytes_of(variant.peer_workspace, variant, problem, config))
      peers = peer_memory_->allocate(static_cast<std::size_t>(bytes));
    for (const Stage* stage : active_stages(variant, problem, config)) {
      if (stage->library) {
        steps.emplace_back(stage->library(problem, config));
        continue;
      }
      Launch launch = launch_of(variant, *stage, problem, config, facts_);
      if (launch.per_sm) {
        const unsigned blocks = launch.grid.x * static_cast<unsigned>(facts_.sms);
        launch.grid.x = launch.max_blocks > 0
                            ? static_cast<unsigned>(std::min<std::int64_t>(blocks, launch.max_blocks))
                            : blocks;
      }
      Kernel kernel(compiler_.compile(variant, *stage, problem, config, facts_.arch), launch);
      // An SM must be idle to change its shared-memory carveout: kernels with dependent launch share one.
      if (launch.pdl || (shared_carveout_pct_ < 100 && launch.shared_bytes > 0))
        kernel.prefer_shared_carveout(shared_carveout_pct_);
      if (launch.per_sm && launch.cluster > 1) kernel.limit_to_one_wave();
      PlannedKernel planned{
          std::move(kernel), TensorMaps(variant, *stage, problem, config), {}, nullptr, {}, peers};
      if (stage->custom) {
        planned.arguments = stage->custom->arguments(problem, config);
        planned.workspace = own.data();
        if (stage->custom->constants) fill_constants(planned, stage->custom->constants(problem, config));
      }
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
    if (meeting_) {
      const MeetRanksArgs meeting{.meeting = ++meetings_};
      meet_->launch(&meeting, stream_, &one, {}, meeting_.get());
    }
    WARPTUNE_CUDA_CHECK(cudaEventRecord(start_, stream_));
    graph.launch({stream_});
    WARPTUNE_CUDA_CHECK(cudaEventRecord(stop_, stream_));
    WARPTUNE_CUDA_CHECK(cudaEventSynchronize(stop_));
    float ms = 0;
    WARPTUNE_CUDA_CHECK(cudaEventElapsedTime(&ms, start_, stop_));
    return largest(1000.0 * ms);
  }
  Clocks clocks() const override { return clocks_.read(); }
  Clocks quick_clocks() const override { return clocks_.read_quick(); }
  double energy_j() const override { return clocks_.energy_j(); }
  void reset_persisting_cache() override {
    if (!persisting_l2_) return;
    if (cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 0) != cudaSuccess) {
      cudaGetLastError();  // under MPS the limit cannot be set, and a kernel cannot have persisting lines
      persisting_l2_ = false;
      return;
    }
    WARPTUNE_CUDA_CHECK(cudaCtxResetPersistingL2Cache());
    unreserved_l2_ = reserved_l2();
  }
  std::string restore_l2_policy() override {
    std::string change;
    cudaStreamAttrValue policy{};
    if (cudaStreamGetAttribute(stream_, cudaStreamAttributeAccessPolicyWindow, &policy) != cudaSuccess)
      cudaGetLastError();  // a device without such windows
    else if (policy.accessPolicyWindow.num_bytes > 0) {
      change = fmt::format("it gave the stream an access policy window of {} bytes",
                           policy.accessPolicyWindow.num_bytes);
      policy = {};
      WARPTUNE_CUDA_CHECK(cudaStreamSetAttribute(stream_, cudaStreamAttributeAccessPolicyWindow, &policy));
    }
    if (!persisting_l2_) return change;
    if (const std::size_t reserved = reserved_l2(); reserved > unreserved_l2_) {
      change = fmt::format("it reserved {} bytes of the L2 for persisting lines", reserved);
      reset_persisting_cache();
    }
    return change;
  }

 private:
  /// Fills constant memory with values; what tensors fill is left to the launches.
  void fill_constants(PlannedKernel& planned, const std::vector<ConstantMemory>& constants) {
    for (const ConstantMemory& c : constants) {
      void* const address = planned.kernel.constant(c.symbol);
      if (c.tensor_bytes > 0)
        planned.constants.push_back({address, c.tensor_offset, c.tensor_bytes});
      else
        upload(address, c.value.data(), c.value.size(), stream());
    }
    synchronize();  // the copies read the values
  }
  /// Bytes of the L2 for persisting lines.
  static std::size_t reserved_l2() {
    std::size_t bytes = 0;
    WARPTUNE_CUDA_CHECK(cudaDeviceGetLimit(&bytes, cudaLimitPersistingL2CacheSize));
    return bytes;
  }
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
  std::array<std::optional<Kernel>, kDTypes> fill_, count_, compare_;
  std::optional<Kernel> checksum_;
  int shared_carveout_pct_ = 100;  // shared memory of an SM that kernels may use
  bool persisting_l2_ = false;     // the device supports persisting L2 lines
  std::size_t unreserved_l2_ = std::numeric_limits<std::size_t>::max();  // reserved_l2() after a reset
  Buffer counter_, flush_;
  // Set where this device is one of several ranks.
  std::optional<PeerMemory> peer_memory_;
  std::shared_ptr<const Peers> meeting_;  // where ranks meet before a graph is timed
  std::optional<Kernel> meet_;
  unsigned meetings_ = 0;
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

OwnedDevice make_cuda_device(int ordinal, std::string_view arch, std::shared_ptr<RankGroup> group) {
  return OwnedDevice(std::make_unique<CudaDevice>(ordinal, arch, std::move(group)));
}

}  // namespace warptune
#endif
