// The folder of a history, and the check that finds since when a row is slower, and why.
#include "harness/results/history.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <thread>

#include "harness/core/error.h"
#include "harness/results/csv.h"
#include "harness/results/sweep_file.h"
#include "harness/results/timed_config.h"
#include "tests/files.h"
#include "tests/sweep_rows.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::sweep_fields;

constexpr int kRunsOfANight = 3, kNights = 20;

std::string run_id(int night, int run) {
  return fmt::format("202601{:02}T03{:02}00Z-{:08x}", night + 1, run, 100 * night + run);
}

fs::path history_folder(const std::string& name) {
  const fs::path folder = fs::path(::testing::TempDir()) / name;
  fs::remove_all(folder);
  return folder;
}

CsvRow row_of(int night, int run, const std::string& problem, const testing::Fields& other = {}) {
  testing::Fields fields = other;
  fields.insert({{"run_id", run_id(night, run)},
                 {"git_commit", fmt::format("{:012x}", night + 1)},
                 {"device", "NVIDIA H200"},
                 {"driver", "580.1"},
                 {"host", "vm"},
                 {"toolkit", "13.0"},
                 {"card", "GPU-1"},
                 {"op", "rms_norm"},
                 {"problem", problem},
                 {"variant", "vectorized"},
                 {"sampling", "rerun"},
                 {"code_hash", "aaaa"},
                 {"time_us", "10"}});
  return sweep_fields(fields);
}

TEST(History, AFileHasTheRowsOfOneProcessAndIsNamedByItsFacts) {
  const fs::path folder = history_folder("history_names");
  const std::vector<CsvRow> rows = {row_of(0, 0, "a"),
                                    row_of(0, 1, "a"),
                                    row_of(0, 1, "b"),
                                    row_of(0, 1, "screened", {{"sampling", "screened"}}),
                                    row_of(0, 1, "launch[blocks=1]"),
                                    row_of(0, 1, "fails", {{"status", "crash"}, {"sampling", ""}})};
  const auto files = add_to_history(folder, rows);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].filename(), "20260101T030000Z-00000000_000000000001_h200_580.1.csv");
  EXPECT_EQ(read_sweep(files[0]).size(), 1u);
  EXPECT_EQ(read_sweep(files[1]).size(), 3u) << "what decides, and what fails";
  EXPECT_TRUE(add_to_history(folder, rows).empty()) << "it is there";
  // Another kind of file, and what a kill left, are no runs.
  std::ofstream(folder / "README.md") << "mine";
  std::ofstream(folder / (files[0].filename().string() + ".123")) << "schema,run";
  const auto listed = history_files(folder);
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].commit, "000000000001");
  EXPECT_EQ(listed[0].device, "h200");
  EXPECT_EQ(listed[0].driver, "580.1");
  const auto runs = read_history(listed);
  ASSERT_EQ(runs.size(), 1u) << "two processes of a night";
  ASSERT_EQ(runs[0].configs.size(), 3u);
  EXPECT_EQ(runs[0].configs[0].runs.size(), 2u);
  EXPECT_EQ(runs[0].card, "GPU-1");
}

TEST(History, HostileNamesStayInTheFolder) {
  const fs::path folder = history_folder("history_hostile");
  const auto files = add_to_history(
      folder, {row_of(0, 0, "a", {{"git_commit", "../../x_y"}, {"device", "a/b_c"}, {"driver", ""}})});
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].parent_path(), folder);
  EXPECT_EQ(history_files(folder).size(), 1u);
  EXPECT_THROW(add_to_history(folder, {row_of(0, 0, "a", {{"run_id", "yesterday"}})}), InputError);
  EXPECT_THROW(history_files(folder / "none"), InputError);
  std::ofstream(history_files(folder)[0].path) << "schema,run_id\n1,x\n";
  EXPECT_THROW(read_history(history_files(folder)), InputError);
}

