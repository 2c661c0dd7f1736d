#include "results/wisdom.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"

namespace warptune {
namespace {

const Provenance kHere{"NVIDIA H200", "sm_90a", "580", "13.0", "abc"};

Winner attention(std::int64_t batch, std::int64_t context, const char* style = "sd") {
  Problem p{"attention_decode", {{"batch", batch}, {"context", context}}, DType::bf16};
  p.dims.set("k_layout", std::string(style) == "sd" ? 0 : 1, style);
  return {p, "split_seq", {{"splits", 8}}, 1.25, "hash", "run", "t.csv"};
}

TEST(Wisdom, RoundTripAndReplacement) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "wisdom.json";
  Wisdom wisdom(Provenance{"NVIDIA H200", "sm_90a", "580", "13.0", "abc"});
  wisdom.put(attention(1, 256));
  Winner better = attention(1, 256);
  better.time_us = 1;
  better.throttled = "hw_slowdown";
  better.tied = {{"other", {{"block", 64}}, 1.01}};
  wisdom.put(better);
  wisdom.save(path);
  const Wisdom read = Wisdom::load(path);
  ASSERT_EQ(read.winners().size(), 1u);
  EXPECT_EQ(read.winners()[0].problem, better.problem);
  EXPECT_EQ(read.winners()[0].config, better.config);
  EXPECT_EQ(read.winners()[0].time_us, 1);
  EXPECT_EQ(read.winners()[0].throttled, "hw_slowdown");
  ASSERT_EQ(read.winners()[0].tied.size(), 1u);
  EXPECT_EQ(read.winners()[0].tied[0].variant, "other");
  EXPECT_EQ(read.winners()[0].tied[0].config["block"], 64);
  EXPECT_EQ(read.provenance().driver, "580");
  EXPECT_NE(read.exact(better.problem), nullptr);
}

TEST(Wisdom, AWinnerKeepsItsProvenance) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "mixed_wisdom.json";
  const Provenance before{"NVIDIA H200", "sm_90a", "570", "12.8", "abc"},
      now{"NVIDIA H200", "sm_90a", "580", "13.0", "def"};
  Wisdom old(before);
  old.put(attention(1, 256));
  Wisdom wisdom(now);
  for (const Winner& winner : old.winners()) wisdom.put(winner);
  wisdom.put(attention(1, 512));
  wisdom.save(path);
  const Wisdom read = Wisdom::load(path);
  EXPECT_EQ(read.provenance(), now);
  EXPECT_EQ(read.exact(attention(1, 256).problem)->made_on, before);
  EXPECT_EQ(read.exact(attention(1, 512).problem)->made_on, now);
}

TEST(Wisdom, NearestKeepsToItsRules) {
  Wisdom wisdom;
  wisdom.put(attention(1, 256));
  wisdom.put(attention(1, 1024));
  const auto context_of = [](const Winner* w) { return w ? w->problem["context"] : 0; };
  EXPECT_EQ(context_of(wisdom.nearest(attention(1, 300).problem)), 256);
  EXPECT_EQ(context_of(wisdom.nearest(attention(1, 8192).problem)), 1024);
  EXPECT_EQ(wisdom.nearest(attention(1, 8193).problem), nullptr);        // beyond a factor of 8
  EXPECT_EQ(wisdom.nearest(attention(9, 256).problem), nullptr);         // beyond a factor of 8
  EXPECT_EQ(wisdom.nearest(attention(1, 256, "dsx").problem), nullptr);  // another label
}

TEST(Wisdom, SaysWhatIsWrongWithAFile) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "bad_wisdom.json";
  const auto message = [&](const std::string& text) {
    std::ofstream(path) << text;
    try {
      Wisdom::load(path);
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message("{"), "the wisdom file '" + path.string() + "' is not JSON");
  EXPECT_EQ(message(R"({"schema": 9})"),
            "the wisdom file '" + path.string() + "' has schema 9; this program reads schema 1");
  EXPECT_THROW(Wisdom::load("/no/such/wisdom.json"), InputError);

  const auto said = [&](const std::string& from, const std::string& to) {
    std::string text = Wisdom(kHere).to_json();
    const std::string winner =
        R"({"op": "argmax", "dims": {"batch": 1, "vocab": 9}, "dtype": "bf16", "variant": "naive",
            "config": {"block": 64}, "time_us": 2.5, "source_hash": "", "run_id": "", "csv": ""})";
    text.replace(text.find("[]"), 2, '[' + winner + ']');
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    const std::string all = message(text), head = "the wisdom file '" + path.string() + "' is wrong: ";
    return all.starts_with(head) ? all.substr(head.size()) : all;
  };
  EXPECT_EQ(said("", ""), "no error");
  EXPECT_EQ(said("2.5", "\"fast\""), "winner 1: 'time_us' is \"fast\"; it must be a time, more than 0");
  EXPECT_EQ(said("2.5", "-1"), "winner 1: 'time_us' is -1; it must be a time, more than 0");
  EXPECT_EQ(said("\"batch\": 1", "\"batch\": -1"),
            "winner 1: 'batch' is -1; it must be a whole number, at least 0");
  EXPECT_EQ(said("{\"block\": 64}", "7"),
            "winner 1: 'config' is 7; it must be an object of names and whole numbers");
  EXPECT_EQ(said("\"op\"", "\"on\""), "winner 1: 'op' is missing");
  EXPECT_EQ(said("\"NVIDIA H200\"", "7"), "'device' is 7; it must be a text");
}

}  // namespace
}  // namespace warptune
