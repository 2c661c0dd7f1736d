// The recorded wisdom with the peaks of its device.
#include <gtest/gtest.h>

#include <filesystem>

#include "harness/results/wisdom_merge.h"
#include "harness/tune/device_file.h"
#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

TEST(RecordedWisdom, HasNoTimeThatItsDeviceCannotReach) {
  const fs::path results = fs::path(SOURCE_ROOT) / "results";
  const WinnerJudge judge(ops(), {read_device_file(results / "h200/device.json").value()});
  for (const char* file : {"h200/wisdom.json", "baseline/h200/wisdom.json"}) {
    const Wisdom wisdom = Wisdom::load(results / file);
    for (const Winner& w : wisdom.winners()) EXPECT_EQ(judge.why_impossible(w), "") << w.problem.key();
    for (const StepWinner& s : wisdom.steps()) EXPECT_EQ(judge.why_impossible(s), "") << s.step.key();
  }
}

}  // namespace
}  // namespace warptune
