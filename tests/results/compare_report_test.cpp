// What `compare` prints, as text, Markdown and JSON.
#include "harness/results/compare_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace warptune {
namespace {

TimedConfig timed(const std::string& variant, double us) {
  return {.device = "gpu",
          .op = "norm",
          .problem = "norm[n=1,dtype=fp32]",
          .variant = variant,
          .config = "block=64",
          .cache = "cold",
          .sampling = SamplingClass::rerun,
          .runs = {{.run_id = "r", .time_us = us, .samples = {us}}},
          .failure = {}};
}

/// A slower row with a note, a new row, and one aside.
Comparison comparison() {
  Comparison c{.options = {.min_effect = 0.025, .alpha = 0.01}, .rows = {}, .aside = {}};
  c.rows.push_back({.base = timed("a", 100),
                    .now = timed("a", 110),
                    .change = Change::slower,
                    .effect = 0.1,
                    .p = 0.00123,
                    .note = "a note"});
  TimedConfig plain = timed("b", 2);
  plain.config.clear();
  c.rows.push_back({.base = {}, .now = plain, .change = Change::fresh, .note = {}});
  c.aside.push_back({.base = timed("c", 5), .now = timed("c", 5), .effect = 0, .p = 1, .note = "aside"});
  c.matched = c.judged = 1;
  return c;
}

TEST(CompareReport, Text) {
  EXPECT_EQ(
      as_text(comparison()),
      "verdict       base us      new us     change        p  row\n"
      "SLOWER        100.000     110.000   +10.00 %   0.0012  norm[n=1,dtype=fp32] a block=64 cold  (a "
      "note)\n"
      "NEW                         2.000                      norm[n=1,dtype=fp32] b cold\n"
      "\nThese rows do not decide (neither a winner or finalist nor a rerun):\n"
      "SAME            5.000       5.000    +0.00 %        1  norm[n=1,dtype=fp32] c block=64 cold  (aside)\n"
      "\n1 SLOWER, 1 NEW (effect of at least 2.5 %, family-wise alpha 0.01; 1 of 1 judged)\n");
  Comparison c = comparison();
  c.aside.clear();
  EXPECT_EQ(as_text(c).find("do not decide"), std::string::npos);
}

TEST(CompareReport, Markdown) {
  EXPECT_EQ(
      as_markdown(comparison()),
      "**1 SLOWER, 1 NEW (effect of at least 2.5 %, family-wise alpha 0.01; 1 of 1 judged)**\n\n"
      "| verdict | base us | new us | change | p | row | note |\n|---|---:|---:|---:|---:|---|---|\n"
      "| SLOWER | 100.000 | 110.000 | +10.00 % | 0.0012 | `norm[n=1,dtype=fp32] a block=64 cold` | a note |\n"
      "| NEW |  | 2.000 |  |  | `norm[n=1,dtype=fp32] b cold` |  |\n"
      "| SAME | 5.000 | 5.000 | +0.00 % | 1 | `norm[n=1,dtype=fp32] c block=64 cold` | does not decide; "
      "aside |\n");
}

TEST(CompareReport, Json) {
  auto json = nlohmann::json::parse(as_json(comparison()));
  for (const auto& [field, us] : {std::pair("base_us", 100.0), {"new_us", 110.0}}) {
    EXPECT_NEAR(json["rows"][0][field].get<double>(), us, 1e-9);
    json["rows"][0][field] = us;
  }
  EXPECT_EQ(json["counts"],
            (nlohmann::json{
                {"SLOWER", 1}, {"MISSING", 0}, {"AMBIGUOUS", 0}, {"FASTER", 0}, {"NEW", 1}, {"SAME", 0}}));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["min_effect"], 0.025);
  EXPECT_EQ(json["alpha"], 0.01);
  EXPECT_EQ(json["matched"], 1);
  EXPECT_EQ(json["judged"], 1);
  EXPECT_EQ(json["exit_code"], 1);
  EXPECT_EQ(json["rows"][0], nlohmann::json::parse(R"({"verdict": "SLOWER", "decides": true, "device": "gpu",
      "op": "norm", "problem": "norm[n=1,dtype=fp32]", "variant": "a", "config": "block=64", "cache": "cold",
      "sampling": "rerun", "base_us": 100.0, "new_us": 110.0, "base_runs": 1, "new_runs": 1, "effect": 0.1,
      "p": 0.00123, "note": "a note"})"));
  EXPECT_EQ(json["rows"][1]["base_us"], nullptr);
  EXPECT_EQ(json["rows"][1]["p"], nullptr);
  EXPECT_EQ(json["rows"][2]["decides"], false);
}

TEST(CompareReport, SaysThatNothingMatches) {
  Comparison c{.options = {}, .rows = {}, .aside = {}};
  EXPECT_NE(as_text(c).find("\nno rows match (effect"), std::string::npos) << as_text(c);
  c.rows.push_back({.base = timed("a", 1), .now = {}, .change = Change::missing, .note = {}});
  EXPECT_NE(as_text(c).find("\n1 MISSING; no rows match (effect"), std::string::npos) << as_text(c);
}

TEST(CompareReport, TextsOfFilesBecomePrintable) {
  Comparison c = comparison();
  c.rows[0].base.variant = "a\x1b[31m\n|`b\xff";
  c.rows[0].note = "note\x1b\n|`";
  EXPECT_NE(as_text(c).find(" a\\x1b[31m\\n|`b\\xff block=64 cold  (note\\x1b\\n|`)\n"), std::string::npos)
      << as_text(c);
  EXPECT_NE(as_markdown(c).find(" a\\x1b[31m\\n\\|'b\\xff block=64 cold` | note\\x1b\\n\\|' |\n"),
            std::string::npos)
      << as_markdown(c);
  EXPECT_EQ(nlohmann::json::parse(as_json(c))["rows"][0]["variant"], "a\x1b[31m\n|`b\xef\xbf\xbd");
}

}  // namespace
}  // namespace warptune
