#include "harness/core/text_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace warptune {
namespace {

TEST(TextTable, AlignsNumbersRightAndTextLeft) {
  TextTable table({text_column("name"), {"us"}});
  table.add({"a", "1.5"});
  table.add({"long name", "120"});
  EXPECT_EQ(table.text(),
            "name        us\n"
            "a          1.5\n"
            "long name  120\n");
}

TEST(TextTable, OmitsEmptyColumnsAndEmptyTables) {
  TextTable table({text_column("name"), {"x vendor"}, {"us"}});
  EXPECT_EQ(table.text(), "");
  table.add({"a", "", "2"});
  EXPECT_EQ(table.text(), "name  us\na      2\n");
}

TEST(TextTable, WrapsTextAtCommasAndKeepsTheWidth) {
  TextTable table({text_column("problem"), {"us"}}, 40);
  table.add({"attention[batch=1,q_heads=32,kv_heads=32,head_dim=128]", "7.25"}, std::string(90, 'x'));
  std::istringstream lines(table.text());
  std::string line, first;
  for (int i = 0; std::getline(lines, line); ++i) {
    EXPECT_LE(line.size(), 40u) << line;
    if (i == 1) first = line;
  }
  EXPECT_EQ(first, "attention[batch=1,q_heads=32,       7.25");
}

TEST(TextTable, WrapsHeadingsBeforeNames) {
  TextTable table({text_column("op/variant"), {"configs that spill"}}, 44);
  table.add({"attention_decode/mma_pipelined", "3"});
  EXPECT_EQ(table.text(),
            "op/variant                           configs\n"
            "                                  that spill\n"
            "attention_decode/mma_pipelined             3\n");
}

TEST(TextTable, BreaksANameBetweenItsParts) {
  EXPECT_EQ(wrapped("attention_decode/mma_pipelined", 24),
            (std::vector<std::string>{"attention_decode/mma_", "pipelined"}));
  EXPECT_EQ(wrapped("a of snake_case", 12), (std::vector<std::string>{"a of", "snake_case"}));
}

TEST(TextTable, ColorsOnlyWhereAsked) {
  TextTable table({{"us"}});
  table.add({Cell{"1", Color::red}});
  EXPECT_EQ(table.text(false), "us\n 1\n");
  EXPECT_EQ(table.text(true), "\033[1mus\033[0m\n \033[31m1\033[0m\n");
}

TEST(TextTable, AnUnknownNumberIsEmpty) {
  EXPECT_EQ(known_number(1.255, 2), "1.25");
  EXPECT_EQ(known_number(0, 2), "");
  EXPECT_EQ(known_number(1.0 / 0.0, 2), "");
}

TEST(TextTable, ALabelHasNoDimsAtTheirDefault) {
  const Op op{.name = "norm",
              .summary = "",
              .dims = {{.name = "tokens", .doc = ""},
                       {.name = "window", .doc = "", .fallback = 0},
                       {.name = "style", .doc = "", .fallback = 0, .labels = {"half", "full"}}}};
  Problem problem{.op = "norm", .dtype = DType::bf16};
  problem.dims.set("tokens", 4);
  problem.dims.set("window", 0);
  problem.dims.set("style", 0, "half");
  EXPECT_EQ(label_of(op, problem), "norm[tokens=4,dtype=bf16]");
  problem.dims.set("style", 1, "full");
  problem.dims.set("window", 16);
  EXPECT_EQ(label_of(op, problem), "norm[tokens=4,window=16,style=full,dtype=bf16]");
}

}  // namespace
}  // namespace warptune
