#include "harness/results/wisdom.h"

#include <gtest/gtest.h>

#include <fstream>

#include "harness/core/error.h"

namespace warptune {
namespace {

const Provenance kMachine{"NVIDIA H200", "sm_90a", "580", "13.0", "abc"};

Winner attention(std::int64_t batch, std::int64_t context, const char* style = "sd") {
  Problem p{"attention_decode", {{"batch", batch}, {"context", context}}, DType::bf16};
  p.dims.set("k_layout", std::string(style) == "sd" ? 0 : 1, style);
  return {p, "split_kv", {{"splits", 8}}, 1.25, "hash", "run", "t.csv"};
}

TEST(Wisdom, RoundTripAndReplacement) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "wisdom.json";
  Wisdom wisdom(Provenance{"NVIDIA H200", "sm_90a", "580", "13.0", "abc"});
  wisdom.put(attention(1, 256));
  Winner better = attention(1, 256);
  better.time_us = 1;
  better.throttled = "hw_slowdown";
  better.tied = {{"other", {{"block", 64}}, 1.01}};
  better.times = {{"split_kv", "hash", {"splits", "shift"}, {{{8, -2}, 1}, {{16, 0}, 1.25}}},
                  {"plain", "hush", {}, {{{}, 3.5}}}};
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
  EXPECT_EQ(read.winners()[0].times, better.times);
  EXPECT_EQ(read.provenance().driver, "580");

  Winner negative = better;
  negative.problem.dims.set("diagonal", -512);
  wisdom.put(negative);
  wisdom.save(path);
  EXPECT_EQ(Wisdom::load(path).winners().at(1).problem, negative.problem);
  EXPECT_NE(read.exact(better.problem), nullptr);
}

TEST(Wisdom, StepsRoundTrip) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "step_wisdom.json";
  const auto step = [](std::int64_t batch, double us) {
    StepWinner winner{
        .step = {.op = kStepOp, .dims = {}, .dtype = DType::bf16}, .time_us = us, .alone_us = 9};
    winner.step.dims.set("model", 0, "llama3.2-1b");
    winner.step.dims.set("batch", batch);
    winner.plans.options.set("fuse_append", 1, "yes");
    winner.plans.plans = {{attention(1, 256).problem, "split_kv", {{"splits", 4}}, "source", "code"}};
    return winner;
  };
  Wisdom wisdom(kMachine);
  wisdom.put(attention(1, 256));
  wisdom.save(path);
  EXPECT_TRUE(Wisdom::load(path).steps().empty());
  wisdom.put(step(1, 8));
  wisdom.put(step(2, 8));
  wisdom.put(step(1, 7));
  wisdom.save(path);
  const Wisdom read = Wisdom::load(path);
  EXPECT_EQ(read.winners().size(), 1u);
  ASSERT_EQ(read.steps().size(), 2u);
  const StepWinner* kept = read.step_on(step(1, 7).step, kMachine.device);
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->time_us, 7);
  EXPECT_EQ(kept->alone_us, 9);
  EXPECT_EQ(kept->made_on, kMachine);
  EXPECT_EQ(kept->plans.str(), step(1, 7).plans.str());
  EXPECT_EQ(kept->plans.plans[0].source_hash, "source");
  EXPECT_EQ(kept->plans.plans[0].code_hash, "code");
  EXPECT_EQ(read.step_on(step(3, 7).step, kMachine.device), nullptr);
  EXPECT_EQ(read.step_on(step(1, 7).step, "another"), nullptr);
  EXPECT_EQ(read.to_json(), wisdom.to_json());

  std::string text = wisdom.to_json();
  text.replace(text.find("\"alone_us\":9"), 12, "\"alone_us\":0");
  std::ofstream(path) << text;
  try {
    Wisdom::load(path);
    ADD_FAILURE() << "a step without a time is accepted";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("is wrong: step 1: 'alone_us' is 0"), std::string::npos) << e.what();
  }
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

TEST(Wisdom, TheProvenanceMayFollowTheWinners) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "turned_wisdom.json";
  Wisdom wisdom(kMachine);
  wisdom.put(attention(1, 256));
  const std::string text = wisdom.to_json(), head = text.substr(1, text.find('\n') - 2);
  std::ofstream(path) << "{" + text.substr(text.find('\n'), text.rfind('}') - text.find('\n')) + "," + head +
                             "}";
  const Wisdom read = Wisdom::load(path);
  EXPECT_EQ(read.winners().at(0).made_on, kMachine);
  EXPECT_EQ(read.to_json(), text);
}

