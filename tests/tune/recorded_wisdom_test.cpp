// The recorded wisdom with the peaks of its device.
#include <gtest/gtest.h>

#include <filesystem>

#include "harness/llama/model_config.h"
#include "harness/results/wisdom_merge.h"
#include "harness/tune/device_file.h"
#include "harness/tune/step_candidates.h"
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

/// A search begins with them, and decode takes them, where a step is not tuned.
TEST(RecordedWisdom, ItsTimesChooseTheOptionsOfAnUntunedStep) {
  const fs::path folder = fs::path(SOURCE_ROOT) / "results/h200";
  const Wisdom wisdom = Wisdom::load(folder / "wisdom.json");
  const DeviceFacts facts = read_device_file(folder / "device.json").value();
  const PlanChooser chooser(ops(), facts, {.wisdom = wisdom, .has_wisdom = true});
  std::vector<SearchedPart> parts;
  for (const FusionOption& option : kFusionOptions) parts.push_back({.option = std::string(option.name)});
  const auto options = [&](const char* model, int batch, int context, const char* weights) {
    const StepItem item{.spec = {.model = in_format(preset(model), parse_weight_format(weights)),
                                 .batch = batch,
                                 .context = context}};
    return assembled(parts, untuned_picks(chooser, item, parts)).options.str();
  };
  const char* fused = "fuse_append=yes,fuse_norm=yes,fuse_swiglu=yes,fuse_argmax=yes,split_norm=no,fuse_o=no";
  EXPECT_EQ(options("llama2-7b", 1, 512, "same"), fused);
  EXPECT_EQ(options("llama2-7b", 1, 512, "int4"), fused);
  EXPECT_EQ(options("llama3-8b", 64, 512, "int4"),
            "fuse_append=yes,fuse_norm=no,fuse_swiglu=yes,fuse_argmax=yes,split_norm=yes,fuse_o=no");
}

}  // namespace
}  // namespace warptune
