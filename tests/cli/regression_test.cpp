// tune, rerun, compare, counters and profile from outside, on the host device.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "harness/results/csv.h"
#include "harness/results/history.h"
#include "harness/results/sweep_file.h"
#include "tests/files.h"
#include "tests/program.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::text_of;

using testing::Ended;

/// The JSON of a command that writes it to stdout or to the file in its arguments.
Ended stdout_of(const std::string& arguments) { return testing::run_shell("{} " + arguments, ""); }

class Regression : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const Ended tuned = testing::tune_rms_norm(folder_);
    EXPECT_EQ(tuned.code, 0) << tuned.text;
  }
  static inline const fs::path folder_ =
      fs::path(::testing::TempDir()) / ("regression_" + std::to_string(::getpid()));
  static inline const fs::path csv_ = folder_ / "host" / "base.csv",
                               wisdom_ = folder_ / "host" / "wisdom.json";
};

TEST_F(Regression, SamplesAreNextToTheRows) {
  auto samples = read_samples(samples_path(csv_));
  // A finalist's samples replace those of its screening: the last row of a key has them.
  std::map<decltype(samples)::key_type, std::string> counts;
  for (const auto& row : read_csv(csv_)) counts[samples_key(row)] = row.at("samples");
  EXPECT_EQ(counts.size(), samples.size());
  for (const auto& [key, count] : counts) {
    ASSERT_TRUE(samples.contains(key));
    EXPECT_EQ(std::to_string(samples.at(key).size()), count);
  }
}

TEST_F(Regression, WinnersRunAgainAndCompare) {
  const Ended again =
      stdout_of("rerun " + wisdom_.string() + " --device host --name again --out " + folder_.string());
  EXPECT_EQ(again.code, 0) << again.text;
  const fs::path now = folder_ / "host" / "again.csv";
  EXPECT_EQ(read_csv(now).size(), 2u);
  const Ended same = stdout_of("compare " + now.string() + " " + now.string() + " --format json");
  EXPECT_EQ(same.code, 0) << same.text;
  EXPECT_EQ(nlohmann::json::parse(same.text)["counts"]["SAME"], 2);
  // A finalist of tune and a row of rerun are sampled in two ways.
  const Ended unlike = stdout_of("compare " + csv_.string() + " " + now.string());
  EXPECT_EQ(unlike.code, 3) << unlike.text;
  EXPECT_NE(unlike.text.find("sampled in another way: 2"), std::string::npos) << unlike.text;
  EXPECT_EQ(stdout_of("compare " + now.string() + " " + csv_.string() + " --min-effect x 2> /dev/null").code,
            2);
  const Ended evil = stdout_of("rerun " + wisdom_.string() + " --device host --name ../evil --out " +
                               folder_.string() + " 2>&1");
  EXPECT_EQ(evil.code, 2);
  EXPECT_NE(evil.text.find("'../evil' cannot name the CSV"), std::string::npos) << evil.text;
  EXPECT_FALSE(fs::exists(folder_ / "evil.csv"));
}

TEST_F(Regression, EachRunHasARowPerWinner) {
  const std::string rerun = "rerun " + wisdom_.string() +
                            " --device host --name runs --min-samples 6 --out " + folder_.string() +
                            " --runs ";
  const fs::path csv = folder_ / "host" / "runs.csv";
  const auto runs_of = [](const fs::path& file) {
    std::map<std::string, std::set<std::string>> runs;  // by problem
    for (const auto& row : read_csv(file)) {
      EXPECT_EQ(row.at("sampling"), "rerun");
      EXPECT_TRUE(runs[row.at("problem")].insert(row.at("run_id")).second);
    }
    return runs;
  };
  ASSERT_EQ(stdout_of(rerun + "2").code, 0);
  for (const auto& [problem, runs] : runs_of(csv)) EXPECT_EQ(runs.size(), 2u) << problem;
  // What is there is not measured again; a run more is.
  ASSERT_EQ(stdout_of(rerun + "2").code, 0);
  EXPECT_EQ(read_csv(csv).size(), 4u);
  ASSERT_EQ(stdout_of(rerun + "3").code, 0);
  EXPECT_EQ(read_csv(csv).size(), 6u);
  ASSERT_EQ(stdout_of(rerun + "1 --fresh").code, 0);
  EXPECT_EQ(read_csv(folder_ / "host" / "runs.2.csv").size(), 2u);
  const Ended same = stdout_of("compare " + csv.string() + " " + csv.string() + " --format json");
  EXPECT_EQ(nlohmann::json::parse(same.text)["rows"][0]["new_runs"], 3);
  // Without a suspect nothing is timed again.
  EXPECT_EQ(stdout_of("compare " + csv.string() + " " + csv.string() + " --confirm " + wisdom_.string()).code,
            0);
  EXPECT_EQ(
      stdout_of("compare " + csv.string() + " " + csv.string() + " --base-program /bin/true 2> /dev/null")
          .code,
      2)
      << "it needs --confirm";
}

