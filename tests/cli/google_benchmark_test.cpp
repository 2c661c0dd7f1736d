// `bench` and `wisdom export --format benchmark` from outside, on the host device: what Google Benchmark's
// users and its compare.py find.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "harness/results/sweep_file.h"
#include "tests/program.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

using nlohmann::json;
using testing::Ended;
using testing::run;

class GoogleBenchmark : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const Ended tuned = testing::tune_rms_norm(folder_);
    EXPECT_EQ(tuned.code, 0) << tuned.text;
  }

  /// The JSON of `bench` with hot caches, which takes milliseconds: nothing is flushed.
  static json bench(const std::string& flags) {
    const Ended ended = run(command() + "--cache hot --benchmark_format=json " + flags, "2> /dev/null");
    EXPECT_EQ(ended.code, 0) << ended.text;
    return json::parse(ended.text);
  }
  static std::string command() { return "bench --wisdom " + wisdom_.string() + " --device host "; }
  static json exported(const fs::path& wisdom = wisdom_) {
    const Ended ended = run("wisdom export " + wisdom.string() + " --format benchmark", "2> /dev/null");
    EXPECT_EQ(ended.code, 0) << ended.text;
    return json::parse(ended.text);
  }
  /// The entries of this run type.
  static std::vector<json> entries(const json& file, const std::string& run_type) {
    std::vector<json> found;
    for (const json& one : file["benchmarks"])
      if (one["run_type"] == run_type) found.push_back(one);
    return found;
  }

  static inline const fs::path folder_ =
      fs::path(::testing::TempDir()) / ("google_benchmark_" + std::to_string(::getpid()));
  static inline const fs::path csv_ = folder_ / "host" / "base.csv",
                               wisdom_ = folder_ / "host" / "wisdom.json";
};

double number(const json& entry, const char* key) { return entry.at(key).get<double>(); }

TEST_F(GoogleBenchmark, MinTimeChangesTheIterations) {
  const std::string one = "--benchmark_filter=hidden:33/ ";
  // The first batch is enough: its launches are the iterations.
  for (const json& entry : entries(bench(one + "--benchmark_min_time=1e-12"), "iteration"))
    EXPECT_EQ(number(entry, "iterations"), number(entry, "launches_per_sample"));
  // The library goes on until the launches have taken that long.
  for (const json& entry : entries(bench(one + "--benchmark_min_time=0.05"), "iteration"))
    EXPECT_GE(number(entry, "iterations") * number(entry, "real_time"), 0.05e6 * (1 - 1e-6));
}

TEST_F(GoogleBenchmark, RepetitionsAreRowsAndTheirStatistics) {
  const json file = bench(
      "--benchmark_filter=hidden:33/ --benchmark_min_time=1e-12 --benchmark_repetitions=3 "
      "--benchmark_enable_random_interleaving=true --benchmark_context=who=me --benchmark_time_unit=ns");
  EXPECT_EQ(file["context"]["device"], "host");
  EXPECT_EQ(file["context"]["cache"], "hot");
  EXPECT_EQ(file["context"]["who"], "me");
  EXPECT_EQ(entries(file, "iteration").size(), 3u);
  EXPECT_EQ(entries(file, "aggregate").size(), 4u) << "mean, median, stddev, cv";
  for (const json& one : entries(file, "iteration")) {
    EXPECT_TRUE(one["name"].get<std::string>().starts_with("rms_norm/tokens:2/hidden:33/dtype:fp32/host_"));
    EXPECT_EQ(one["name"], one["run_name"]);
    EXPECT_EQ(one["repetitions"], 3);
    EXPECT_EQ(one["time_unit"], "ns");
    EXPECT_EQ(one["label"], "hot");
    EXPECT_GT(number(one, "pct_floor"), 0);
  }
}

TEST_F(GoogleBenchmark, CountersAreRatesOfTheReportedTime) {
  std::map<std::string, double> bytes, flops;  // by hidden
  for (const auto& row : read_csv(csv_)) {
    const std::string hidden = row.at("problem").find("hidden=33") == std::string::npos ? "8" : "33";
    bytes[hidden] = std::stod(row.at("bytes"));
    flops[hidden] = std::stod(row.at("flops"));
  }
  for (const auto& [hidden, amount] : bytes)
    for (const json& one : entries(
             bench("--benchmark_min_time=0.002 --benchmark_filter=hidden:" + hidden + "/"), "iteration")) {
      const double seconds = number(one, "real_time") * 1e-6;
      EXPECT_NEAR(number(one, "bytes_per_second") * seconds, amount, 1e-6 * amount);
      EXPECT_NEAR(number(one, "flops_per_second") * seconds, flops[hidden], 1e-6 * flops[hidden]);
    }
}

TEST_F(GoogleBenchmark, EveryCacheStateRuns) {
  for (const std::string cache : {"cold", "isolated"}) {
    const Ended ended = run(command() + "--benchmark_min_time=1e-12 --benchmark_format=json --cache " + cache,
                            "2> /dev/null");
    EXPECT_EQ(ended.code, 0) << ended.text;
    const json file = json::parse(ended.text);
    EXPECT_EQ(file["context"]["cache"], cache);
    EXPECT_EQ(file["benchmarks"].size(), 2u);
  }
}

