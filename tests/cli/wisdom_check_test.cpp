// `wisdom check` on winners that a constraint of their variant excludes.
#include <gtest/gtest.h>

#include "harness/core/space.h"
#include "harness/results/source_hash.h"
#include "harness/results/wisdom.h"
#include "tests/files.h"
#include "tests/program.h"
#include "variants/table.h"

namespace warptune {
namespace {
using testing::Ended;
using testing::run;

/// A winner of rms_norm/vectorized with the sources of this program.
Winner winner_on(const Provenance& device, std::int64_t tokens, const std::string& config) {
  Winner w{.problem = {"rms_norm", {{"tokens", tokens}, {"hidden", 4096}}, DType::bf16},
           .variant = "vectorized",
           .config = parse_config(ops().find("rms_norm").variant("vectorized"), config),
           .time_us = 50,
           .made_on = device};
  w.source_hash = source_hash(Compiler(KernelSources(), {}), ops(), w);
  return w;
}

Ended check(const std::vector<Winner>& winners) {
  const auto file = testing::fresh_folder("wisdom_check") / "wisdom.json";
  Wisdom wisdom(winners.front().made_on);
  for (const Winner& w : winners) wisdom.put(w);
  wisdom.save(file);
  return run("wisdom check " + file.string());
}

TEST(WisdomCheck, NamesTheConstraintThatAWinnerBreaks) {
  const Provenance h200{"NVIDIA H200", "sm_90a", "", "", ""};
  const Ended ended = check({winner_on(h200, 1, "block=256,rows=1,vec=8,cache_hint=none,pdl=1"),
                             winner_on(h200, 2, "block=256,rows=4,vec=8,cache_hint=none,pdl=1")});
  EXPECT_EQ(ended.code, 1);
  EXPECT_TRUE(testing::has(ended, "rms_norm[tokens=2,hidden=4096,dtype=bf16] vectorized block=256,rows=4,"))
      << ended.text;
  EXPECT_TRUE(testing::has(ended, " breaks rows == 1 || rows <= tokens\n")) << ended.text;
  EXPECT_TRUE(testing::has(ended, "2 winners: 1 with the same sources, ")) << ended.text;
  EXPECT_TRUE(testing::has(ended, ", 1 with a broken constraint\n")) << ended.text;
}

TEST(WisdomCheck, EvaluatesConstraintsOnTheDeviceOfEachWinner) {
  const std::string config = "block=256,rows=1,vec=8,cache_hint=none,pdl=1";
  EXPECT_EQ(check({winner_on({"NVIDIA H200", "sm_90a", "", "", ""}, 1, config)}).code, 0);
  const Ended older = check({winner_on({"NVIDIA A100", "sm_80", "", "", ""}, 1, config)});
  EXPECT_EQ(older.code, 1);
  EXPECT_TRUE(testing::has(older, " breaks pdl == 0 || has_pdl\n")) << older.text;
  EXPECT_EQ(check({winner_on({"a GPU", "sm_70", "", "", ""}, 1, config)}).code, 0)
      << "nothing is known of its device";
}

/// A winner of linear with times of these variants.
Winner linear_winner(std::int64_t tokens, const std::vector<std::string>& timed) {
  Winner w{.problem = {"linear", {{"tokens", tokens}, {"in", 3072}, {"out", 3072}}, DType::bf16},
           .variant = "naive",
           .config = parse_config(ops().find("linear").variant("naive"), "block=256"),
           .time_us = 5000,
           .made_on = {"NVIDIA H200", "sm_90a", "", "", ""}};
  w.source_hash = source_hash(Compiler(KernelSources(), {}), ops(), w);
  for (const std::string& variant : timed) w.times.push_back({.variant = variant});
  return w;
}

TEST(WisdomCheck, WritesASweepOfWinnersWithoutATimeOfTheDefaultVariant) {
  const auto folder = testing::fresh_folder("wisdom_retune");
  Wisdom wisdom({"NVIDIA H200", "sm_90a", "", "", ""});
  wisdom.put(linear_winner(16, {"naive"}));
  wisdom.put(linear_winner(64, {"naive", "wgmma_streaming"}));
  Winner gone = linear_winner(48, {"naive", "wgmma_streaming"});
  gone.variant = "no_longer";
  wisdom.put(gone);
  wisdom.put(
      winner_on({"NVIDIA H200", "sm_90a", "", "", ""}, 2, "block=256,rows=4,vec=8,cache_hint=none,pdl=1"));
  wisdom.save(folder / "wisdom.json");
  const std::string check = "wisdom check " + (folder / "wisdom.json").string();
  const Ended ended = run(check + " -o " + (folder / "retune.yaml").string());
  EXPECT_EQ(ended.code, 1) << "a constraint is broken";
  EXPECT_TRUE(testing::has(ended, "\n1 winners have no time of the default variant ")) << ended.text;
  EXPECT_EQ(testing::text_of(folder / "retune.yaml"),
            "# Problems whose winners do not hold, or have no time of their default variant.\n"
            "name: retune\n"
            "strategy: {name: guided, budget: 40}  # configurations of each problem\n"
            "ops:\n"
            "  - op: linear\n    dtypes: bf16\n    cache: cold\n    problems:\n"
            "      - {tokens: 48, in: 3072, out: 3072}\n"
            "      - {tokens: 16, in: 3072, out: 3072}\n"
            "  - op: rms_norm\n    dtypes: bf16\n    cache: cold\n    problems:\n"
            "      - {tokens: 2, hidden: 4096}\n");
  const Ended planned = run("tune " + (folder / "retune.yaml").string() + " --dry-run --arch sm_90a");
  EXPECT_EQ(planned.code, 0) << planned.text;
}

TEST(WisdomCheck, WritesNoSweepWhereNothingIsToBeTunedAgain) {
  const auto folder = testing::fresh_folder("wisdom_retune");
  Wisdom wisdom({"NVIDIA H200", "sm_90a", "", "", ""});
  wisdom.put(linear_winner(64, {"naive", "wgmma_streaming"}));
  wisdom.save(folder / "wisdom.json");
  const Ended ended =
      run("wisdom check " + (folder / "wisdom.json").string() + " -o " + (folder / "retune.yaml").string());
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_TRUE(testing::has(ended, " is not written: no problem needs to be tuned again\n")) << ended.text;
  EXPECT_FALSE(std::filesystem::exists(folder / "retune.yaml"));
  const Ended input =
      run("wisdom check " + (folder / "wisdom.json").string() + " -o " + (folder / "wisdom.json").string());
  EXPECT_EQ(input.code, 2) << input.text;
}

}  // namespace
}  // namespace warptune
