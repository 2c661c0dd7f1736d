// Variants that cheat on the GPU, each rejected by name. Their kernels are in tests/hostile.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

#include "harness/device/compile.h"
#include "harness/measure/bench.h"
#include "kernels/rms_norm/args.h"
#include "variants/table.h"
#if WARPTUNE_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace warptune {
namespace {
namespace fs = std::filesystem;

constexpr int kGpuTokens = 3, kGpuHidden = 4096;

/// The project's kernels and the hostile ones as one folder.
fs::path kernel_folder() {
  const fs::path folder = fs::path(::testing::TempDir()) / "hostile_kernels";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const fs::path root = SOURCE_ROOT;
  for (const auto& entry : fs::directory_iterator(root / "kernels"))
    fs::create_symlink(entry.path(), folder / entry.path().filename());
  fs::create_symlink(root / "tests" / "hostile", folder / "hostile");
  return folder;
}

Variant hostile(const std::string& kernel, unsigned blocks_per_token = 1) {
  return {.name = "hostile",
          .idea = "cheats",
          .stages = {{"hostile/hostile.cu", kernel,
                      LaunchExpressions{.grid = {"tokens", blocks_per_token}, .block = {128}}}}};
}

Problem problem() {
  const Assignment dims{{"tokens", kGpuTokens}, {"hidden", kGpuHidden}};
  return find_op("rms_norm").op.problem(dims, DType::fp32);
}

const char* const kKernels[] = {"writes_nothing<{dtype}, {hidden}>",
                                "writes_nan<{dtype}, {hidden}>",
                                "returns_predecessor<{dtype}, {hidden}>",
                                "edits_inputs<{dtype}, {hidden}>",
                                "writes_outside<{dtype}, {hidden}, 0>",
                                "writes_outside<{dtype}, {hidden}, 1>",
                                "reads_past_end<{dtype}, {hidden}>",
                                "skips_after_ten<{dtype}, {hidden}>",
                                "narrow_accumulators<{dtype}, {hidden}>",
                                "right_for_first_inputs<{dtype}, {hidden}>",
                                "races<{dtype}, {hidden}>",
                                "recognizes_buffers<{dtype}, {hidden}>",
                                "skips_other_buffers<{dtype}, {hidden}>",
                                "skips_inner_launches<{dtype}, {hidden}>",
                                "waits_first_in_graph<{dtype}, {hidden}>",
                                "burns_first<{dtype}, {hidden}>",
                                "prefetches_weights<{dtype}, {hidden}, 1>",
                                "prefetches_weights<{dtype}, {hidden}, 0>"};

TEST(HostileKernels, Compile) {
#if !WARPTUNE_HAS_CUDA
  GTEST_SKIP() << "no CUDA in this build";
#else
  const Compiler compiler(KernelSources(kernel_folder()), default_cache_folder());
  for (const char* kernel : kKernels) {
    const Variant variant = hostile(kernel);
    EXPECT_NO_THROW(compiler.compile("hostile/hostile.cu",
                                     expand_kernel_name(variant, variant.stages[0], problem(), {}), "sm_90a"))
        << kernel;
  }
#endif
}

class GpuHostile : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
    ::setenv("WARPTUNE_KERNELS", kernel_folder().c_str(), 1);
    device_ = open_device("cuda:0");
    ::unsetenv("WARPTUNE_KERNELS");
    entry_ = &find_op("rms_norm");
  }
  /// Expects a failure with rotating sets of weights, and with one set.
  void expect_wrong(const Variant& variant, const std::string& text, Status status = Status::wrong_result,
                    std::initializer_list<CacheMode> caches = {CacheMode::cold, CacheMode::hot}) {
    for (const CacheMode cache : caches) {
      Bench bench(*device_, *entry_, problem(), {.cache = cache, .min_samples = 6, .max_time = 0.02});
      const Measurement m = bench.run(variant, {});
#if WARPTUNE_HAS_CUDA
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // a LateWorker is done then
      cudaDeviceSynchronize();  // work on side streams must not outlive the tensors
#endif
      EXPECT_EQ(m.status, status) << m.detail;
      EXPECT_NE(m.detail.find(text), std::string::npos) << m.detail;
      // The next configuration is not affected.
      const Measurement good = bench.run(entry_->variant("naive"), {{"block", 128}});
      EXPECT_EQ(good.status, Status::ok) << good.detail;
    }
  }
  /// The time of a variant that is right, in us.
  double time_of(const Variant& variant, CacheMode cache, const Config& config = {}) {
    Bench bench(*device_, *entry_, problem(), {.cache = cache, .min_samples = 21, .max_time = 0.2});
    const Measurement m = bench.run(variant, config);
    EXPECT_EQ(m.status, Status::ok) << m.detail;
    return m.time_us;
  }
  std::unique_ptr<Device> device_;
  const OpEntry* entry_ = nullptr;
};