TEST_F(GoogleBenchmark, BadFlagsAreBadInput) {
  const auto refused = [](const std::string& flags, const std::string& sentence) {
    const Ended ended = run(command() + flags);
    EXPECT_EQ(ended.code, 2) << flags;
    EXPECT_NE(ended.text.find(sentence), std::string::npos) << ended.text;
  };
  refused("--cache lukewarm", "lukewarm");
  refused("--nothing", "'--nothing' is neither an option of bench nor a --benchmark_ flag");
  refused("--benchmark_nothing=1", "does not take '--benchmark_nothing=1'");
  refused("--benchmark_format=xml", "the formats are console, json and csv");
  refused("--benchmark_time_unit=h", "the time units ns, us, ms and s");
  refused("--benchmark_filter=nothing", "no winner's benchmark matches");
  refused("--problem nothing", "no problem of the wisdom matches 'nothing'");
  const Ended elsewhere =
      run("bench --wisdom " SOURCE_ROOT "/results/h200/wisdom.json --problem argmax --device host");
  EXPECT_EQ(elsewhere.code, 2);
  EXPECT_NE(elsewhere.text.find("runs on host"), std::string::npos) << elsewhere.text;
}

TEST_F(GoogleBenchmark, NamesFilterThemselves) {
  const Ended all = run(command() + "--benchmark_list_tests", "2> /dev/null");
  EXPECT_EQ(all.code, 0);
  std::istringstream lines(all.text);
  int count = 0;
  for (std::string name; std::getline(lines, name); ++count)
    EXPECT_EQ(
        run(command() + "--benchmark_list_tests '--benchmark_filter=^" + name + "$'", "2> /dev/null").text,
        name + "\n");
  EXPECT_EQ(count, 2);
}

TEST_F(GoogleBenchmark, ExportHasTheSamplesAndTheCountersOfTheCsv) {
  const json file = exported();
  const auto samples = read_samples(samples_path(csv_));
  std::map<std::string, std::map<std::string, std::string>> rows;  // the last of a key has the samples
  for (const auto& row : read_csv(csv_)) rows[samples_key(row)] = row;
  const json wisdom = json::parse(std::ifstream(wisdom_));
  ASSERT_EQ(wisdom["winners"].size(), 2u);
  std::size_t family = 0;
  for (const json& winner : wisdom["winners"]) {
    const auto found = std::ranges::find_if(rows, [&](const auto& row) {
      return row.second.at("time_us") != "" && row.second.at("cache") == "cold" &&
             winner["variant"] == json(row.second.at("variant")) &&
             row.second.at("problem").find("hidden=" + winner["dims"]["hidden"].dump() + ",") !=
                 std::string::npos &&
             std::abs(std::stod(row.second.at("time_us")) / number(winner, "time_us") - 1) < 1e-4;
    });
    ASSERT_NE(found, rows.end()) << winner;
    const auto& row = found->second;
    const auto& us = samples.at(found->first);
    std::vector<json> mine;
    for (const json& one : file["benchmarks"])
      if (one["family_index"] == family) mine.push_back(one);
    ++family;
    ASSERT_EQ(mine.size(), us.size() + 4) << "a repetition per sample, then mean, median, stddev, cv";
    for (std::size_t i = 0; i < us.size(); ++i) {
      EXPECT_DOUBLE_EQ(number(mine[i], "real_time"), us[i]);
      EXPECT_EQ(mine[i]["repetition_index"], i);
      EXPECT_EQ(mine[i]["repetitions"], us.size());
      EXPECT_EQ(mine[i]["iterations"].dump(), row.at("launches_per_sample"));
      EXPECT_NEAR(number(mine[i], "bytes_per_second") * us[i] * 1e-6, std::stod(row.at("bytes")), 1e-3);
    }
    const json& median = mine[us.size() + 1];
    EXPECT_EQ(median["name"], median["run_name"].get<std::string>() + "_median");
    EXPECT_EQ(median["aggregate_name"], "median");
    // All samples are kept, so theirs is the row's.
    EXPECT_NEAR(number(median, "real_time") / std::stod(row.at("time_us")), 1, 1e-4);
    EXPECT_NEAR(number(median, "bytes_per_second") * 1e-9 / std::stod(row.at("gb_per_s")), 1, 1e-3);
    EXPECT_NEAR(number(median, "flops_per_second") * 1e-12 / std::stod(row.at("tflop_per_s")), 1, 1e-3);
    EXPECT_NEAR(number(median, "pct_floor") / std::stod(row.at("pct_floor")), 1, 1e-3);
    const json &mean = mine[us.size()], &stddev = mine[us.size() + 2], &cv = mine[us.size() + 3];
    EXPECT_NEAR(number(stddev, "real_time") / number(mean, "real_time"), number(cv, "real_time"), 1e-9);
    EXPECT_EQ(cv["aggregate_unit"], "percentage");
  }
}

