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

}  // namespace
}  // namespace warptune