TEST(Wisdom, TimesOfTheSameSourcesAreMerged) {
  const VariantTimes ring{"ring", "a", {"splits"}, {{{1}, 10}, {{2}, 8}}}, plain{"plain", "b", {}, {{{}, 3}}};
  std::vector<VariantTimes> times = {ring};
  add_times(times, {{"ring", "a", {"splits"}, {{{2}, 7}, {{4}, 6}}}, plain});
  const VariantTimes joined{"ring", "a", {"splits"}, {{{1}, 10}, {{2}, 7}, {{4}, 6}}};
  EXPECT_EQ(times, (std::vector{joined, plain}));
  const VariantTimes edited{"ring", "c", {"splits"}, {{{4}, 5}}}, other{"ring", "c", {"warps"}, {{{4}, 5}}};
  add_times(times, {edited});
  EXPECT_EQ(times, (std::vector{edited, plain})) << "times of other sources go";
  add_times(times, {other});
  EXPECT_EQ(times, (std::vector{other, plain})) << "and those with other parameters";
}

TEST(Wisdom, ReportsTheErrorInAFile) {
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
  EXPECT_EQ(message("{"),
            "the wisdom file '" + path.string() + "': line 1, column 2: this is not JSON: " +
                "syntax error while parsing object key - unexpected end of input; expected string literal");
  EXPECT_EQ(message(R"({"schema": 9})"),
            "the wisdom file '" + path.string() + "' has schema 9; this program reads schema 2");
  EXPECT_EQ(message(R"({"schema": 1})"),
            "the wisdom file '" + path.string() + "' has schema 1; this program reads schema 2");
  EXPECT_THROW(Wisdom::load("/no/such/wisdom.json"), InputError);

  const auto said = [&](const std::string& from, const std::string& to) {
    std::string text = Wisdom(kMachine).to_json();
    const std::string winner =
        R"({"op": "argmax", "dims": {"batch": 1, "vocab": 9}, "dtype": "bf16", "variant": "naive",
            "config": {"block": 64}, "time_us": 2.5, "source_hash": "", "run_id": "", "csv": "",
            "times": {"naive": {"source_hash": "", "parameters": "block shift", "rows": ["64 -1 2.75"]}}})";
    text.replace(text.find("[\n]"), 3, '[' + winner + ']');
    if (!from.empty()) text.replace(text.find(from), from.size(), to);
    const std::string all = message(text), head = "the wisdom file '" + path.string() + "' is wrong: ";
    return all.starts_with(head) ? all.substr(head.size()) : all;
  };
  EXPECT_EQ(said("", ""), "no error");
  EXPECT_EQ(said("2.5", "\"fast\""), "winner 1: 'time_us' is \"fast\"; it must be a time, more than 0");
  EXPECT_EQ(said("2.5", "-1"), "winner 1: 'time_us' is -1; it must be a time, more than 0");
  EXPECT_EQ(said("\"batch\": 1", "\"batch\": -1"), "no error") << "some dims are negative";
  EXPECT_EQ(said("\"batch\": 1", "\"batch\": 1.5"), "winner 1: 'batch' is 1.5; it must be an integer");
  EXPECT_EQ(said("{\"block\": 64}", "7"),
            "winner 1: 'config' is 7; it must be an object of names and integers");
  EXPECT_EQ(said("\"op\"", "\"on\""), "winner 1: 'op' is missing");
  EXPECT_EQ(said("[{", "[7, {"), "winner 1: 'op' is missing") << "the first error counts";
  EXPECT_EQ(said("\"winners\": [{", "\"losers\": [{"), "'winners' is missing");
  EXPECT_EQ(said("\"winners\": [{", "\"winners\": 7, \"losers\": [{"), "'winners' is 7; it must be a list");
  EXPECT_EQ(said("\"NVIDIA H200\"", "7"), "'device' is 7; it must be a text");
  for (const char* row : {"64 2.75", "64 -1 2.75 3", "64 -1 0", "64 -1 fast", "64 1.5 2.75", ""})
    EXPECT_EQ(said("64 -1 2.75", row),
              "winner 1: '" + std::string(row) +
                  "' in 'rows' must be a value of each parameter and a time, more than 0");
  EXPECT_EQ(said("\"64 -1 2.75\"", "7"), "winner 1: 'rows' is 7; it must be a list of texts");
  EXPECT_EQ(said("[\"64 -1 2.75\"]", "7"), "winner 1: 'rows' is 7; it must be a list");
  EXPECT_EQ(said("\"block shift\"", "2"), "winner 1: 'parameters' is 2; it must be a text");
}

}  // namespace
}  // namespace warptune