TEST_F(GoogleBenchmark, ExportAndBenchHaveTheSameNames) {
  std::set<std::string> timed, recorded;
  for (const json& one : entries(bench("--benchmark_min_time=1e-12"), "iteration")) timed.insert(one["name"]);
  for (const json& one : entries(exported(), "iteration")) recorded.insert(one["name"]);
  EXPECT_EQ(timed.size(), 2u);
  EXPECT_EQ(timed, recorded);
}

TEST_F(GoogleBenchmark, RecordedWinnersHaveNamesWithoutMetacharacters) {
  const json file = exported(fs::path(SOURCE_ROOT) / "results" / "h200" / "wisdom.json");
  std::set<std::string> names;
  for (const json& one : entries(file, "iteration")) {
    const std::string name = one["name"];
    EXPECT_TRUE(std::regex_match(name, std::regex("[A-Za-z0-9_:./-]+"))) << name;
    EXPECT_TRUE(names.insert(name).second) << name << " twice, and its samples are not recorded";
    EXPECT_GT(number(one, "iterations"), 0);
  }
  EXPECT_GT(names.size(), 100u);
}

TEST_F(GoogleBenchmark, ExportLeavesOutOtherDevicesAndNeedsNoCsv) {
  const fs::path alone = folder_ / "alone.json";  // no CSV lies beside it
  json wisdom = json::parse(std::ifstream(wisdom_));
  wisdom["winners"][0]["made_on"] = {
      {"device", "another"}, {"arch", "host"}, {"driver", ""}, {"toolkit", ""}, {"git_commit", ""}};
  std::ofstream(alone) << wisdom;
  const Ended ended = run("wisdom export " + alone.string() + " --format benchmark -o " +
                          (folder_ / "alone.out.json").string());
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_NE(ended.text.find("leaves out 1 winners of other devices"), std::string::npos) << ended.text;
  const json file = json::parse(std::ifstream(folder_ / "alone.out.json"));
  ASSERT_EQ(file["benchmarks"].size(), 1u);
  EXPECT_EQ(file["benchmarks"][0]["real_time"], wisdom["winners"][1]["time_us"]);
  EXPECT_EQ(file["benchmarks"][0]["iterations"], 1);
  EXPECT_FALSE(file["benchmarks"][0].contains("pct_floor"));
}

/// Uses Google Benchmark's compare.py from Debian's libbenchmark-tools with python3-scipy, or a command in
/// the environment.
TEST_F(GoogleBenchmark, CompareToolReadsBenchAndExport) {
  const char* given = std::getenv("BENCHMARK_COMPARE");
  const std::string tool = given ? given : "/usr/bin/python3 /usr/share/benchmark/compare.py";
  if (std::system((tool + " --help > /dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "'" << tool << "' does not run (packages libbenchmark-tools, python3-scipy)";
  const auto path = [](const char* name) { return (folder_ / name).string(); };
  const std::string flags =
      "--cache hot --benchmark_filter=hidden:33/ --benchmark_min_time=1e-12 --benchmark_repetitions=9 "
      "--benchmark_out=";
  ASSERT_EQ(run(command() + flags + path("base.json")).code, 0);
  // The other way to get JSON.
  ASSERT_EQ(run(command() + flags + path("unused.json") + " --benchmark_format=json > " + path("now.json"),
                "2> /dev/null")
                .code,
            0);
  ASSERT_EQ(run("wisdom export " + wisdom_.string() + " --format benchmark -o " + path("tuned.json")).code,
            0);
  const auto compared = [&](const std::string& arguments) {
    const Ended table = testing::run_shell(tool + " --no-color " + arguments);
    EXPECT_EQ(table.code, 0) << table.text;
    return table.text;
  };
  // A row per pair of repetitions, and their rank test.
  const std::string benches = compared("benchmarks " + path("base.json") + " " + path("now.json"));
  EXPECT_NE(benches.find("rms_norm/tokens:2/hidden:33/dtype:fp32/"), std::string::npos) << benches;
  EXPECT_NE(benches.find("_pvalue"), std::string::npos) << benches;
  EXPECT_NE(benches.find("Repetitions: 9 vs 9"), std::string::npos) << benches;
  // The samples of tune against the repetitions of bench.
  const std::string both = compared("benchmarks " + path("tuned.json") + " " + path("now.json"));
  EXPECT_TRUE(
      std::regex_search(both, std::regex("hidden:33/[^ ]*manual_time_pvalue .*Repetitions: [0-9]+ vs 9")))
      << both;
  EXPECT_NE(both.find("manual_time_median"), std::string::npos) << both;
  EXPECT_EQ(both.find("hidden:8/"), std::string::npos) << "bench has it not: " << both;
  // Its filters, of two problems whose winners may be different variants.
  const std::string filtered =
      compared("filters " + path("tuned.json") + " 'hidden:8/.*manual_time$' 'hidden:33/.*manual_time$'");
  EXPECT_NE(filtered.find("_pvalue"), std::string::npos) << filtered;
}

}  // namespace
}  // namespace warptune