/// The step of a small model, recorded with two winners.
class StepRegression : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    fs::create_directories(folder_);
    std::ofstream(folder_ / "base.yaml")
        << "device: host\ndtypes: fp32\nsampling: {min_samples: 6, max_time: 0.002}\nfinalists: 1\nmodels:\n "
           " - {model: "
        << model_
        << ", context: 64, cache: hot, max_configs: 1, ops: [rms_norm, embedding]}\nsteps:\n  - {model: "
        << model_ << ", context: 64, candidates: 1}\n";
    const Ended tuned =
        stdout_of("tune " + (folder_ / "base.yaml").string() + " --out " + folder_.string() + " 2>&1");
    EXPECT_EQ(tuned.code, 0) << tuned.text;
  }
  static inline const fs::path folder_ =
      fs::path(::testing::TempDir()) / ("step_regression_" + std::to_string(::getpid()));
  static inline const std::string model_ = TEST_DATA "/golden/gqa",
                                  wisdom_ = (folder_ / "host" / "wisdom.json").string();
  static constexpr const char* kStep = "step[model=gqa,batch=1,context=64,dtype=fp32]";
};

TEST_F(StepRegression, AStepIsTimedAgainAndComparedAsAnyRow) {
  const std::string rerun = "rerun " + wisdom_ + " --device host --min-samples 6 --out " + folder_.string();
  const Ended unnamed = stdout_of(rerun + " --name unnamed 2>&1");
  EXPECT_NE(unnamed.text.find(std::string("skips ") + kStep + ": its model is no preset; --model DIR names"),
            std::string::npos)
      << unnamed.text;
  const std::string with_model = rerun + " --model " + model_ + " --name again --runs ";
  const Ended timed = stdout_of(with_model + "2 2>&1");
  ASSERT_EQ(timed.code, 0) << timed.text;
  const fs::path csv = folder_ / "host" / "again.csv";
  const auto steps_in = [](const fs::path& file) {
    auto rows = read_csv(file);
    std::erase_if(rows, [](const auto& row) { return row.at("op") != "step"; });
    return rows;
  };
  const auto rows = steps_in(csv);
  ASSERT_EQ(rows.size(), 2u) << "one per run";
  for (const auto& row : rows) {
    EXPECT_EQ(row.at("problem"), kStep);
    EXPECT_EQ(row.at("sampling"), "rerun");
    EXPECT_EQ(row.at("status"), "ok") << row.at("detail");
    EXPECT_NE(row.at("code_hash"), "");
    EXPECT_NE(row.at("config").find("fuse_append="), std::string::npos);
  }
  EXPECT_NE(rows[0].at("run_id"), rows[1].at("run_id"));
  // What is there is not measured again; a run more is.
  ASSERT_EQ(stdout_of(with_model + "2 2>&1").code, 0);
  EXPECT_EQ(steps_in(csv).size(), 2u);
  ASSERT_EQ(stdout_of(with_model + "3 2>&1").code, 0);
  EXPECT_EQ(steps_in(csv).size(), 3u);

  // Times of its own, since the measured runs of a busy machine may differ by any factor.
  const auto with_times = [&](const std::string& name, double step_us) {
    auto all = read_csv(csv);
    for (auto& row : all) row["time_us"] = std::to_string(row["op"] == "step" ? step_us++ : 1);
    write_csv(folder_ / name, csv_columns(csv), all);
    return (folder_ / name).string();
  };
  const std::string base = with_times("base.csv", 100);
  const auto compared = [&](double step_us) {
    return stdout_of("compare " + base + " " + with_times("now.csv", step_us) + " --format json");
  };
  const Ended same = compared(100), slower = compared(300);
  EXPECT_EQ(same.code, 0) << same.text;
  EXPECT_EQ(slower.code, 1) << slower.text;
  const auto json = nlohmann::json::parse(slower.text);
  EXPECT_EQ(json["counts"]["SLOWER"], 1);
  EXPECT_EQ(json["rows"][0]["problem"], kStep);
}

