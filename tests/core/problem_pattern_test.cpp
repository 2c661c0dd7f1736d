// A problem is found by its key and by the label that tables print.
#include <gtest/gtest.h>
#include <re2/re2.h>

#include "harness/core/pattern.h"
#include "harness/core/text_table.h"
#include "harness/results/wisdom.h"
#include "tests/files.h"
#include "variants/table.h"

namespace warptune {
namespace {

TEST(ProblemPattern, FindsAKeyAndALabel) {
  const std::string key = "linear[tokens=1,in=64,out=128,bias=no,dtype=bf16]";
  for (const char* text :
       {"^linear\\[tokens=1,in=64,out=128,dtype=bf16\\]$", "out=128,bias=no", "", "out=128,"})
    EXPECT_TRUE(ProblemPattern(text).is_in(ops(), key)) << text;
  EXPECT_FALSE(ProblemPattern("out=12,").is_in(ops(), key));
  EXPECT_FALSE(ProblemPattern("bias=yes").is_in(ops(), key));
  EXPECT_TRUE(ProblemPattern("out=128,dtype=bf16\\] hot$").is_in(ops(), key + " hot"));
}

TEST(ProblemPattern, FindsAnUnknownOpByItsKey) {
  for (const char* key : {"step[model=m,batch=1,dtype=bf16]", "conv[a,b=no]", "conv", "", "["}) {
    EXPECT_TRUE(ProblemPattern("").is_in(ops(), key));
    EXPECT_TRUE(ProblemPattern("^" + re2::RE2::QuoteMeta(key) + "$").is_in(ops(), key)) << key;
    EXPECT_FALSE(ProblemPattern("x").is_in(ops(), key)) << key;
  }
}

TEST(ProblemPattern, EachPrintedProblemOfTheRecordedWisdomIsFound) {
  const Wisdom wisdom = Wisdom::load(SOURCE_ROOT "/results/h200/wisdom.json");
  for (const Winner& winner : wisdom.winners()) {
    const std::string label = label_of(ops().find(winner.problem.op).op, winner.problem);
    EXPECT_TRUE(ProblemPattern("^" + re2::RE2::QuoteMeta(label) + "$").is_in(ops(), winner.problem.key()))
        << label;
  }
}

}  // namespace
}  // namespace warptune
