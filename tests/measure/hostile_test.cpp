// Variants that cheat, each rejected by name on the host device. hostile_gpu_test.cpp has those that need a
// GPU (streams, graphs, blocks, memcheck).
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>

#include "harness/measure/bench.h"
#include "kernels/rms_norm/args.h"
#include "tests/measure/steady_device.h"
#include "variants/table.h"

namespace warptune {
namespace {

constexpr int kTokens = 3, kHidden = 1024;
using Cheat = std::function<void(const RmsNormArgs&, const HostFunction& right)>;

class HostHostile : public ::testing::Test {
 protected:
  Measurement run(Cheat cheat) {
    const Variant variant{.name = "hostile",
                          .idea = "cheats",
                          .backend = Backend::host,
                          .host = [=](const Problem& p, const Config& c) -> HostFunction {
                            const HostFunction right = find_op("rms_norm").variant("host_naive").host(p, c);
                            return
                                [=](const void* raw) { cheat(*static_cast<const RmsNormArgs*>(raw), right); };
                          }};
    return bench.run(variant, {});
  }
  void expect_wrong(Cheat cheat, const std::string& text) {
    const Measurement m = run(std::move(cheat));
    EXPECT_EQ(m.status, Status::wrong_result);
    EXPECT_NE(m.detail.find(text), std::string::npos) << m.detail;
    // The next configuration is not affected.
    const Measurement good = bench.run(find_op("rms_norm").variant("host_naive"), {});
    EXPECT_EQ(good.status, Status::ok) << good.detail;
  }
  static float* y(const RmsNormArgs& a) { return static_cast<float*>(a.y); }