TEST_F(StepRegression, TheGateRecordsWhatItWatchesAndSaysWhatNot) {
  const std::string gate =
      "WARPTUNE={} DEVICE=host RUNS=2 MODELS=" + model_ + " BASELINES=" + (folder_ / "baseline").string() +
      " OUT=" + (folder_ / "gate").string() + " MIN_EFFECT=95% " + SOURCE_ROOT + "/scripts/regress.sh ";
  const Ended recorded = testing::run_shell(gate + "--record " + wisdom_);
  ASSERT_EQ(recorded.code, 0) << recorded.text;
  EXPECT_NE(recorded.text.find("watches 1 steps and "), std::string::npos) << recorded.text;
  EXPECT_NE(recorded.text.find("does not watch 0 winners"), std::string::npos) << recorded.text;
  const auto has_step = [](const fs::path& csv) {
    return std::ranges::any_of(read_csv(csv), [](const auto& row) { return row.at("op") == "step"; });
  };
  EXPECT_TRUE(has_step(folder_ / "baseline/host/regress.csv"));
  fs::create_directories(folder_ / "baseline/h200");  // of another device
  for (const char* name : {"regress.csv", "wisdom.json"})
    fs::copy_file(SOURCE_ROOT "/results/baseline/h200/" + std::string(name),
                  folder_ / "baseline/h200" / name);
  const Ended again = testing::run_shell(gate + "--history " + (folder_ / "history").string());
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_TRUE(has_step(folder_ / "gate/regress.csv"));
  const auto kept = history_files(folder_ / "history");
  EXPECT_EQ(kept.size(), 4u) << "the launches and the step of two runs have a run id each";
  EXPECT_EQ(std::ranges::count_if(kept, [&](const HistoryFile& file) { return has_step(file.path); }), 2);
}

/// Runs `counters` with a fake ncu.
class Counters : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::copy_file(fs::path(SOURCE_ROOT) / "results" / "h200" / "wisdom.json", folder_ / "wisdom.json");
  }
  Ended counters(const std::string& script) {
    return counters(script, "--wisdom " + (folder_ / "wisdom.json").string() +
                                " --problem '^(rms_norm|swiglu).tokens=1,' --metrics known.sum,unknown.sum");
  }
  Ended counters(const std::string& script, const std::string& arguments) {
    std::ofstream(folder_ / "ncu") << "#!/bin/sh\n" << script;
    fs::permissions(folder_ / "ncu", fs::perms::owner_all);
    const std::string path = ::getenv("PATH");
    ::setenv("PATH", (folder_.string() + ":" + path).c_str(), 1);
    const Ended result = stdout_of("counters " + arguments + " 2>&1");
    ::setenv("PATH", path.c_str(), 1);
    return result;
  }
  const fs::path folder_ = fs::path(::testing::TempDir()) / ("counters_" + std::to_string(::getpid()));
};

