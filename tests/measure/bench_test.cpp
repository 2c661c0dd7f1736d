// The bench on good and on faulty variants: each fault costs its own row and has its status.
#include "harness/measure/bench.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "harness/core/error.h"
#include "harness/core/space.h"
#include "harness/device/compile.h"
#include "kernels/rms_norm/args.h"
#include "tests/measure/steady_device.h"
#include "variants/table.h"

namespace warptune {
namespace {

Problem small() {
  const Assignment dims{{"tokens", 3}, {"hidden", 64}};
  return find_op("rms_norm").op.problem(dims, DType::fp32);
}

BenchOptions quick() { return {.min_samples = 6, .max_time = 0.05}; }

/// A host variant that runs the correct one and then does something wrong.
Variant faulty(std::function<void(const RmsNormArgs&)> harm, bool run_first = true) {
  return {.name = "faulty",
          .idea = "wrong on purpose",
          .backend = Backend::host,
          .host = [=](const Problem& p, const Config& c) -> HostFunction {
            const HostFunction right = find_op("rms_norm").variant("host_naive").host(p, c);
            return [=](const void* raw) {
              if (run_first) right(raw);
              harm(*static_cast<const RmsNormArgs*>(raw));
            };
          }};
}

/// A fake measurement that keeps the peaks as the test set them.
MeasurePeaks as_they_are() {
  return [](Device& device) { return device.facts(); };
}

class HostBench : public ::testing::Test {
 protected:
  testing::SteadyDevice device{20};
  Bench bench{device, find_op("rms_norm"), small(), quick(), as_they_are(), device.clock()};
};

TEST_F(HostBench, MeasuresACorrectVariant) {
  const Measurement m = bench.run(find_op("rms_norm").variant("host_naive"), {});
  EXPECT_EQ(m.status, Status::ok) << m.detail;
  EXPECT_DOUBLE_EQ(m.time_us, 20);
  EXPECT_EQ(m.launches_per_sample, 50) << "a sample takes 1 ms";
  EXPECT_EQ(m.samples, 6);
  EXPECT_LT(m.rel_l2_err, 1e-6);
}

TEST(SteadyBench, SamplesUntilMaxTimeIfTheTimesSpread) {
  testing::SteadyDevice device(20, 0.1);  // 18 and 22 us
  Bench bench(device, find_op("rms_norm"), small(), quick(), as_they_are(), device.clock());
  const Measurement m = bench.run(find_op("rms_norm").variant("host_naive"), {});
  EXPECT_EQ(m.status, Status::ok) << m.detail;
  EXPECT_NEAR(m.samples, 50, 5) << "0.05 s of samples of 1 ms";
  EXPECT_NEAR(m.time_us_min, 18, 1e-9);
  EXPECT_LT(m.ci_low_us, m.ci_high_us);
  EXPECT_NEAR(m.time_us_p90, 22, 1e-9);
  EXPECT_TRUE(m.detail.starts_with("stopped at max_time with an interval of")) << m.detail;
}

TEST(SteadyBench, RestsBetweenTheSamplesOfADutyCycle) {
  testing::SteadyDevice device(20);
  BenchOptions options = quick();
  options.duty_cycle = 0.25;
  Bench bench(device, find_op("rms_norm"), small(), options, as_they_are(), device.clock());
  const double start = steady_seconds();
  const Measurement m = bench.run(find_op("rms_norm").variant("host_naive"), {});
  EXPECT_GE(steady_seconds() - start, 6 * 3e-3) << "six samples of 1 ms, three times as much rest";
  EXPECT_DOUBLE_EQ(m.time_us, 20);
  EXPECT_EQ(m.detail, "duty cycle 0.25");
}

TEST_F(HostBench, AVariantThatWritesNothingFails) {
  const Measurement m = bench.run(faulty([](const RmsNormArgs&) {}, false), {});
  EXPECT_EQ(m.status, Status::wrong_result);
  EXPECT_NE(m.detail.find("were not written"), std::string::npos) << m.detail;
}

TEST_F(HostBench, NanFails) {
  const Measurement m =
      bench.run(faulty([](const RmsNormArgs& a) { static_cast<float*>(a.y)[5] = NAN; }), {});
  EXPECT_EQ(m.status, Status::wrong_result);
}

TEST_F(HostBench, OneWrongElementFails) {
  const Measurement m =
      bench.run(faulty([](const RmsNormArgs& a) { static_cast<float*>(a.y)[100] += 0.01f; }), {});
  EXPECT_EQ(m.status, Status::wrong_result);
  EXPECT_NE(m.detail.find("'y'[100]"), std::string::npos) << m.detail;
}

TEST_F(HostBench, WritingPastTheEndOrBeforeTheStartFails) {
  for (const int at : {3 * 64, -1}) {
    const Measurement m =
        bench.run(faulty([at](const RmsNormArgs& a) { static_cast<float*>(a.y)[at] = 1; }), {});
    EXPECT_EQ(m.status, Status::wrong_result);
    EXPECT_NE(m.detail.find("outside 'y'"), std::string::npos) << m.detail;
  }
}

TEST_F(HostBench, ResultsForTheFirstInputsFailOnOthers) {
  auto kept = std::make_shared<std::vector<float>>();
  const Measurement m = bench.run(faulty([kept](const RmsNormArgs& a) {
                                    auto* y = static_cast<float*>(a.y);
                                    if (kept->empty()) kept->assign(y, y + 3 * 64);
                                    std::copy(kept->begin(), kept->end(), y);
                                  }),
                                  {});
  EXPECT_EQ(m.status, Status::wrong_result);
  EXPECT_NE(m.detail.find("after timing"), std::string::npos) << m.detail;
}

TEST_F(HostBench, AVariantThatThrowsGetsAStatusAndTheNextOneRuns) {
  const Measurement bad = bench.run(faulty([](const RmsNormArgs&) { throw std::runtime_error("boom"); }), {});
  EXPECT_EQ(bad.status, Status::launch_error);
  EXPECT_EQ(bad.detail, "boom");
  const Measurement greedy =
      bench.run(faulty([](const RmsNormArgs&) { throw ResourceError("too much"); }), {});
  EXPECT_EQ(greedy.status, Status::resource);
  EXPECT_EQ(bench.run(find_op("rms_norm").variant("host_naive"), {}).status, Status::ok);
}

/// The host with the backend of a GPU, so that its peaks are trusted.
class TrustedDevice : public testing::SteadyDevice {
 public:
  explicit TrustedDevice(double launch_us = 20) : SteadyDevice(launch_us), facts_(real_->facts()) {
    facts_.backend = Backend::cuda;
    facts_.l2_bytes = 1 << 20;
  }
  const DeviceFacts& facts() const override { return facts_; }
  void set_peaks(const DeviceFacts& measured) override { facts_.set_peaks(measured); }