TEST(History, SeveralWritersLoseNothing) {
  const fs::path folder = history_folder("history_writers");
  std::vector<std::jthread> writers;
  for (int writer = 0; writer < 4; ++writer)
    writers.emplace_back([&, writer] {
      for (int night = 0; night < 10; ++night) add_to_history(folder, {row_of(night, writer, "a")});
    });
  writers.clear();
  EXPECT_EQ(history_files(folder).size(), 40u);
  const auto runs = read_history(history_files(folder));
  ASSERT_EQ(runs.size(), 10u);
  for (const HistoryRun& run : runs) EXPECT_EQ(run.configs[0].runs.size(), 4u);
}

/// Twenty nights of one row that is 3 % slower from night 12 on; `change` changes what the nights record.
std::vector<HistoryRun> nights(const std::function<void(int, HistoryRun&)>& change, double factor = 1.03,
                               double us = 20) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  std::vector<HistoryRun> runs;
  for (int night = 0; night < kNights; ++night) {
    HistoryRun run{
        .file = {.run_id = run_id(night, 0), .commit = fmt::format("commit{}", night), .driver = "580"},
        .host = "vm",
        .toolkit = "13.0",
        .card = "GPU-1"};
    TimedConfig row{
        .device = "NVIDIA H200", .op = "rms_norm", .problem = "a", .sampling = SamplingClass::rerun};
    for (int i = 0; i < kRunsOfANight; ++i)
      row.runs.push_back({.run_id = run_id(night, i),
                          .time_us = us * (night >= 12 ? factor : 1) * std::exp(0.001 * normal(random)),
                          .sm_clock_mhz = 1980,
                          .throttled = "none",
                          .code_hash = "old"});
    run.configs = {row};
    change(night, run);
    runs.push_back(run);
  }
  return runs;
}

/// A change at night 12.
std::vector<std::vector<std::size_t>> at_night_12(const std::vector<TimeSeries>& series, int) {
  return std::vector<std::vector<std::size_t>>(series.size(), {12});
}

RowChange checked(const std::vector<HistoryRun>& runs, const HistoryOptions& options = {}) {
  const Comparison check = check_history(runs, options, at_night_12);
  EXPECT_EQ(check.rows.size(), 1u);
  return check.rows.front();
}

void set_code(HistoryRun& run, const std::string& code) {
  for (TimedRun& timed : run.configs[0].runs) timed.code_hash = code;
}

TEST(HistoryCheck, NamesTheCause) {
  struct Case {
    const char* cause;
    Change change;
    void (*after)(HistoryRun&);
  };
  const Case cases[] = {
      {"code", Change::slower, [](HistoryRun& run) { set_code(run, "new"); }},
      {"toolkit", Change::slower,
       [](HistoryRun& run) {
         run.toolkit = "13.1";
         run.file.commit = "commit11";
         set_code(run, "new");
       }},
      {"code or toolkit", Change::slower,
       [](HistoryRun& run) {
         run.toolkit = "13.1";
         set_code(run, "new");
       }},
      {"driver", Change::slower, [](HistoryRun& run) { run.file.driver = "590"; }},
      {"card", Change::ambiguous, [](HistoryRun& run) { run.card = "GPU-2"; }},
      {"card", Change::ambiguous, [](HistoryRun& run) { run.host = "other"; }},
      {"code or card", Change::ambiguous,
       [](HistoryRun& run) {
         run.card = "GPU-2";
         set_code(run, "new");
       }},
      {"clocks", Change::ambiguous,
       [](HistoryRun& run) {
         for (TimedRun& timed : run.configs[0].runs) timed.sm_clock_mhz = 1900;
       }},
      {"power", Change::ambiguous,
       [](HistoryRun& run) {
         for (TimedRun& timed : run.configs[0].runs) timed.throttled = "hw_thermal_slowdown";
       }},
      {"noise", Change::ambiguous, [](HistoryRun&) {}},
      // A clock that rises explains no slower time.
      {"noise", Change::ambiguous,
       [](HistoryRun& run) {
         for (TimedRun& timed : run.configs[0].runs) timed.sm_clock_mhz = 2100;
       }},
  };
  for (const Case& one : cases) {
    const RowChange row = checked(nights([&](int night, HistoryRun& run) {
      if (night >= 12) one.after(run);
    }));
    EXPECT_EQ(row.cause, one.cause);
    EXPECT_EQ(row.change, one.change) << one.cause;
    EXPECT_EQ(row.since, run_id(12, 0)) << one.cause;
    EXPECT_NEAR(row.effect, 0.03, 0.002) << one.cause;
  }
}