TEST_F(Counters, SkipAMetricThatTheGpuDoesNotHave) {
  const Ended result = counters(
      "case \"$*\" in *unknown.sum*) echo '==ERROR== Failed to find metric unknown.sum'; exit 1;; esac\n"
      "kernel=$(echo \"$*\" | sed 's|.* profile \\([a-z_]*\\)/\\([a-z_]*\\) .*|\\1_\\2|')\n"
      "printf '\"ID\",\"Kernel Name\",\"known.sum\"\\n\"\",\"\",\"byte\"\\n\"0\",\"%s\",\"1,024\"\\n' "
      "\"$kernel\"\n");
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("ncu does not read unknown.sum here"), std::string::npos) << result.text;
  std::size_t rows = 0;
  for (const auto& file : fs::directory_iterator(folder_)) {
    if (!file.path().string().ends_with(".counters.csv")) continue;
    for (const auto& row : read_csv(file.path())) {
      ++rows;
      EXPECT_EQ(row.at("known.sum"), "1024");
      EXPECT_EQ(row.at("unknown.sum"), "");
      EXPECT_EQ(row.at("kernel"), row.at("op") + "_" + row.at("variant"));
      EXPECT_GT(std::stod(row.at("bytes")), 0);
#if WARPTUNE_HAS_CUDA
      EXPECT_GT(std::stod(row.at("occupancy_pct")), 0) << "computed for the device of the wisdom";
#endif
    }
  }
  EXPECT_GE(rows, 2u);
}

TEST_F(Counters, AnyConfigurationHasARowPerKernel) {
  const fs::path csv = folder_ / "one.csv";
  const Ended result = counters(
      "echo \"$*\" > " + (folder_ / "asked").string() +
          "\nprintf '\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\"\\n\"\",\"\",\"ns\"\\n'\n"
          "printf '\"0\",\"void rms_norm_naive<1>(Args)\",\"2,500\"\\n\"1\",\"library\",\"500\"\\n'\n",
      "rms_norm/naive --problem tokens=3,hidden=64 --config block=128 --device cuda:0 --csv " + csv.string());
  EXPECT_EQ(result.code, 0) << result.text;
  const std::string asked = text_of(folder_ / "asked");
  EXPECT_NE(asked.find("profile rms_norm/naive --problem tokens=3,hidden=64 --dtype bf16 --config block=128"),
            std::string::npos)
      << asked;
  EXPECT_NE(result.text.find("rms_norm[tokens=3,hidden=64,dtype=bf16] naive block=128"), std::string::npos)
      << result.text;
  const auto rows = read_csv(csv);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].at("kernel"), "rms_norm_naive");
  EXPECT_EQ(rows[0].at("gpu__time_duration.sum"), "2500");
  EXPECT_EQ(rows[0].at("kernels"), "2");
  EXPECT_EQ(rows[1].at("kernel_index"), "2");
  EXPECT_EQ(rows[1].at("occupancy_pct"), "") << "a kernel of a library";
  EXPECT_EQ(counters("exit 1\n", "").code, 2) << "neither winners nor a target";
}

TEST_F(Counters, MissingPermissionIsReportedOnce) {
  const Ended result =
      counters("echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'; exit 1\n");
  EXPECT_EQ(result.code, 2) << result.text;
  EXPECT_EQ(result.text,
            "warptune: ncu may not read counters here: the driver restricts them to administrators "
            "(ERR_NVGPUCTRPERM)\n");
}

TEST_F(Regression, ProfilePrintsItsCommands) {
  const std::string what =
      "profile rms_norm/host_naive --problem tokens=2,hidden=33 --dtype fp32 --device host -o " +
      (folder_ / "report").string();
  const Ended printed = stdout_of(what);
  EXPECT_EQ(printed.code, 0);
  EXPECT_NE(printed.text.find("ncu --profile-from-start off"), std::string::npos) << printed.text;
  EXPECT_NE(printed.text.find("\nnsys profile"), std::string::npos) << printed.text;
  EXPECT_EQ(stdout_of(what + " --inside").code, 0);
  EXPECT_EQ(stdout_of("profile rms_norm --problem tokens=2,hidden=33 2> /dev/null").code, 2);
}

}  // namespace
}  // namespace warptune