 private:
  DeviceFacts facts_;
};

/// Records the inputs that the launches of each timed replay read, and whether caches were flushed before it.
class WatchedDevice : public TrustedDevice {
 public:
  WatchedDevice() : TrustedDevice(400) {}
  struct Seen {
    std::vector<const void*> inputs;
    bool flushed = false;
  };
  void flush_cache(Stream stream) override {
    flushed_ = true;
    TrustedDevice::flush_cache(stream);
  }
  double time_us(CapturedGraph& graph) override {
    read_.clear();
    const double us = TrustedDevice::time_us(graph);
    replays.push_back({read_, flushed_});
    flushed_ = false;
    return us;
  }
  void note(const void* input) { read_.push_back(input); }

  std::vector<Seen> replays;

 private:
  std::vector<const void*> read_;
  bool flushed_ = false;
};

// Persisting L2 lines then cannot be hits: no set is used twice.
TEST(ColdSamples, UseEachSetOnceAndBeginWithAFlushOnAGpu) {
  for (const CacheMode cache : {CacheMode::cold, CacheMode::hot}) {
    WatchedDevice device;
    BenchOptions options = quick();
    options.cache = cache;
    Bench bench(device, find_op("rms_norm"),
                find_op("rms_norm").op.problem({{"tokens", 64}, {"hidden", 4096}}, DType::fp32), options,
                as_they_are(), device.clock());
    const void* checked = nullptr;  // the input of the last launch before a replay, which is a verification
    const Variant variant = faulty([&](const RmsNormArgs& args) {
      device.note(args.x);
      if (device.replays.empty() && !checked) checked = args.x;
    });
    const Measurement m = bench.run(variant, {});
    ASSERT_EQ(m.status, Status::ok) << m.detail;
    ASSERT_GE(device.replays.size(), static_cast<std::size_t>(m.samples) + 2);
    // After the samples one more and the first launches of another are verified.
    const auto &whole = device.replays.end()[-2], &part = device.replays.back();
    EXPECT_LT(part.inputs.size(), whole.inputs.size());
    EXPECT_TRUE(std::equal(part.inputs.begin(), part.inputs.end(), whole.inputs.begin()));
    EXPECT_EQ(part.flushed, cache == CacheMode::cold);
    for (std::size_t i = device.replays.size() - 2 - m.samples; i < device.replays.size() - 1; ++i) {
      const auto& [inputs, flushed] = device.replays[i];
      const std::set<const void*> different(inputs.begin(), inputs.end());
      EXPECT_EQ(static_cast<int>(inputs.size()), m.launches_per_sample);
      EXPECT_EQ(different.size(), cache == CacheMode::cold ? inputs.size() : 1);
      EXPECT_EQ(flushed, cache == CacheMode::cold);
      EXPECT_EQ(inputs.back(), checked) << "what is checked afterwards";
    }
    EXPECT_EQ(m.launches_per_sample, 3) << "a sample takes at least 1 ms";
  }
}

/// A fake measurement of the arithmetic peak that counts its calls.
MeasurePeaks arithmetic_of(double tflop_per_s, int& calls) {
  return [=, &calls](Device& device) {
    ++calls;
    DeviceFacts facts = device.facts();
    facts.vector_tflop_per_s = tflop_per_s;
    device.set_peaks(facts);
    return facts;
  };
}

TEST(Peaks, ATimeThatRaisedPeaksAllowIsOk) {
  TrustedDevice device;
  int calls = 0;
  arithmetic_of(1e-9, calls)(device);  // as measured on a busy device: almost no arithmetic
  Bench bench(device, find_op("rms_norm"), small(), quick(), arithmetic_of(100, calls), device.clock());
  for (int i = 0; i < 2; ++i) {
    const Measurement m = bench.run(find_op("rms_norm").variant("host_naive"), {});
    EXPECT_EQ(m.status, Status::ok) << m.detail;
    EXPECT_LT(m.floor_us, 1);
  }
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(device.facts().vector_tflop_per_s, 100);
}

TEST(Peaks, ATimeAboveConfirmedPeaksIsTooFast) {
  TrustedDevice device;
  int calls = 0;
  arithmetic_of(1e-9, calls)(device);
  Bench bench(device, find_op("rms_norm"), small(), quick(), arithmetic_of(1e-10, calls), device.clock());
  for (int i = 0; i < 9; ++i) {
    const Measurement m = bench.run(find_op("rms_norm").variant("host_naive"), {});
    EXPECT_EQ(m.status, Status::too_fast);
    EXPECT_NE(m.detail.find("peaks allow"), std::string::npos) << m.detail;
  }
  EXPECT_EQ(calls, 4) << "a problem measures the peaks again a limited number of times";
  EXPECT_EQ(device.facts().vector_tflop_per_s, 1e-9) << "the higher one is kept";
}

TEST(Peaks, AHotTimeMustNotBeatTheL2) {
  TrustedDevice device;
  DeviceFacts facts = device.facts();
  facts.l2_read_gb_per_s = 1e-9;
  device.set_peaks(facts);
  BenchOptions hot = quick();
  hot.cache = CacheMode::hot;
  Bench bench(device, find_op("rms_norm"), small(), hot, as_they_are(), device.clock());
  EXPECT_EQ(bench.run(find_op("rms_norm").variant("host_naive"), {}).status, Status::too_fast);
}

TEST(Peaks, EachTimeOfAFinalistIsCheckedAgainstThePeaks) {
  TrustedDevice device;
  DeviceFacts facts = device.facts();
  facts.read_gb_per_s = 1e-9;  // a hot launch reads nothing from memory
  device.set_peaks(facts);
  Bench bench(device, find_op("rms_norm"), small(), quick(), as_they_are(), device.clock());
  const Variant& naive = find_op("rms_norm").variant("host_naive");
  const FinalistTimes slow_memory = bench.time_interleaved({{&naive, {}}}, 6).front();
  EXPECT_EQ(slow_memory.main.status, Status::too_fast);
  EXPECT_EQ(slow_memory.hot.status, Status::ok) << slow_memory.hot.detail;
  EXPECT_EQ(slow_memory.isolated.status, Status::too_fast);
  facts.read_gb_per_s = 0;
  facts.l2_read_gb_per_s = 1e-9;
  device.set_peaks(facts);
  EXPECT_EQ(bench.time_interleaved({{&naive, {}}}, 6).front().hot.status, Status::too_fast);
}

TEST(Peaks, AFewPercentAboveAPeakAreAllowed) {
  TrustedDevice device(2000);
  Bench bench(device, find_op("rms_norm"), small(), quick(), as_they_are(), device.clock());
  const double flops = find_op("rms_norm").op.cost(small()).flops;
  DeviceFacts facts = device.facts();
  const auto status_at = [&](double times) {  // with peaks such that 2000 us are so many times too fast
    facts.vector_tflop_per_s = flops / (2000 * times) * 1e-6;
    device.set_peaks(facts);
    return bench.run(find_op("rms_norm").variant("host_naive"), {}).status;
  };
  EXPECT_EQ(status_at(1.02), Status::ok);
  EXPECT_EQ(status_at(1.06), Status::too_fast);
}

TEST_F(HostBench, ATimeAboveAHostsPeaksGetsANote) {
  DeviceFacts slow = device.facts();
  slow.vector_tflop_per_s = 1e-9;
  device.set_peaks(slow);
  const Measurement m = bench.run(find_op("rms_norm").variant("host_naive"), {});
  EXPECT_EQ(m.status, Status::ok);
  EXPECT_NE(m.detail.find("peaks allow"), std::string::npos) << m.detail;
}

TEST_F(HostBench, AConfigurationThatIsSurelySlowerIsAbandoned) {
  const Measurement m = bench.run(find_op("rms_norm").variant("host_naive"), {}, 1e-6);
  EXPECT_EQ(m.status, Status::ok) << m.detail;
  EXPECT_EQ(m.sampling, SamplingClass::abandoned);
  EXPECT_EQ(m.samples, 2);
  EXPECT_EQ(m.detail, "abandoned after 2 samples: surely slower than the best");
}

TEST_F(HostBench, FinalistsAreTimedColdHotAndIsolated) {
  const Variant& right = find_op("rms_norm").variant("host_naive");
  // Correct until it was called so often that it must be a finalist.
  const auto calls = std::make_shared<int>(0);
  const Variant late = faulty([calls](const RmsNormArgs& a) {
    if (++*calls > 100) static_cast<float*>(a.y)[0] += 1;
  });
  const auto times = bench.time_interleaved({{&right, {}}, {&late, {}}}, 3);
  ASSERT_EQ(times.size(), 2u);
  for (const Measurement* m : {&times[0].main, &times[0].hot, &times[0].isolated}) {
    EXPECT_EQ(m->status, Status::ok) << m->detail;
    EXPECT_EQ(m->samples, 3);
    EXPECT_DOUBLE_EQ(m->time_us, 20);
  }
  EXPECT_EQ(times[0].isolated.launches_per_sample, 1);
  EXPECT_EQ(times[1].main.status, Status::wrong_result);
  EXPECT_EQ(bench.run(right, {}).status, Status::ok);
  const FinalistTimes alone = bench.time_interleaved({{&right, {}}}, 3, {.other_caches = false}).front();
  EXPECT_EQ(alone.main.samples, 3);
  EXPECT_EQ(alone.hot.samples, 0);
  EXPECT_EQ(alone.isolated.samples, 0);
}

TEST_F(HostBench, AnOpThatChangesItsInputsIsCheckedAfterOneLaunch) {
  const OpEntry& advance = find_op("advance");
  const Assignment dims{{"batch", 3}};
  Bench changing(device, advance, advance.op.problem(dims, DType::int32), quick(), as_they_are(),
                 device.clock());
  const Measurement m = changing.run(advance.variant("host_naive"), {});
  EXPECT_EQ(m.status, Status::ok) << m.detail;
}

TEST(FloorUs, IsTheLargerOfMemoryAndArithmetic) {
  DeviceFacts facts;
  facts.read_gb_per_s = 1000;
  facts.matrix_tflop_per_s = 100;
  facts.vector_tflop_per_s = 10;
  const Problem bf16{.dtype = DType::bf16}, fp32{.dtype = DType::fp32};
  EXPECT_DOUBLE_EQ(floor_us(facts, {.bytes = 1e6, .flops = 0}, bf16), 1.0);
  EXPECT_DOUBLE_EQ(floor_us(facts, {.bytes = 1e6, .flops = 1e9}, bf16), 10.0);
  EXPECT_DOUBLE_EQ(floor_us(facts, {.bytes = 1e6, .flops = 1e9}, fp32), 100.0);
}

/// Else a fast kernel on tensor cores would count as impossibly fast.
TEST(FloorUs, OfFp32OnTensorCoresCountsTheirProducts) {
  DeviceFacts facts;
  facts.matrix_tflop_per_s = 120;
  facts.vector_tflop_per_s = 10;
  const Problem bf16{.dtype = DType::bf16}, fp32{.dtype = DType::fp32};
  EXPECT_DOUBLE_EQ(floor_us(facts, {.flops = 1.2e9, .tf32_products = 3}, bf16), 10);
  EXPECT_DOUBLE_EQ(floor_us(facts, {.flops = 1.2e9, .fp8_products = true}, bf16), 5);
  EXPECT_DOUBLE_EQ(floor_us(facts, {.flops = 1.2e9, .tf32_products = 1}, fp32), 20);
  EXPECT_DOUBLE_EQ(floor_us(facts, {.flops = 1.2e9, .tf32_products = 3}, fp32), 60);
  EXPECT_DOUBLE_EQ(floor_us(facts, {.flops = 1.2e9}, fp32), 120);
  facts.vector_tflop_per_s = 30;
  EXPECT_DOUBLE_EQ(floor_us(facts, {.flops = 1.2e9, .tf32_products = 3}, fp32), 40);
}

TEST(GpuBench, MeasuresEveryRmsNormVariant) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto device = open_device("cuda:0");
  const DeviceFacts peaks = measure_peaks(*device);
  std::printf("read %.0f GB/s, copy %.0f GB/s, fp32 %.1f TFLOP/s, matrix %.0f TFLOP/s, empty %.3f us\n",
              peaks.read_gb_per_s, peaks.copy_gb_per_s, peaks.vector_tflop_per_s, peaks.matrix_tflop_per_s,
              peaks.launch_floor_us);
  const OpEntry& entry = find_op("rms_norm");
  for (const std::int64_t tokens : {1, 4096}) {
    const Assignment dims{{"tokens", tokens}, {"hidden", 4096}};
    Bench bench(*device, entry, entry.op.problem(dims, DType::bf16), {});
    for (const Variant& variant : entry.variants) {
      if (variant.backend != Backend::cuda) continue;
      double best = INFINITY;
      for (const Config& config : Space(variant, bench.problem(), device->facts()).configs()) {
        const Measurement m = bench.run(variant, config);
        EXPECT_EQ(m.status, Status::ok) << variant.name << ' ' << config.str() << ": " << m.detail;
        best = std::min(best, m.time_us);
      }
      std::printf("%s %s best %.3f us\n", bench.problem().key().c_str(), variant.name.c_str(), best);
    }
  }
}

TEST(GpuBench, FillIsTheSameOnHostAndDevice) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto gpu = open_device("cuda:0"), host = open_device("host");
  for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
    constexpr std::int64_t kCount = 100'003;
    const std::size_t bytes = kCount * size_of(dtype);
    const Buffer there = gpu->allocate(bytes);
    std::vector<unsigned char> here(bytes), back(bytes);
    gpu->fill_random(there.data(), dtype, kCount, 0x123456789abcull, 0.3f);
    gpu->download(back.data(), there.data(), bytes);
    host->fill_random(here.data(), dtype, kCount, 0x123456789abcull, 0.3f);
    EXPECT_EQ(here, back) << name_of(dtype);

    const RowsWithin rows{.first = 300, .width = 7, .stride = 50};
    gpu->fill_random(there.data(), dtype, 1000, 5, 0.3f, rows);
    gpu->download(back.data(), there.data(), bytes);
    host->fill_random(here.data(), dtype, 1000, 5, 0.3f, rows);
    EXPECT_TRUE(std::equal(here.begin(), here.begin() + 1000 * size_of(dtype), back.begin()));
  }
}

}  // namespace
}  // namespace warptune
