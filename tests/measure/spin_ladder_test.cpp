// Kernels that wait for a known time, timed like any other row: the measured time must be the known one, and
// a kernel that waits 3 % longer must be reported as slower.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "harness/core/space.h"
#include "harness/device/compile.h"
#include "harness/measure/bench.h"
#include "harness/results/compare.h"
#include "variants/table.h"
#if WARPTUNE_HAS_CUDA
#include <cuda_runtime_api.h>

#include "harness/device/cuda_check.h"
#endif

namespace warptune {
namespace {
namespace fs = std::filesystem;

// `spin` waits by the SM's clock, which counts every cycle. %globaltimer may have steps of 1 us, so it only
// calibrates cycles per nanosecond over a long wait.
[[maybe_unused]] constexpr const char* kSource = R"(
namespace warptune {
struct SpinArgs { float* y; long long* waited; long long cycles; };
__global__ void spin(SpinArgs args) {
  const long long start = clock64();
  long long now;
  do now = clock64(); while (now - start < args.cycles);
  *args.waited = now - start;
  *args.y = static_cast<float>(args.cycles);
}
struct RateArgs { long long* cycles_and_ns; long long ns; };
__global__ void rate(RateArgs args) {
  long long start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  const long long first = clock64();
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (now - start < args.ns);
  args.cycles_and_ns[0] = clock64() - first;
  args.cycles_and_ns[1] = now - start;
}
}  // namespace warptune
)";

TEST(SpinLadder, KernelsCompile) {
#if !WARPTUNE_HAS_CUDA
  GTEST_SKIP() << "no CUDA in this build";
#else
  const fs::path folder = fs::path(::testing::TempDir()) / "spin_ladder_compile";
  fs::create_directories(folder);
  std::ofstream(folder / "spin.cu") << kSource;
  const Compiler compiler(KernelSources(folder), {});
  for (const char* kernel : {"spin", "rate"}) EXPECT_NO_THROW(compiler.compile("spin.cu", kernel, "sm_90a"));
#endif
}

#if WARPTUNE_HAS_CUDA
struct SpinArgs {
  float* y;
  long long* waited;
  long long cycles;
};
struct RateArgs {
  long long* cycles_and_ns;
  long long ns;
};

/// Writes its requested wait, so that the row is verified like any other.
OpEntry spin_op(long long* waited) {
  OpEntry entry;
  Op& op = entry.op;
  op.name = "spin";
  op.dims = {{.name = "cycles", .doc = "of the SM's clock", .fallback = {}, .labels = {}, .min = 0}};
  op.dtypes = {DType::fp32};
  op.tensors = [](const Problem&, std::uint64_t) {
    return std::vector<TensorSpec>{
        {.name = "y", .shape = {1}, .role = Role::output, .cache = CacheState::hot, .values = {}}};
  };
  op.bind = [waited](const Problem& p, std::span<void* const> tensors, void*) {
    return Args(SpinArgs{static_cast<float*>(tensors[0]), waited, p["cycles"]});
  };
  op.cost = [](const Problem&) { return Cost{.bytes = 4, .flops = 0}; };
  op.units = [](const Problem&) { return 1; };
  op.reference = [](const Problem& p, const Inputs&, std::int64_t, Expected& expected) {
    expected.put("y", 0, {static_cast<double>(p["cycles"])});
  };
  op.tolerance = [](const Problem&) { return default_tolerance(DType::fp32); };
  return entry;
}

/// One thread of a kernel of kSource.
class Kernel {
 public:
  Kernel(const std::string& name, const std::string& arch) {
    const fs::path folder = fs::path(::testing::TempDir()) / "spin_ladder";
    fs::create_directories(folder);
    std::ofstream(folder / "spin.cu") << kSource;
    const Cubin cubin = Compiler(KernelSources(folder), {}).compile("spin.cu", name, arch);
    WARPTUNE_CUDA_CHECK(
        cudaLibraryLoadData(&library_, cubin.code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    WARPTUNE_CUDA_CHECK(cudaLibraryGetKernel(&kernel_, library_, cubin.entry.c_str()));
  }
  ~Kernel() { cudaLibraryUnload(library_); }
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  void launch(const void* args, void* stream) const {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(1);
    config.blockDim = dim3(1);
    config.stream = static_cast<cudaStream_t>(stream);
    void* arguments[] = {const_cast<void*>(args)};
    WARPTUNE_CUDA_CHECK(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel_), arguments));
  }

