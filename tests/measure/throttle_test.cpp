// Rows of a throttled device.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/measure/bench.h"
#include "harness/measure/clock_watch.h"
#include "tests/measure/steady_device.h"
#include "variants/table.h"

namespace warptune {
namespace {

/// Reports fake clocks: `hot` throttled readings, then cool ones.
class HotDevice : public testing::SteadyDevice {
 public:
  HotDevice(std::string reason, int hot) : SteadyDevice(20), reason_(std::move(reason)), hot_(hot) {}
  Clocks quick_clocks() const override {
    const bool hot = readings_++ < hot_;
    return {.sm_mhz = hot ? 300.0 : 1980.0,
            .mem_mhz = hot ? 405.0 : 3201.0,
            .temperature_c = NAN,
            .power_w = NAN,
            .throttled = hot ? reason_ : "none"};
  }
  Clocks clocks() const override {
    return {.sm_mhz = 1, .temperature_c = 60, .power_w = 400, .throttled = ""};
  }
  void reset_persisting_cache() override { ++resets; }
  int resets = 0;

 private:
  const std::string reason_;
  const int hot_;
  mutable int readings_ = 0;
};

Measurement measured(HotDevice& device) {
  const OpEntry& entry = find_op("rms_norm");
  const Assignment dims{{"tokens", 3}, {"hidden", 64}};
  Bench bench(device, entry, entry.op.problem(dims, DType::fp32), {.min_samples = 6, .max_time = 0.05},
              measure_peaks, device.clock());
  return bench.run(entry.variant("host_naive"), {});
}

TEST(IsThrottling, HeatSlowdownAndPowerBrakeCountButNotThePowerCapAlone) {
  for (const char* reason : {"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown",
                             "hw_power_brake_slowdown", "sw_power_cap+hw_slowdown"})
    EXPECT_TRUE(is_throttling(reason)) << reason;
  for (const char* reason : {"", "none", "sw_power_cap"}) EXPECT_FALSE(is_throttling(reason)) << reason;
}

TEST(Throttle, AFewThrottledSamplesAreTakenAgain) {
  HotDevice device("hw_thermal_slowdown", 3);
  const Measurement m = measured(device);
  EXPECT_EQ(m.status, Status::ok) << m.detail;
  EXPECT_EQ(m.clocks.throttled, "none");
  EXPECT_EQ(m.clocks.sm_mhz, 1980);
  EXPECT_EQ(m.clocks.mem_mhz, 3201);
  EXPECT_EQ(m.clocks.power_w, 400);
  EXPECT_NE(m.detail.find("throttled samples were taken again"), std::string::npos) << m.detail;
}

TEST(Throttle, ARowOfAnAlwaysThrottledDeviceHasATimeAndANote) {
  HotDevice device("hw_thermal_slowdown", 1'000'000);
  const Measurement m = measured(device);
  EXPECT_EQ(m.status, Status::ok) << m.detail;
  EXPECT_GT(m.time_us, 0);
  EXPECT_EQ(m.clocks.throttled, "hw_thermal_slowdown");
  EXPECT_NE(m.detail.find("samples are throttled"), std::string::npos) << m.detail;
}

TEST(Throttle, ThePowerCapIsANote) {
  HotDevice device("sw_power_cap", 1'000'000);
  const Measurement m = measured(device);
  EXPECT_EQ(m.clocks.throttled, "sw_power_cap");
  EXPECT_EQ(m.detail.find("throttled"), std::string::npos) << m.detail;
  EXPECT_EQ(m.clocks.sm_mhz, 300);
}

/// A reading of its clocks takes 2 s.
class SlowToRead : public testing::SteadyDevice {
 public:
  SlowToRead() : SteadyDevice(0) {}
  Clocks quick_clocks() const override {
    ++readings;
    advance(2);
    return {.sm_mhz = 1980, .temperature_c = NAN, .power_w = NAN, .throttled = "none"};
  }
  mutable int readings = 0;
};

TEST(ClockWatch, ReadsForATenthOfTheTime) {
  const SlowToRead device;
  ClockWatch watch(device, device.clock());
  for (int i = 0; i < 1000; ++i) {
    device.advance(1);
    watch.throttled();
  }
  EXPECT_NEAR(device.readings, (1000 + 2 * device.readings) / 20, 2);
}

TEST(Throttle, EveryVariantStartsWithoutPersistingCacheLines) {
  HotDevice device("", 0);
  measured(device);
  EXPECT_EQ(device.resets, 1);
}

}  // namespace
}  // namespace warptune