  // Counts of calls in the cheats below then do not depend on the speed of the machine.
  testing::SteadyDevice device{20};
  Bench bench{
      device,
      find_op("rms_norm"),
      find_op("rms_norm").op.problem(Assignment{{"tokens", kTokens}, {"hidden", kHidden}}, DType::fp32),
      {.min_samples = 6, .max_time = 0.02},
      measure_peaks,
      device.clock()};
};

TEST_F(HostHostile, WritesNothing) {
  expect_wrong([](const RmsNormArgs&, const HostFunction&) {}, "before timing: 3072 of 3072 elements of 'y'");
}

TEST_F(HostHostile, WritesNan) {
  expect_wrong(
      [](const RmsNormArgs& a, const HostFunction& right) {
        right(&a);
        y(a)[kHidden + 5] = NAN;
      },
      "before timing: 1 of 3072 elements of 'y' were not written or are NaN");
}

TEST_F(HostHostile, ReturnsTheResultOfThePreviousRun) {
  auto kept = std::make_shared<std::vector<float>>(kTokens * kHidden);
  expect_wrong(
      [kept](const RmsNormArgs& a, const HostFunction& right) {
        RmsNormArgs hidden = a;
        std::vector<float> next(kept->size());
        hidden.y = next.data();
        right(&hidden);
        std::copy(kept->begin(), kept->end(), y(a));
        *kept = next;
      },
      "before timing: 'y'[");
}

TEST_F(HostHostile, EditsItsInputs) {
  expect_wrong(
      [](const RmsNormArgs& a, const HostFunction& right) {
        right(&a);
        const_cast<float*>(static_cast<const float*>(a.weight))[kHidden - 1] = 0;
      },
      "before timing: input 'weight' was changed");
}

TEST_F(HostHostile, EditsItsInputsLater) {
  auto calls = std::make_shared<int>(0);
  expect_wrong(
      [calls](const RmsNormArgs& a, const HostFunction& right) {
        right(&a);
        if (++*calls == 11) const_cast<float*>(static_cast<const float*>(a.x))[7] += 1;
      },
      "after timing: input 'x' was changed");
}

TEST_F(HostHostile, WritesOnePastTheEndAndOneBeforeTheStart) {
  for (const int at : {kTokens * kHidden, -1})
    expect_wrong(
        [at](const RmsNormArgs& a, const HostFunction& right) {
          right(&a);
          y(a)[at] = 1;
        },
        "before timing: memory outside 'y' was written");
}

TEST_F(HostHostile, WritesOutsideLater) {
  auto calls = std::make_shared<int>(0);
  expect_wrong(
      [calls](const RmsNormArgs& a, const HostFunction& right) {
        right(&a);
        if (++*calls == 11) y(a)[-1] = 1;
      },
      "after timing: memory outside 'y' was written");
}

TEST_F(HostHostile, ReadsPastTheEndIntoItsResult) {
  expect_wrong(
      [](const RmsNormArgs& a, const HostFunction& right) {
        right(&a);
        // The guard band there is NaN for one of the two inputs, and tiny for the other.
        y(a)[0] += static_cast<const float*>(a.x)[kTokens * kHidden];
      },
      "1 of 3072 elements of 'y' were not written or are NaN");
}

TEST_F(HostHostile, ReadsPastTheEnd) {
  GTEST_SKIP() << "a read without effect is seen by memcheck only: scripts/sanitize.sh hostile";
}

TEST_F(HostHostile, SkipsTheWorkAfterTenCalls) {
  auto calls = std::make_shared<int>(0);
  expect_wrong(
      [calls](const RmsNormArgs& a, const HostFunction& right) {
        if (++*calls <= 10) right(&a);
      },
      "after timing: 3072 of 3072 elements of 'y' were not written");
}

TEST_F(HostHostile, KeepsNarrowAccumulators) {
  expect_wrong(
      [](const RmsNormArgs& a, const HostFunction&) {
        for (int t = 0; t < kTokens; ++t) {
          const float* x = static_cast<const float*>(a.x) + t * kHidden;
          double sum = 0;  // rounded to fp16 after each addition
          for (int i = 0; i < kHidden; ++i) sum = round_to(DType::fp16, sum + x[i] * x[i]);
          const auto scale = static_cast<float>(1 / std::sqrt(sum / kHidden + a.eps));
          for (int i = 0; i < kHidden; ++i)
            y(a)[t * kHidden + i] = x[i] * scale * static_cast<const float*>(a.weight)[i];
        }
      },
      "before timing: 'y'[");
}

TEST_F(HostHostile, IsRightOnlyForTheFirstSeed) {
  auto first = std::make_shared<std::vector<float>>();
  expect_wrong(
      [first](const RmsNormArgs& a, const HostFunction& right) {
        if (first->empty()) {
          right(&a);
          first->assign(y(a), y(a) + kTokens * kHidden);
        }
        std::copy(first->begin(), first->end(), y(a));
      },
      "after timing: 'y'[");
}

TEST_F(HostHostile, RecognizesItsBuffersByTheirAddresses) {
  auto known = std::make_shared<std::map<const void*, std::vector<float>>>();
  expect_wrong(
      [known](const RmsNormArgs& a, const HostFunction& right) {
        const auto [it, is_new] = known->try_emplace(a.weight);
        if (is_new) {
          right(&a);
          it->second.assign(y(a), y(a) + kTokens * kHidden);
        }
        std::copy(it->second.begin(), it->second.end(), y(a));
      },
      "after timing: 'y'[");
}

TEST_F(HostHostile, ComputesOnlyForTheBuffersOfTheFirstLaunch) {
  auto first = std::make_shared<const void*>(nullptr);
  expect_wrong(
      [first](const RmsNormArgs& a, const HostFunction& right) {
        if (!*first) *first = a.weight;
        if (a.weight == *first) right(&a);
      },
      "of a sample: 3072 of 3072 elements of 'y' were not written");
}

TEST_F(HostHostile, ComputesOnlyTheFirstAndTheLastLaunchOfASample) {
  struct Replay {
    double start = 0;  // the clock stands still within a replay
    int position = 0, last_size = 0;
  };
  auto replay = std::make_shared<Replay>();
  expect_wrong(
      [replay, now = device.clock()](const RmsNormArgs& a, const HostFunction& right) {
        if (now() != replay->start) *replay = {now(), 0, replay->position};
        ++replay->position;
        if (replay->position == 1 || replay->position >= replay->last_size) right(&a);
      },
      "of a sample: 3072 of 3072 elements of 'y' were not written");
}

TEST_F(HostHostile, IsRightMostOfTheTime) {
  auto calls = std::make_shared<int>(0);
  expect_wrong(
      [calls](const RmsNormArgs& a, const HostFunction& right) {
        right(&a);
        if (++*calls % 3 == 0) y(a)[1] = 0;  // as a race would
      },
      "right in one run, wrong in another");
}

/// Its events give a sixth of the time.
class PatchedEvents : public testing::SteadyDevice {
 public:
  PatchedEvents() : SteadyDevice(20) {}
  double time_us(CapturedGraph& graph) override { return SteadyDevice::time_us(graph) / 6; }
};

TEST(HostilePatch, OfTheEvents) {
  PatchedEvents device;
  const OpEntry& entry = find_op("rms_norm");
  Bench bench(device, entry, entry.op.problem({{"tokens", kTokens}, {"hidden", kHidden}}, DType::fp32),
              {.cache = CacheMode::hot, .min_samples = 6, .max_time = 0.05}, measure_peaks, device.clock());
  const Measurement m = bench.run(entry.variant("host_naive"), {});
  EXPECT_EQ(m.status, Status::too_fast);
  EXPECT_EQ(m.detail,
            "by the host's clock every replay takes at least 3.0 times as long as by the device's events");
}

/// The work that a launch leaves on another stream takes two seconds.
class BusyDevice : public testing::SteadyDevice {
 public:
  BusyDevice() : SteadyDevice(20) {}
  void wait_for_all() override { advance(2); }
};

TEST(HostileStream, HasWorkAfterALaunch) {
  BusyDevice device;
  const OpEntry& entry = find_op("rms_norm");
  Bench bench(device, entry, entry.op.problem({{"tokens", kTokens}, {"hidden", kHidden}}, DType::fp32),
              {.min_samples = 6, .max_time = 0.05}, measure_peaks, device.clock());
  const Measurement m = bench.run(entry.variant("host_naive"), {});
  EXPECT_EQ(m.status, Status::wrong_result);
  EXPECT_EQ(m.detail, "after timing: work on another stream went on for 2.0 s after a launch");
}

TEST_F(HostHostile, ComputesOnASideStream) { GTEST_SKIP() << "the host device has one stream"; }
TEST_F(HostHostile, SkipsWhenCaptured) { GTEST_SKIP() << "the host device captures no graphs"; }

}  // namespace
}  // namespace warptune