 private:
  cudaLibrary_t library_ = nullptr;
  cudaKernel_t kernel_ = nullptr;
};

class GpuSpinLadder : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
    device_ = open_device("cuda:0");
    spin_ = std::make_unique<Kernel>("spin", device_->facts().arch);
    rate_ = std::make_unique<Kernel>("rate", device_->facts().arch);
    scratch_ = device_->allocate(2 * sizeof(long long));
  }

  /// Measured over 20 ms, once the clock no longer rises.
  double cycles_per_us() {
    const RateArgs args{scratch_.as<long long>(), 20'000'000};
    double rate = 0;
    for (int i = 0; i < 50; ++i) {
      rate_->launch(&args, device_->stream().handle);
      long long counted[2];
      device_->download(counted, scratch_.data(), sizeof(counted));
      const double last =
          std::exchange(rate, 1000.0 * static_cast<double>(counted[0]) / static_cast<double>(counted[1]));
      if (std::abs(rate / last - 1) < 0.001) break;
    }
    return rate;
  }

  struct Rung {
    long long waited = 0;  // cycles, inside the kernel
    Measurement row;
  };
  Rung timed(long long cycles) {
    const OpEntry entry = spin_op(scratch_.as<long long>());
    const Variant variant{.name = "spin", .idea = "waits", .vendor = [this](const Problem&, const Config&) {
                            return [this](const void* args, void* stream) { spin_->launch(args, stream); };
                          }};
    Bench bench(*device_, entry, entry.op.problem(Assignment{{"cycles", cycles}}, DType::fp32), {});
    Rung rung{.row = bench.run(variant, {})};
    device_->download(&rung.waited, scratch_.data(), sizeof(rung.waited));
    return rung;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Kernel> spin_, rate_;
  Buffer scratch_;
};

/// A row's time is the time of the kernel plus the cost of a graph node, measured with a wait of 0.5 us. (An
/// empty kernel can end before the next launch is fetched: its row can measure launch throughput instead of
/// the cost of a node.) With WARPTUNE_EVIDENCE=DIR the rungs are written to DIR/spin_ladder.csv.
TEST_F(GpuSpinLadder, RecoversKnownTimes) {
  const double rate = cycles_per_us();
  std::ofstream csv;
  if (const char* folder = std::getenv("WARPTUNE_EVIDENCE")) {
    fs::create_directories(folder);
    csv.open(fs::path(folder) / "spin_ladder.csv");
    csv << "device,spin_us,in_kernel_us,time_us,ci_low_us,ci_high_us,node_us,recovered_us,error_pct,"
           "sm_clock_mhz\n";
  }
  double node = NAN;
  for (const double us : {0.5, 0.0, 1.0, 2.0, 4.0, 8.0}) {
    const auto [waited, m] = timed(std::llround(us * rate));
    ASSERT_EQ(m.status, Status::ok) << m.detail;
    const double truth = static_cast<double>(waited) / rate;
    if (std::isnan(node)) node = m.time_us - truth;
    const double recovered = m.time_us - node;
    const double error = recovered / truth - 1;
    std::printf("%g us: %.4f us in the kernel, row %.4f us, node %.4f us, recovered %.4f us (%+.2f %%)\n", us,
                truth, m.time_us, node, recovered, 100 * error);
    csv << device_->facts().name << ',' << us << ',' << truth << ',' << m.time_us << ',' << m.ci_low_us << ','
        << m.ci_high_us << ',' << node << ',' << recovered << ',' << 100 * error << ',' << m.clocks.sm_mhz
        << '\n';
    EXPECT_TRUE(us < 1 || std::abs(error) < 0.05) << us << " us";
  }
  EXPECT_NEAR(cycles_per_us() / rate, 1, 0.005) << "the SM clock changed meanwhile";
}