TEST(HistoryCheck, ACardThatIsAnotherOneEachNightExplainsNothing) {
  const RowChange row = checked(nights([](int night, HistoryRun& run) {
    run.card = fmt::format("GPU-{}", night);
    set_code(run, night < 12 ? "old" : "new");
  }));
  EXPECT_EQ(row.cause, "code");
  EXPECT_EQ(row.change, Change::slower);
}

TEST(HistoryCheck, ExitCodesAreThoseOfCompare) {
  const auto code = [](int night, HistoryRun& run) { set_code(run, night < 12 ? "old" : "new"); };
  const auto exit_code = [](const std::vector<HistoryRun>& runs, const HistoryOptions& options = {}) {
    return check_history(runs, options, at_night_12).exit_code();
  };
  EXPECT_EQ(exit_code(nights(code)), 1);
  EXPECT_EQ(exit_code(nights(code, 0.97)), 0) << "faster";
  EXPECT_EQ(exit_code(nights(code, 1.01)), 0) << "too small";
  EXPECT_EQ(exit_code(nights(code), {.since = "20260120"}), 0) << "an older change";
  EXPECT_EQ(exit_code(nights([](int, HistoryRun&) {})), 3) << "noise is not judged";
  auto runs = nights(code, 1);
  runs.back().configs[0].runs.clear();
  runs.back().configs[0].failure = "crash";
  EXPECT_EQ(exit_code(runs), 2) << "it fails now";
  EXPECT_EQ(checked(runs).change, Change::missing);
  runs = nights(code);
  runs.resize(5);
  EXPECT_EQ(exit_code(runs), 2) << "too few runs";
  EXPECT_EQ(checked(runs).change, Change::fresh);
  // Single processes of twenty nights: 12 before and 8 after, of which a level needs nine.
  runs = nights(code);
  for (HistoryRun& run : runs) run.configs[0].runs.resize(1);
  EXPECT_EQ(checked(runs).change, Change::same);
}

/// The times of a row in a night: `noise` is a factor for each of its processes.
using Noise = std::function<double(std::mt19937_64&, int row)>;

/// That of the A/A study on an H200, as in compare_test.cpp: a process shifts a row by 0.1 %, one row in ten
/// has processes that are 5 % slower in 15 of 100 cases.
double study_noise(std::mt19937_64& random, int row) {
  const double mode = row % 10 == 0 && std::bernoulli_distribution(0.15)(random) ? 1.05 : 1;
  return mode * std::exp(0.001 * std::normal_distribution<double>()(random));
}

constexpr int kManyRows = 700;

struct Suite {
  std::vector<double> us = {};  // by row
  Noise noise = {};
};

Suite study() {
  Suite suite{.noise = study_noise};
  for (int row = 0; row < kManyRows; ++row) suite.us.push_back(2 * std::pow(1.01, row));
  return suite;
}

/// Rows that an H200 timed in three processes: a process of a night has the time of one of them.
Suite recorded() {
  auto times = std::make_shared<std::vector<std::vector<double>>>();
  for (const CsvRow& row : read_csv(SOURCE_ROOT "/tests/data/runs_of_rows.csv"))
    times->push_back({number(row, "first_us"), number(row, "second_us"), number(row, "third_us")});
  Suite suite;
  for (const auto& row : *times) suite.us.push_back(row[0]);
  suite.noise = [times](std::mt19937_64& random, int row) {
    const auto& us = (*times)[static_cast<std::size_t>(row)];
    return us[std::uniform_int_distribution<std::size_t>(0, 2)(random)] / us[0] *
           std::exp(0.0005 * std::normal_distribution<double>()(random));
  };
  return suite;
}

