// warptune history, and --history of the commands that measure, from outside.
#include "harness/results/history.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "harness/results/csv.h"
#include "tests/program.h"
#include "tests/sweep_rows.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::Ended;
using testing::run_shell;

class HistoryCli : public ::testing::Test {
 protected:
  static Ended history(const std::string& arguments) { return run_shell("{} history " + arguments); }
  const fs::path folder_ = testing::fresh_folder("history_cli"), runs_ = folder_ / "history";

  /// Twenty nights of three processes and two rows; the second is 4 % slower from night 13 on, with new code.
  void record_nights() const {
    std::mt19937_64 random(3);
    std::normal_distribution<double> normal;
    std::vector<testing::Fields> rows;
    for (int night = 1; night <= 20; ++night)
      for (int run = 0; run < 3; ++run)
        for (const char* problem :
             {"rms_norm[tokens=1,hidden=64,dtype=bf16]", "rms_norm[tokens=8,hidden=64,dtype=bf16]"}) {
          const bool slow = problem[16] == '8' && night >= 13;
          rows.push_back(testing::sweep_fields(
              {{"run_id", fmt::format("202601{:02}T03{:02}00Z-ab{}", night, run, run)},
               {"git_commit", fmt::format("c0ffee{:02}", night)},
               {"device", "NVIDIA H200"},
               {"driver", "580.1"},
               {"toolkit", "13.0"},
               {"op", "rms_norm"},
               {"problem", problem},
               {"variant", "vectorized"},
               {"config", "block=256"},
               {"sampling", "rerun"},
               {"code_hash", slow ? "new" : "old"},
               {"time_us",
                fmt::format("{:.5f}", 20 * (slow ? 1.04 : 1) * std::exp(0.001 * normal(random)))}}));
        }
    const fs::path csv = testing::write_sweep("nights.csv", rows);
    const Ended added = history("add " + runs_.string() + " " + csv.string());
    ASSERT_EQ(added.code, 0) << added.text;
  }
};

TEST_F(HistoryCli, RunsOfTuneRerunAndDecodeAreKept) {
  ASSERT_EQ(testing::tune_rms_norm(folder_ / "out").code, 0);
  const std::string wisdom = (folder_ / "out" / "host" / "wisdom.json").string(),
                    to =
                        " --device host --out " + (folder_ / "out").string() + " --history " + runs_.string();
  const Ended rerun = run_shell("{} rerun " + wisdom + " --runs 2 --min-samples 6" + to);
  ASSERT_EQ(rerun.code, 0) << rerun.text;
  ASSERT_EQ(history_files(runs_).size(), 2u) << "a file for each process";
  // A resumed rerun measures nothing, so it adds nothing; a sweep adds its finalists.
  ASSERT_EQ(run_shell("{} rerun " + wisdom + " --runs 2 --min-samples 6" + to).code, 0);
  EXPECT_EQ(history_files(runs_).size(), 2u);
  ASSERT_EQ(run_shell("{} tune " + (folder_ / "out" / "base.yaml").string() + " --fresh" + to).code, 0);
  EXPECT_EQ(history_files(runs_).size(), 3u);
  const Ended decode = run_shell("{} decode --model " TEST_DATA "/golden/gqa --prompt-len 4 --steps 1" + to);
  ASSERT_EQ(decode.code, 0) << decode.text;
  ASSERT_EQ(history_files(runs_).size(), 4u);
  const auto runs = read_history(history_files(runs_));
  ASSERT_EQ(runs.size(), 1u) << "one commit and machine within 12 hours";
  EXPECT_EQ(runs[0].card, "host");
  EXPECT_TRUE(std::ranges::any_of(runs[0].configs, [](const TimedConfig& row) {
    return row.problem.starts_with("step[model=gqa,batch=1,");
  }));
  // compare reads a file of the history as any other CSV.
  const std::string file = history_files(runs_)[0].path.string();
  EXPECT_EQ(run_shell("{} compare " + file + " " + file).code, 0);
  const Ended refused = run_shell("{} rerun " + wisdom + " --device host --out " +
                                  (folder_ / "out").string() + " --history " + wisdom);
  EXPECT_EQ(refused.code, 2) << refused.text;
}

TEST_F(HistoryCli, ListsShowsAndPrunes) {
  record_nights();
  const Ended list = history("list " + runs_.string());
  EXPECT_EQ(std::ranges::count(list.text, '\n'), 61) << list.text;
  EXPECT_NE(list.text.find("20260113T030000Z-ab0  c0ffee13  h200    580.1"), std::string::npos) << list.text;
  const Ended row = history("show " + runs_.string() + " --row 'tokens=8,'");
  EXPECT_EQ(std::ranges::count(row.text, '\n'), 22) << row.text;
  EXPECT_EQ(history("prune " + runs_.string()).code, 2) << "it needs to be told";
  EXPECT_EQ(history("prune " + runs_.string() + " --before yesterday").code, 2);
  EXPECT_EQ(history_files(runs_).size(), 60u);
  ASSERT_EQ(history("prune " + runs_.string() + " --before 20260103").code, 0);
  EXPECT_EQ(history_files(runs_).size(), 54u);
  ASSERT_EQ(history("prune " + runs_.string() + " --keep 10").code, 0);
  EXPECT_EQ(history_files(runs_).size(), 10u);
  EXPECT_EQ(history("list " + (folder_ / "none").string()).code, 2);
}

TEST_F(HistoryCli, TheCheckNamesThePlantedSlowdown) {
  record_nights();
  const Ended check = run_shell("{} history check " + runs_.string() + " --format json", "2>/dev/null");
  if (check.code == 2) GTEST_SKIP() << "scripts/setup.sh --python installs the packages of `history check`";
  EXPECT_EQ(check.code, 1);
  const auto json = nlohmann::json::parse(check.text);
  ASSERT_EQ(json["rows"].size(), 2u);
  EXPECT_EQ(json["rows"][0]["verdict"], "SLOWER");
  EXPECT_EQ(json["rows"][0]["since"], "20260113T030000Z-ab0");
  EXPECT_EQ(json["rows"][0]["commit"], "c0ffee13");
  EXPECT_EQ(json["rows"][0]["cause"], "code");
  EXPECT_EQ(json["rows"][1]["verdict"], "SAME");
  EXPECT_EQ(history("check " + runs_.string() + " --since 20260120").code, 0);
  EXPECT_EQ(history("check " + runs_.string() + " --row 'tokens=1,'").code, 0);
}

TEST_F(HistoryCli, WithoutThePackageOneSentenceSaysWhatToInstall) {
  record_nights();
  const fs::path python = folder_ / "python";
  std::ofstream(python)
      << "#!/bin/sh\nread -r line\necho '{\"error\": \"history needs the Python package ruptures\"}'\n";
  fs::permissions(python, fs::perms::owner_all);
  const Ended check = run_shell("WARPTUNE_PYTHON=" + python.string() + " {} history check " + runs_.string());
  EXPECT_EQ(check.code, 2);
  EXPECT_EQ(check.text, "warptune: history needs the Python package ruptures\n");
}

TEST_F(HistoryCli, ADamagedFileIsNamed) {
  record_nights();
  const fs::path file = history_files(runs_)[7].path;
  std::ofstream(file, std::ios::app) << "1,2";
  const Ended show = history("show " + runs_.string());
  EXPECT_EQ(show.code, 2);
  EXPECT_NE(show.text.find(file.filename().string() + ":4: the last line is incomplete"), std::string::npos)
      << show.text;
}

}  // namespace
}  // namespace warptune
