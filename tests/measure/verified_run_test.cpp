// A verified run under a caller's own sampling rule.
#include "harness/measure/verified_run.h"

#include <gtest/gtest.h>

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

/// The first launch keeps it busy for two seconds.
class BusyAtFirst : public testing::SteadyDevice {
 public:
  BusyAtFirst() : SteadyDevice(20) {}
  std::vector<std::uint64_t> checksums(std::span<const Region> regions) override {
    if (is_launched && !std::exchange(has_waited_, true)) advance(2);
    return SteadyDevice::checksums(regions);
  }
  bool is_launched = false;

 private:
  bool has_waited_ = false;
};

TEST_F(VerifiedRun, RejectsALaunchThatIsFarSlowerWhereItIsVerified) {
  BusyAtFirst device;
  Workbench work(device, entry_, work_.problem(), {.cache = CacheMode::hot}, device.clock());
  const Variant slow_first{.name = "slow_first",
                           .idea = "slow on purpose",
                           .backend = Backend::host,
                           .host = [&](const Problem& p, const Config& c) -> HostFunction {
                             return [&device,
                                     right = entry_.variant("host_naive").host(p, c)](const void* args) {
                               device.is_launched = true;
                               right(args);
                             };
                           }};
  const Measurement m = verified_run(work, slow_first, {}, {.sampling = three()}, device.clock());
  EXPECT_EQ(m.status, Status::wrong_result);
  EXPECT_EQ(m.detail, "a launch took 2.0 s where it was verified, and 20 us where it was timed");
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
