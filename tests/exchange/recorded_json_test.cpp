#include "harness/exchange/recorded_json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/core/error.h"
#include "harness/results/sweep_file.h"
#include "tests/files.h"
#include "tests/program.h"
#include "tests/sweep_rows.h"
#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::sweep_fields;
using testing::text_of;

const fs::path kCache = fs::path(TEST_DATA) / "exchange" / "vector_add_cache.json";

fs::path write(const std::string& name, const std::string& text) {
  const fs::path path = fs::path(::testing::TempDir()) / name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

RecordedSpace space_in(const fs::path& file) { return recorded_json_spaces(ops(), file, "").at(0); }

TEST(KernelTunerCache, ReadsAFileThatIsStillWritten) {
  const RecordedSpace recorded = space_in(kCache);
  EXPECT_EQ(recorded.problem, "vector_add[problem_size=10000000x1,device=NVIDIA A100-PCIE-40GB]");
  ASSERT_EQ(recorded.times_us.size(), 24u);
  EXPECT_EQ(std::ranges::count(recorded.times_us, INFINITY), 2) << "a text and 1e20 are failures";
  EXPECT_NEAR(recorded.best_us, 20.5, 1e-6) << "times are in ms";
}

TEST(KernelTunerCache, NumbersThatAreNotWholeKeepTheirOrder) {
  const RecordedSpace recorded = space_in(kCache);
  for (const SearchCandidate& c : recorded.space.candidates) {
    EXPECT_EQ(c.variant, "vector_add");
    EXPECT_EQ(c.config["alpha"], c.config.find("alpha")->label == "0.5" ? 0 : 1);
    EXPECT_TRUE(c.config.find("vec")->label.empty());
  }
  EXPECT_EQ(recorded.space.candidates.front().config.begin()->name, "block_size_x");
}

TEST(KernelTunerCache, AClosedFileAndOneCutByAKillAreTheSame) {
  const std::string open = text_of(kCache), closed = open.substr(0, open.size() - 1) + "}\n}";
  const auto times = space_in(kCache).times_us;
  EXPECT_EQ(space_in(write("closed.json", closed)).times_us, times);
  EXPECT_EQ(space_in(write("cut.json", open + "\n\"256,8,0.5\": {\"block_si")).times_us, times);
}

TEST(KernelTunerCache, APointWithoutATimeFailed) {
  const fs::path file =
      write("nan.json", R"({"kernel_name": "k \"NaN\" \\", "tune_params_keys": ["x"], "cache": {
    "1": {"x": 1, "time": 0.5, "eff": NaN}, "2": {"x": 2, "time": NaN}, "3": {"x": 3, "time": Infinity, "eff": -Infinity},
    "4": {"x": 4, "time": 0.25}}})");
  const RecordedSpace recorded = space_in(file);
  EXPECT_EQ(recorded.times_us, (std::vector<double>{500, INFINITY, INFINITY, 250}))
      << "eff is another metric";
  EXPECT_TRUE(recorded.problem.starts_with("k \"NaN\" \\[")) << recorded.problem;
}

TEST(RecordedJson, ATimeOfNaNInT4Failed) {
  const auto result = [](int x, const char* time) {
    return fmt::format(R"({{"configuration": {{"x": {}}}, "invalidity": "correct",
      "measurements": [{{"name": "eff", "value": NaN, "unit": ""}}, {{"name": "time", "value": {}, "unit": "ms"}}]}})",
                       x, time);
  };
  const fs::path file =
      write("nan_t4.json", "{\"results\": [" + result(1, "NaN") + ", " + result(2, "0.5") + "]}");
  EXPECT_EQ(space_in(file).times_us, (std::vector<double>{INFINITY, 500}));
}

TEST(KernelTunerCache, StrategiesRunOnIt) {
  const RecordedSpace recorded = space_in(kCache);
  for (const char* strategy : {"exhaustive", "random", "guided", "local_search", "bayesian"})
    EXPECT_EQ(
        convergence(recorded, {.strategy = strategy, .budget = parse_budget("24"), .seed = 0}, 1).back(), 1)
        << strategy;
}

TEST(RecordedJson, RefusesOtherFilesInOneSentence) {
  const auto refused = [](const std::string& text, const std::string& part) {
    const fs::path file = write("refused.json", text);
    try {
      recorded_json_spaces(ops(), file, "");
      FAIL() << text;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(file.string()), std::string::npos) << e.what();
    }
  };
  refused("", "it is empty");
  refused("{\n  \"cache\": [1,]\n}", "line 2, column 14: a comma before ']'");
  refused("version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer");
  refused("[1]", "neither a cachefile");
  refused(R"({"cache": {}})", "'kernel_name' is missing");
  refused(R"({"kernel_name": "k", "tune_params_keys": ["x"], "cache": {"1": {}}})", "has no 'x'");
  refused(R"({"kernel_name": "k", "tune_params_keys": ["x"], "cache": {"1": {"x": 1}}})", "no time");
  refused(R"({"results": [{"configuration": {}}]})", "'invalidity' is missing");
  refused(R"({"results": []})", "no time");
  refused(R"({"results": [{"configuration": {"x": 1}, "invalidity": "correct",
              "measurements": [{"name": "time", "value": 1, "unit": "days"}]}]})",
          "unit 'days'");
  EXPECT_THROW(recorded_json_spaces(ops(), kCache, "nothing"), InputError);
  EXPECT_THROW(recorded_json_spaces(ops(), "no_such.json", ""), InputError);
}