TEST_F(GpuHostile, WritesNothing) {
  expect_wrong(hostile(kKernels[0]), "12288 of 12288 elements of 'y' were not written");
}
TEST_F(GpuHostile, WritesNan) { expect_wrong(hostile(kKernels[1]), "before timing: 3 of 12288"); }
TEST_F(GpuHostile, ReturnsTheResultOfThePreviousLaunch) {
  expect_wrong(hostile(kKernels[2]), "after timing: 'y'[");
}
TEST_F(GpuHostile, EditsItsInputs) { expect_wrong(hostile(kKernels[3]), "input 'x' was changed"); }
TEST_F(GpuHostile, WritesOnePastTheEnd) {
  expect_wrong(hostile(kKernels[4]), "memory outside 'y' was written");
}
TEST_F(GpuHostile, WritesOneBeforeTheStart) {
  expect_wrong(hostile(kKernels[5]), "memory outside 'y' was written");
}
TEST_F(GpuHostile, SkipsTheWorkAfterTenCalls) {
  expect_wrong(hostile(kKernels[7]), "after timing: 12288 of 12288");
}
TEST_F(GpuHostile, KeepsNarrowAccumulators) { expect_wrong(hostile(kKernels[8]), "before timing: 'y'["); }
TEST_F(GpuHostile, IsRightOnlyForTheFirstInputs) { expect_wrong(hostile(kKernels[9]), "after timing: 'y'["); }
TEST_F(GpuHostile, RecognizesItsBuffersByTheirAddresses) {
  expect_wrong(hostile(kKernels[11]), "after timing: 'y'[");
}
TEST_F(GpuHostile, ComputesOnlyForTheBuffersOfTheFirstLaunch) {
  expect_wrong(hostile(kKernels[12]), "of a sample: 12288 of 12288 elements of 'y' were not written",
               Status::wrong_result, {CacheMode::cold});
}
TEST_F(GpuHostile, ComputesOnlyTheFirstAndTheLastLaunchOfASample) {
  expect_wrong(hostile(kKernels[13]), "of a sample: 12288 of 12288 elements of 'y' were not written");
}
TEST_F(GpuHostile, BurnsInItsFirstLaunch) {
  expect_wrong(hostile(kKernels[15]), "a launch took 1.5 s where it was verified, and ");
}

// It gains nothing: the wait is part of the time.
TEST_F(GpuHostile, WaitsInTheFirstLaunchOfAGraph) {
  for (const CacheMode cache : {CacheMode::cold, CacheMode::hot})
    EXPECT_GT(time_of(hostile(kKernels[14]), cache),
              time_of(entry_->variant("naive"), cache, {{"block", 128}}));
}

// It gains nothing: the flush resets the lines. Without that its weights would be hits in the L2.
TEST_F(GpuHostile, KeepsItsWeightsInTheL2) {
  EXPECT_GT(time_of(hostile(kKernels[16]), CacheMode::cold),
            0.95 * time_of(hostile(kKernels[17]), CacheMode::cold));
}