/// Twenty nights in which each row becomes 3 % slower at a night of its own; night 0: never.
std::vector<HistoryRun> simulated(const Suite& suite, std::mt19937_64& random,
                                  const std::vector<int>& slower_from) {
  std::vector<HistoryRun> runs;
  for (int night = 0; night < kNights; ++night) {
    HistoryRun& run = runs.emplace_back(HistoryRun{.file = {.run_id = run_id(night, 0)}});
    for (int row = 0; row < static_cast<int>(suite.us.size()); ++row) {
      const int from = slower_from[static_cast<std::size_t>(row)];
      TimedConfig& config = run.configs.emplace_back(TimedConfig{
          .device = "NVIDIA H200", .problem = std::to_string(row), .sampling = SamplingClass::rerun});
      for (int i = 0; i < kRunsOfANight; ++i)
        config.runs.push_back({.run_id = run_id(night, i),
                               .time_us = suite.us[static_cast<std::size_t>(row)] * suite.noise(random, row) *
                                          (from > 0 && night >= from ? 1.03 : 1)});
    }
  }
  return runs;
}

/// Bars: an alarm in at most one of 100 histories without a change, whatever its cause; 95 of 100 slowdowns
/// by 3 % of rows above 5 us are found, with their night or one beside it.
void expect_bars(const Suite& suite, int equal_histories, int slowed_histories) {
  ASSERT_EQ(suite.us.size(), static_cast<std::size_t>(kManyRows));
  std::mt19937_64 random(11);
  int alarms = 0, slowed = 0, found = 0;
  for (int i = 0; i < equal_histories; ++i) {
    const Comparison check = check_history(simulated(suite, random, std::vector<int>(kManyRows, 0)), {});
    alarms += std::ranges::any_of(check.rows, [](const RowChange& row) { return !row.since.empty(); });
  }
  for (int i = 0; i < slowed_histories; ++i) {
    std::vector<int> from(kManyRows);
    std::uniform_int_distribution<int> any(kMinRunsOfALevel, kNights - kMinRunsOfALevel);
    for (std::size_t row = 0; row < from.size(); ++row) from[row] = suite.us[row] > 5 ? any(random) : 0;
    const Comparison check = check_history(simulated(suite, random, from), {});
    slowed += static_cast<int>(std::ranges::count_if(from, [](int night) { return night > 0; }));
    for (const RowChange& row : check.rows) {
      const int night = from[std::stoul(row.row().problem)];
      for (int near = night - 1; night > 0 && near <= night + 1; ++near)
        found += row.since == run_id(near, 0) && row.effect > 0;
    }
  }
  fmt::print("{} of {} histories with an alarm; {} of {} slowdowns found\n", alarms, equal_histories, found,
             slowed);
  EXPECT_LE(alarms, (equal_histories + 99) / 100);
  EXPECT_GE(found, 0.95 * slowed);
}

class HistorySimulation : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      changes_by_python({{{1, 1, 1, 1, 1, 1}, 0.001}}, kMinRunsOfALevel);
    } catch (const InputError& e) {
      if (std::string(e.what()).find(" -m pip install ") == std::string::npos) throw;
      GTEST_SKIP() << "scripts/setup.sh --python installs the packages: " << e.what();
    }
  }
};

TEST_F(HistorySimulation, TheNoiseOfTheStudy) { expect_bars(study(), 3, 1); }
TEST_F(HistorySimulation, RecordedNoise) { expect_bars(recorded(), 3, 1); }
TEST_F(HistorySimulation, NightlyTheNoiseOfTheStudy) { expect_bars(study(), 100, 10); }
TEST_F(HistorySimulation, NightlyRecordedNoise) { expect_bars(recorded(), 100, 10); }

}  // namespace
}  // namespace warptune