/// A sweep of one problem: two times, two failures, a finalist and a launch floor.
fs::path sweep(const std::string& name) {
  const auto row = [](const std::string& config, const std::string& us, const std::string& status) {
    return sweep_fields({{"run_id", "r"},
                         {"timestamp_utc", "2026-01-02T03:04:05Z"},
                         {"op", "p"},
                         {"problem", "p[n=1,dtype=bf16]"},
                         {"device", "NVIDIA H200"},
                         {"variant", "a"},
                         {"config", config},
                         {"time_us", us},
                         {"status", status},
                         {"compile_ms", "12.5"}});
  };
  auto finalist = row("block=64,mode=x", "2.5", "ok");
  finalist["sampling"] = "finalist";
  auto launch = row("", "1", "ok");
  launch["op"] = "launch";
  launch["problem"] = "launch[blocks=1,threads=32,dtype=fp32]";
  return testing::write_sweep(
      name, {launch, row("block=64,mode=x", "2", "ok"), row("block=128,mode=y", "", "wrong_result"),
             row("block=256,mode=x", "", "crash"), row("block=128,mode=x", "3", "ok"), finalist});
}

TEST(T4, HasTheFieldsOfTheSchema) {
  const fs::path csv = sweep("t4.csv");
  write_csv(samples_path(csv), samples_columns(),
            {{{"run_id", "r"},
              {"device", "NVIDIA H200"},
              {"problem", "p[n=1,dtype=bf16]"},
              {"variant", "a"},
              {"config", "block=64,mode=x"},
              {"cache", "cold"},
              {"samples_us", "2 4"}}});
  const auto json = nlohmann::json::parse(to_t4(ops(), csv, ""));
  fs::remove(samples_path(csv));
  EXPECT_EQ(json["schema_version"], "1.0.0");
  EXPECT_EQ(json["metadata"]["problem"], "p[n=1,dtype=bf16]");
  const auto& results = json["results"];
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(results[0]["configuration"],
            nlohmann::json::parse(R"({"variant": "a", "block": 64, "mode": "x"})"));
  EXPECT_EQ(results[0]["invalidity"], "correct");
  EXPECT_EQ(results[0]["correctness"], 1);
  EXPECT_EQ(results[0]["times"]["compilation_time"], 12.5);
  EXPECT_EQ(results[0]["times"]["runtimes"], nlohmann::json::parse("[0.002, 0.004]"));
  EXPECT_EQ(results[0]["measurements"][0],
            nlohmann::json::parse(R"({"name": "time", "value": 0.002, "unit": "ms"})"));
  EXPECT_EQ(results[1]["invalidity"], "correctness");
  EXPECT_EQ(results[1]["correctness"], 0);
  EXPECT_EQ(results[2]["invalidity"], "runtime");
}

TEST(T4, ReadsBackAsTheSpaceOfTheCsv) {
  const fs::path csv = sweep("t4_back.csv");
  const RecordedSpace before = recorded_spaces(ops(), csv, "").at(0),
                      after = space_in(write("t4_back.json", to_t4(ops(), csv, "")));
  EXPECT_EQ(after.problem, before.problem);
  ASSERT_EQ(after.times_us.size(), before.times_us.size());
  for (std::size_t i = 0; i < after.times_us.size(); ++i) {
    if (std::isfinite(before.times_us[i]))
      EXPECT_NEAR(after.times_us[i], before.times_us[i], 1e-9);
    else
      EXPECT_EQ(after.times_us[i], INFINITY);
    EXPECT_EQ(after.space.candidates[i].variant, before.space.candidates[i].variant);
    EXPECT_EQ(after.space.candidates[i].config["block"], before.space.candidates[i].config["block"]);
  }
}

TEST(T4, TakesOneProblem) {
  const auto row = [](const std::string& problem) {
    return sweep_fields({{"problem", problem}, {"variant", "a"}, {"config", "block=64"}, {"time_us", "2"}});
  };
  const fs::path csv = testing::write_sweep("t4_two.csv", {row("p[n=1]"), row("p[n=2]")});
  EXPECT_THROW(to_t4(ops(), csv, ""), InputError);
  EXPECT_THROW(to_t4(ops(), csv, "n=3"), InputError);
  EXPECT_NE(to_t4(ops(), csv, "n=2").find("p[n=2]"), std::string::npos);
}

TEST(T4, TheCommandsWriteAndReadIt) {
  const fs::path csv = sweep("t4_command.csv"), file = fs::path(::testing::TempDir()) / "t4_command.json";
  fs::remove(file);
  const testing::Ended written = testing::run_shell("{} export-t4 " + csv.string() + " -o " + file.string());
  EXPECT_EQ(written.code, 0) << written.text;
  const testing::Ended read =
      testing::run_shell("{} simulate " + file.string() + " --strategy random --seeds 3 --budget 100");
  EXPECT_EQ(read.code, 0) << read.text;
  EXPECT_NE(read.text.find("4 configurations, best 2.000 us"), std::string::npos) << read.text;
  EXPECT_EQ(testing::run_shell("{} export-t4 " + csv.string() + " -o /dev/full").code, 2);
}

}  // namespace
}  // namespace warptune
