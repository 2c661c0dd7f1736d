// A verified run under a caller's own sampling rule.
#include "harness/measure/verified_run.h"

#include <gtest/gtest.h>

#include "kernels/rms_norm/args.h"
#include "tests/measure/steady_device.h"
#include "variants/table.h"

namespace warptune {
namespace {

class VerifiedRun : public ::testing::Test {
 protected:
  const OpEntry& entry_ = find_op("rms_norm");
  testing::SteadyDevice device_{20};
  Workbench work_{device_,
                  entry_,
                  entry_.op.problem(Assignment{{"tokens", 3}, {"hidden", 64}}, DType::fp32),
                  {.cache = CacheMode::hot},
                  device_.clock()};
  std::vector<int> asked_;  // the launches of each call of `three`

  /// Takes three samples.
  TakeSamples three() {
    return [this](const std::function<Sample()>& take, int launches) {
      asked_.push_back(launches);
      Samples samples;
      for (int i = 0; i < 3; ++i) samples.us.push_back(take().us);
      return samples;
    };
  }
};

TEST_F(VerifiedRun, TakesAsManySamplesOfAsManyLaunchesAsTheCallerWants) {
  const Variant& naive = entry_.variant("host_naive");
  const Measurement by_time = verified_run(work_, naive, {}, {.sampling = three()}, device_.clock());
  EXPECT_EQ(by_time.status, Status::ok) << by_time.detail;
  EXPECT_EQ(by_time.samples, 3);
  EXPECT_DOUBLE_EQ(by_time.time_us, 20);
  const Measurement seven =
      verified_run(work_, naive, {}, {.sampling = three(), .launches = 7}, device_.clock());
  EXPECT_EQ(seven.launches_per_sample, 7);
  EXPECT_DOUBLE_EQ(seven.time_us, 20) << "per launch";
  verified_run(work_, naive, {}, {.sampling = three(), .timing = Timing::isolated, .launches = 7},
               device_.clock());
  EXPECT_EQ(asked_, (std::vector<int>{50, 7, 1})) << "a millisecond; as given; isolated is one launch";
}

TEST_F(VerifiedRun, DoesNotTimeAWrongResult) {
  const Variant wrong{
      .name = "wrong",
      .idea = "wrong on purpose",
      .backend = Backend::host,
      .host = [](const Problem&, const Config&) -> HostFunction { return [](const void*) {}; }};
  const Measurement m = verified_run(work_, wrong, {}, {.sampling = three()}, device_.clock());
  EXPECT_EQ(m.status, Status::wrong_result);
  EXPECT_TRUE(asked_.empty());
  EXPECT_GT(work_.times()[TuningStage::verify], 0);
  EXPECT_EQ(work_.times()[TuningStage::samples], 0);
}

/// Launches leave it work: before the next checksums are known, or after that.
class LateDevice : public testing::SteadyDevice {
 public:
  using Work = std::function<void()>;
  LateDevice() : SteadyDevice(20) {}
  std::vector<std::uint64_t> checksums(std::span<const Region> regions) override {
    if (const Work work = std::exchange(before, nullptr)) work();
    const auto sums = SteadyDevice::checksums(regions);
    if (const Work work = std::exchange(after, nullptr)) work();
    return sums;
  }
  std::string restore_l2_policy() override { return std::exchange(l2_change, {}); }

  Work before, after;
  std::string l2_change;
};

class VerifiedLate : public VerifiedRun {
 protected:
  using Launch = std::function<void(const HostFunction& right, const void* args)>;
  std::string detail_of(Launch launch) {
    Workbench work(late_, entry_, work_.problem(), {.cache = CacheMode::hot}, late_.clock());
    const Variant variant{.name = "hostile",
                          .idea = "cheats",
                          .backend = Backend::host,
                          .host = [&](const Problem& p, const Config& c) -> HostFunction {
                            return [launch, right = entry_.variant("host_naive").host(p, c)](
                                       const void* args) { launch(right, args); };
                          }};
    const Measurement m = verified_run(work, variant, {}, {.sampling = three()}, late_.clock());
    EXPECT_EQ(m.status, Status::wrong_result);
    return m.detail;
  }
  LateDevice late_;
};

TEST_F(VerifiedLate, ALaunchIsFarSlowerWhereItIsVerified) {
  bool is_first = true;
  const auto burns_first = [&](const HostFunction& right, const void* args) {
    right(args);
    if (std::exchange(is_first, false)) late_.before = [&] { late_.advance(2); };
  };
  EXPECT_EQ(detail_of(burns_first),
            "a launch took 2.0 s where it was verified, and 20 us where it was timed");
}

TEST_F(VerifiedLate, AResultIsRightOnlyWhenItIsRead) {
  const auto writes_later = [&](const HostFunction& right, const void* args) {
    late_.after = [right, own = *static_cast<const RmsNormArgs*>(args)] { right(&own); };
  };
  EXPECT_EQ(detail_of(writes_later), "before timing: the outputs were written after the launch had ended");
}

TEST_F(VerifiedLate, ALaunchChangesTheL2Policy) {
  const auto reserves = [&](const HostFunction& right, const void* args) {
    right(args);
    late_.l2_change = "it reserved 4096 bytes of the L2";
  };
  EXPECT_EQ(detail_of(reserves), "before timing: it reserved 4096 bytes of the L2");
}

TEST_F(VerifiedRun, KnowsHowLongItsStagesTook) {
  const Stopwatch watch;
  const StageTimes before = work_.times();
  verified_run(work_, entry_.variant("host_naive"), {}, {.sampling = three()}, device_.clock());
  EXPECT_GT(before[TuningStage::buffers], 0);
  EXPECT_GT(before[TuningStage::reference], 0);
  for (const TuningStage stage : {TuningStage::load, TuningStage::verify, TuningStage::capture,
                                  TuningStage::samples, TuningStage::second_verify})
    EXPECT_GT(work_.times()[stage], before[stage]) << name_of(stage);
  EXPECT_LE(work_.times().sum() - before.sum(), watch.seconds()) << "no time counts twice";
}

}  // namespace
}  // namespace warptune