TEST_F(GpuHostile, RacesBetweenBlocks) { expect_wrong(hostile(kKernels[10], 2), "'y'["); }

// It does not change the result: only memcheck detects it and makes the launch fail (scripts/sanitize.sh
// hostile).
TEST_F(GpuHostile, ReadsPastTheEnd) {
  Bench bench(*device_, *entry_, problem(), {.min_samples = 6, .max_time = 0.02});
  Measurement m;
  try {
    m = bench.run(hostile(kKernels[6]), {});
  } catch (const std::exception& e) {
    m = {.status = Status::launch_error, .detail = e.what()};
  }
  std::printf("%s %s\n", std::string(name_of(m.status)).c_str(), m.detail.c_str());
  EXPECT_TRUE(m.status == Status::ok || m.status == Status::launch_error) << m.detail;
}

#if WARPTUNE_HAS_CUDA
/// Passes the launch of the correct kernel to `harm`.
Variant faulty(Device& device,
               std::function<void(const Plan& right, const void* args, cudaStream_t stream)> harm) {
  return {.name = "hostile", .idea = "cheats", .vendor = [&device, harm](const Problem& p, const Config&) {
            const std::shared_ptr<Plan> right =
                device.prepare(find_op("rms_norm").variant("naive"), p, {{"block", 128}});
            return [right, harm](const void* args, void* stream) {
              harm(*right, args, static_cast<cudaStream_t>(stream));
            };
          }};
}

TEST_F(GpuHostile, ComputesOnASideStream) {
  cudaStream_t side = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking), cudaSuccess);
  // So early that the first check may find the result, perhaps after the end of the launch; a replay of the
  // graph does not compute it at all.
  expect_wrong(faulty(*device_, [side](const Plan& right, const void* args,
                                       cudaStream_t) { right.launch(args, {side}); }),
               "written");
  // So late that the first check finds at most part of it.
  expect_wrong(faulty(*device_,
                      [side](const Plan& right, const void* args, cudaStream_t) {
                        const auto sleep = [](void*) {
                          std::this_thread::sleep_for(std::chrono::milliseconds(5));
                        };
                        cudaLaunchHostFunc(side, sleep, nullptr);
                        right.launch(args, {side});
                      }),
               "of 12288 elements of 'y' were not written");
  cudaStreamSynchronize(side);
  cudaStreamDestroy(side);
}

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &status);
  return status != cudaStreamCaptureStatusNone;
}

/// A stream that the harness does not know.
struct SideStream {
  SideStream() { cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking); }
  ~SideStream() {
    cudaStreamSynchronize(handle);
    cudaStreamDestroy(handle);
  }
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;
  cudaStream_t handle = nullptr;
};

TEST_F(GpuHostile, ForksAStreamThatItDoesNotJoin) {
  const SideStream side;
  cudaEvent_t fork = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming), cudaSuccess);
  expect_wrong(faulty(*device_,
                      [&](const Plan& right, const void* args, cudaStream_t stream) {
                        if (!is_captured(stream)) return right.launch(args, {stream});
                        cudaEventRecord(fork, stream);
                        cudaStreamWaitEvent(side.handle, fork, 0);
                        right.launch(args, {side.handle});
                      }),
               "unjoined", Status::launch_error);
  cudaEventDestroy(fork);
}

/// A thread that launches a kernel on another stream once no launch has asked for it for 300 us.
class LateWorker {
 public:
  using Launch = std::function<void(cudaStream_t)>;
  /// What ask() takes.
  void* request(Launch launch) { return &requests_.emplace_back(this, std::move(launch)); }
  static void ask(void* request) {
    const auto& [worker, launch] = *static_cast<const Request*>(request);
    const std::lock_guard lock(worker->mutex_);
    worker->wanted_ = &launch;
    worker->asked_.notify_one();
  }

