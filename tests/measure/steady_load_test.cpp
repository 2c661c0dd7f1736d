// A launch under steady load, on devices with a counter and a clock of their own.
#include "harness/measure/steady_load.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/measure/bench.h"
#include "tests/measure/steady_device.h"
#include "variants/table.h"

namespace warptune {
namespace {

/// Every replay takes 10 ms and 2 J. The counter moves every 100 ms.
class CountingDevice : public testing::ForwardingDevice {
 public:
  explicit CountingDevice(bool counts = true) : ForwardingDevice(open_device("host")), counts_(counts) {}
  double energy_j() const override { return counts_ ? 2.0 * (replays_ / 10 * 10) : NAN; }
  std::function<double()> clock() const {
    return [this] { return 0.01 * replays_; };
  }
  int replays() const { return replays_; }

  struct Replay : CapturedGraph {
    explicit Replay(int& replays) : replays(replays) {}
    void launch(Stream) override { ++replays; }
    int& replays;
  };
  Replay graph{replays_};

 private:
  bool counts_;
  int replays_ = 3;
};

TEST(Energy, IsThatOfALaunchUnderSteadyLoad) {
  CountingDevice device;
  const LoadEnergy energy = energy_under_load(device, device.graph, 4, device.clock());
  EXPECT_NEAR(energy.launch_uj, 2e6 / 4, 0.15 * 2e6 / 4)
      << "two steps of the counter are at most eight replays from when they are seen";
  EXPECT_NEAR(energy.power_w, 200, 0.15 * 200);
  EXPECT_GE(device.replays(), 50) << "half a second";
  EXPECT_LE(device.replays(), 100);
}

TEST(Energy, IsUnknownWithoutACounter) {
  CountingDevice device(false);
  const int before = device.replays();
  EXPECT_TRUE(std::isnan(energy_under_load(device, device.graph, 4, device.clock()).launch_uj));
  EXPECT_EQ(device.replays(), before) << "nothing is replayed";
}

TEST(SustainedTime, ComesAfterTenSecondsOfLoad) {
  for (const bool counts : {true, false}) {
    CountingDevice device(counts);
    energy_under_load(device, device.graph, 4, device.clock(), kSustainedSeconds);
    EXPECT_NEAR(device.replays(), counts ? 1060 : 1000, 20) << "half a second more with a counter";
  }
}

/// 300 W. Its clock goes on while the host waits.
class LoadedDevice : public testing::SteadyDevice {
 public:
  LoadedDevice() : SteadyDevice(20) {}
  void synchronize() override { advance(0.25); }
  double energy_j() const override { return 300 * clock()(); }
};

TEST(SustainedTime, IsPartOfAFinalist) {
  LoadedDevice device;
  const OpEntry& entry = find_op("rms_norm");
  Bench bench(device, entry, entry.op.problem({{"tokens", 3}, {"hidden", 64}}, DType::fp32),
              {.min_samples = 6, .max_time = 0.05}, measure_peaks, device.clock());
  const std::vector<Finalist> finalist = {{&entry.variant("host_naive"), {}}};
  for (const bool sustained : {true, false}) {
    const double start = device.clock()();
    const Measurement m =
        bench.time_interleaved(finalist, 3, {.other_caches = false, .sustained = sustained}).front().main;
    EXPECT_EQ(m.status, Status::ok) << m.detail;
    EXPECT_EQ(std::isnan(m.sustained_us), !sustained);
    if (sustained) {
      EXPECT_NEAR(m.sustained_us, 20, 1e-9);
      EXPECT_NEAR(m.sustained_power_w, 300, 1e-6);
      EXPECT_GT(m.energy_uj, 0);
    }
    EXPECT_EQ(device.clock()() - start > kSustainedSeconds, sustained);
  }
}

}  // namespace
}  // namespace warptune
