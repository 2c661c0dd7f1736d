#include "harness/tune/confirm.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "harness/core/error.h"
#include "tests/sweep_rows.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::Fields;

const Problem kProblem{"rms_norm", {{"tokens", 2}, {"hidden", 8}}, DType::fp32};

/// Programs that write prepared rows as `rerun` would, and say in a file that they ran.
class Confirm : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    options_ = {.runs = 3, .program = program("new", 10), .output = folder_, .log = log_};
  }
  void TearDown() override { std::fclose(log_); }

  static Fields row(const std::string& config, double us, const std::string& run) {
    return testing::sweep_fields({{"run_id", run},
                                  {"device", "gpu"},
                                  {"driver", "1"},
                                  {"op", "rms_norm"},
                                  {"problem", kProblem.key()},
                                  {"variant", "naive"},
                                  {"config", config},
                                  {"sm_clock_mhz", "1980"},
                                  {"time_us", std::to_string(us)},
                                  {"sampling", "rerun"}});
  }
  /// Three runs of both configurations.
  static std::vector<TimedConfig> runs(double first_us, double second_us,
                                       const std::string& sampling = "rerun") {
    std::vector<Fields> rows;
    for (const char* run : {"a", "b", "c"})
      for (Fields one : {row("block=32", first_us, run), row("block=64", second_us, run)}) {
        one["sampling"] = sampling;
        rows.push_back(one);
      }
    return read_timed_configs(testing::write_sweep("confirm_rows.csv", rows));
  }
  /// Called as `program rerun WISDOM --name NAME --out OUT ...`: its block=32 takes `us`.
  fs::path program(const std::string& name, double us) const {
    const fs::path rows = folder_ / (name + ".rows"), script = folder_ / name;
    write_csv(rows, sweep_columns(), {row("block=32", us, "RUN")});
    std::ofstream(script) << "#!/bin/sh\n"
                             "set -e\n"
                             "test \"$1 $3 $5\" = 'rerun --name --out'\n"
                             "grep -q '\"block\":32' \"$2\"\n"
                             "! grep -q '\"block\":64' \"$2\"\n"
                          << "echo " << name << " >> " << (folder_ / "order").string() << "\n"
                          << "mkdir -p \"$6/gpu\"\n"
                          << "sed \"s/RUN/$4/\" " << rows.string() << " > \"$6/gpu/$4.csv\"\n";
    fs::permissions(script, fs::perms::owner_all);
    return script;
  }
  std::string order() const {
    std::ifstream in(folder_ / "order");
    std::string text;
    for (std::string line; std::getline(in, line);) text += line + " ";
    return text;
  }
  static Wisdom wisdom() {
    Wisdom made({"gpu", "sm_90a", "1", "13.0", ""});
    made.put({.problem = kProblem, .variant = "naive", .config = {{"block", 32}}, .time_us = 10});
    return made;
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / ("confirm_" + std::to_string(::getpid()));
  std::FILE* log_ = std::tmpfile();
  ConfirmOptions options_;
};

TEST_F(Confirm, ARowThatIsNotSlowerAgainIsNoAlarm) {
  const Comparison first = compare(runs(10, 10), runs(11, 10), {});
  ASSERT_EQ(first.exit_code(), 1);
  const Comparison c = confirm(first, wisdom(), options_);
  EXPECT_EQ(c.exit_code(), 0);
  EXPECT_EQ(c.count(Change::same), 2u);
  EXPECT_EQ(order(), "new new new ");
  int kept = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_))
    kept += entry.path().extension() == ".csv";
  EXPECT_EQ(kept, 3) << "the rows of each run stay";
}

TEST_F(Confirm, ARowThatStaysSlowerIsOne) {
  options_.program = program("slow", 11);
  const Comparison c = confirm(compare(runs(10, 10), runs(11, 10), {}), wisdom(), options_);
  EXPECT_EQ(c.exit_code(), 1);
  EXPECT_EQ(c.rows[0].note, "+10.00 % at first, timed again in 3 runs");
}

TEST_F(Confirm, TheBaseProgramRunsInTurn) {
  // On this machine the base takes 11 us too: the kernel did not change.
  options_.program = program("now", 11);
  options_.base_program = program("before", 11);
  const Comparison c = confirm(compare(runs(10, 10), runs(11, 10), {}), wisdom(), options_);
  EXPECT_EQ(c.exit_code(), 0);
  EXPECT_EQ(order(), "before now before now before now ");
}

TEST_F(Confirm, NothingRunsWithoutASuspect) {
  EXPECT_EQ(confirm(compare(runs(10, 10), runs(9, 10), {}), wisdom(), options_).exit_code(), 0);
  EXPECT_EQ(order(), "");
  // block=64 is no winner of the wisdom: its verdict stays.
  EXPECT_EQ(confirm(compare(runs(10, 10), runs(10, 11), {}), wisdom(), options_).exit_code(), 1);
  EXPECT_EQ(order(), "");
}

TEST_F(Confirm, WhatCannotRunIsOneSentence) {
  const auto error_of = [&](const Comparison& comparison) {
    try {
      confirm(comparison, wisdom(), options_);
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const Comparison first = compare(runs(10, 10), runs(11, 10), {});
  const fs::path broken = folder_ / "broken";
  std::ofstream(broken) << "#!/bin/sh\necho 'no GPU here' >&2\nexit 2\n";
  fs::permissions(broken, fs::perms::owner_all);
  options_.program = broken;
  EXPECT_EQ(error_of(first), "'" + broken.string() + "' timed no row again (exit code 2): no GPU here");
  const Comparison tuned = compare(runs(10, 10, "single"), runs(11, 10, "single"), {});
  ASSERT_EQ(tuned.exit_code(), 1);
  EXPECT_NE(error_of(tuned).find("give --base-program"), std::string::npos) << error_of(tuned);
}

}  // namespace
}  // namespace warptune
