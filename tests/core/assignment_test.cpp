#include "harness/core/assignment.h"

#include <gtest/gtest.h>

#include "harness/core/error.h"

namespace warptune {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

TEST(Assignment, KeepsTheOrderAndReplaces) {
  Assignment a{{"block", 256}, {"vec", 8}};
  a.set("layout", 1, "columns");
  EXPECT_EQ(a.str(), "block=256,vec=8,layout=columns");
  a.set("block", 64);
  a.set("layout", 0);
  EXPECT_EQ(a.str(), "block=64,vec=8,layout=0");
  EXPECT_EQ(a.size(), 3u);
  EXPECT_EQ(a["vec"], 8);
  EXPECT_EQ(a.get("splits", 3), 3);
  EXPECT_FALSE(a.has("splits"));
  EXPECT_EQ(Assignment().str(), "");
}

TEST(Assignment, AnUnknownNameListsTheKnownOnes) {
  try {
    (void)Assignment{{"block", 256}}["vec"];
    FAIL();
  } catch (const std::out_of_range& e) {
    EXPECT_STREQ(e.what(), "no 'vec' in 'block=256'");
  }
}

TEST(ParsePairs, SplitsAtCommasAndTheFirstEquals) {
  EXPECT_EQ(parse_pairs(""), Pairs{});
  EXPECT_EQ(parse_pairs("a=1"), (Pairs{{"a", "1"}}));
  EXPECT_EQ(parse_pairs("a=1,b=x=y,c="), (Pairs{{"a", "1"}, {"b", "x=y"}, {"c", ""}}));
}

TEST(ParsePairs, WrongTextIsNamed) {
  const auto error = [](const char* text) -> std::string {
    try {
      parse_pairs(text);
    } catch (const InputError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error("a=1,b"), "'b' is not of the form name=value");
  EXPECT_EQ(error("=1"), "'=1' is not of the form name=value");
  EXPECT_EQ(error("a=1,b=2,a=3"), "'a' is given twice");
  EXPECT_EQ(error("a=1,,b=2"), "'' is not of the form name=value");
}

}  // namespace
}  // namespace warptune