 private:
  using Request = std::pair<LateWorker*, Launch>;
  void work(const std::stop_token& stop) {
    const auto is_asked = [&] { return wanted_ != nullptr; };
    std::unique_lock lock(mutex_);
    while (asked_.wait(lock, stop, is_asked)) {
      const Launch* const launch = std::exchange(wanted_, nullptr);
      if (asked_.wait_for(lock, stop, std::chrono::microseconds(300), is_asked)) continue;
      (*launch)(side_.handle);
      cudaStreamSynchronize(side_.handle);
    }
  }

  SideStream side_;
  std::deque<Request> requests_;
  std::mutex mutex_;
  std::condition_variable_any asked_;
  const Launch* wanted_ = nullptr;
  std::jthread thread_{[this](const std::stop_token& stop) { work(stop); }};
};

TEST_F(GpuHostile, LetsAThreadComputeAfterTheLaunch) {
  const std::shared_ptr<Plan> naive = device_->prepare(entry_->variant("naive"), problem(), {{"block", 128}});
  LateWorker late;
  expect_wrong(faulty(*device_,
                      [&](const Plan& right, const void* args, cudaStream_t stream) {
                        if (!is_captured(stream)) return right.launch(args, {stream});
                        const RmsNormArgs own = *static_cast<const RmsNormArgs*>(args);
                        cudaLaunchHostFunc(
                            stream, LateWorker::ask,
                            late.request([naive, own](cudaStream_t side) { naive->launch(&own, {side}); }));
                      }),
               "after timing: ");
}

// It could slow the variants that are timed next. A flush before each sample waits for it.
TEST_F(GpuHostile, LeavesWorkOnAnotherStream) {
  const SideStream side;
  bool is_left = false;
  expect_wrong(faulty(*device_,
                      [&](const Plan& right, const void* args, cudaStream_t stream) {
                        right.launch(args, {stream});
                        if (is_captured(stream) && !std::exchange(is_left, true))
                          cudaLaunchHostFunc(
                              side.handle,
                              [](void*) { std::this_thread::sleep_for(std::chrono::seconds(1)); }, nullptr);
                        if (!is_captured(stream)) is_left = false;
                      }),
               "after timing: work on another stream went on for ", Status::wrong_result, {CacheMode::hot});
}

TEST_F(GpuHostile, ReservesPersistingLines) {
  int bytes = 0;
  cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxPersistingL2CacheSize, 0);
  if (bytes == 0) GTEST_SKIP() << "a device without persisting L2 lines";
  expect_wrong(faulty(*device_,
                      [&](const Plan& right, const void* args, cudaStream_t stream) {
                        cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, static_cast<std::size_t>(bytes));
                        right.launch(args, {stream});
                      }),
               "of the L2 for persisting lines");
}

TEST_F(GpuHostile, GivesTheStreamAnAccessPolicyWindow) {
  expect_wrong(faulty(*device_,
                      [](const Plan& right, const void* args, cudaStream_t stream) {
                        cudaStreamAttrValue policy{};
                        policy.accessPolicyWindow.base_ptr =
                            const_cast<void*>(static_cast<const RmsNormArgs*>(args)->weight);
                        policy.accessPolicyWindow.num_bytes = kGpuHidden * sizeof(float);
                        policy.accessPolicyWindow.hitRatio = 1;
                        policy.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
                        policy.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
                        cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &policy);
                        right.launch(args, {stream});
                      }),
               "before timing: it gave the stream an access policy window of 16384 bytes");
}

TEST_F(GpuHostile, SkipsWhenCaptured) {
  expect_wrong(faulty(*device_,
                      [](const Plan& right, const void* args, cudaStream_t stream) {
                        if (!is_captured(stream)) right.launch(args, {stream});
                      }),
               "12288 of 12288 elements of 'y' were not written");
}
#endif

}  // namespace
}  // namespace warptune
