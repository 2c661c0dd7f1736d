// The energy of a launch, on a device with a counter of its own.
#include "harness/measure/energy.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/measure/forwarding_device.h"

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
  EXPECT_NEAR(energy_per_launch_uj(device, device.graph, 4, device.clock()), 2e6 / 4, 0.15 * 2e6 / 4)
      << "two steps of the counter are at most eight replays from when they are seen";
  EXPECT_GE(device.replays(), 50) << "half a second";
  EXPECT_LE(device.replays(), 100);
}

TEST(Energy, IsUnknownWithoutACounter) {
  CountingDevice device(false);
  const int before = device.replays();
  EXPECT_TRUE(std::isnan(energy_per_launch_uj(device, device.graph, 4, device.clock())));
  EXPECT_EQ(device.replays(), before) << "nothing is replayed";
}

}  // namespace
}  // namespace warptune