/// A GEMV followed by a kernel that waits 0 us, or 3 % of the time of both. With WARPTUNE_EVIDENCE=DIR each
/// pair is a line of DIR/slowdown.csv.
TEST_F(GpuSpinLadder, ASlowdownOfThreePercentIsCaught) {
  constexpr int kPairs = 20;
  const OpEntry& linear = find_op("linear");
  const Problem problem =
      linear.op.problem(Assignment{{"tokens", 1}, {"in", 4096}, {"out", 12288}}, DType::bf16);
  const Variant& right = linear.variant("gemv_vectorized");
  const Config config = Space(right, problem, device_->facts()).configs().front();
  const auto waiting = [&](long long cycles) {
    return Variant{.name = "waits", .idea = "waits", .vendor = [&, cycles](const Problem& p, const Config&) {
                     const std::shared_ptr<Plan> plan = device_->prepare(right, p, config);
                     const SpinArgs wait{reinterpret_cast<float*>(scratch_.as<long long>() + 1),
                                         scratch_.as<long long>(), cycles};
                     return [this, plan, wait](const void* args, void* stream) {
                       plan->launch(args, {stream});
                       spin_->launch(&wait, stream);
                     };
                   }};
  };
  Bench bench(*device_, linear, problem, {.min_samples = 21});
  const auto runs_of = [&](long long cycles) {
    TimedConfig config{.device = "gpu",
                       .op = "linear",
                       .problem = problem.key(),
                       .variant = "waits",
                       .config = "",
                       .cache = "cold",
                       .sampling = SamplingClass::rerun,
                       .runs = {},
                       .failure = {}};
    for (int run = 0; run < 3; ++run) {
      const Measurement m = bench.run(waiting(cycles), {});
      EXPECT_EQ(m.status, Status::ok) << m.detail;
      config.runs.push_back({.run_id = std::to_string(run),
                             .time_us = m.time_us,
                             .sm_clock_mhz = m.clocks.sm_mhz,
                             .throttled = m.clocks.throttled,
                             .code_hash = "",
                             .samples = m.samples_us});
    }
    return config;
  };
  const auto change = [](const TimedConfig& base, const TimedConfig& now) {
    return compare(std::span(&base, 1), std::span(&now, 1), {}).rows.front();
  };
  const double rate = cycles_per_us();
  TimedConfig base = runs_of(0);
  const auto longer = std::llround(0.03 * base.time_us() * rate);
  std::ofstream csv;
  if (const char* folder = std::getenv("WARPTUNE_EVIDENCE")) {
    fs::create_directories(folder);
    csv.open(fs::path(folder) / "slowdown.csv");
    csv << "base_us,again_us,again_pct,again,slowed_us,slowed_pct,slowed\n";
  }
  int alarms = 0, caught = 0;
  for (int i = 0; i < kPairs; ++i) {
    const TimedConfig slowed = runs_of(longer), again = runs_of(0);
    const RowChange a = change(base, again), b = change(base, slowed);
    alarms += a.change == Change::slower || a.change == Change::faster;
    caught += b.change == Change::slower;
    csv << base.time_us() << ',' << again.time_us() << ',' << 100 * a.effect << ',' << name_of(a.change)
        << ',' << slowed.time_us() << ',' << 100 * b.effect << ',' << name_of(b.change) << '\n';
    base = again;
  }
  std::printf("%d of %d slowdowns of 3 %% caught, %d false alarms\n", caught, kPairs, alarms);
  EXPECT_GE(caught, 19);
  EXPECT_LE(alarms, 1);
}
#endif

}  // namespace
}  // namespace warptune
