// `warptune decode --ranks` as a user types it, on the host device.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>

#include "harness/device/device.h"
#include "harness/llama/decode_report.h"
#include "harness/results/csv.h"
#include "tests/program.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class RanksCommand : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = testing::fresh_folder("ranks"); }

  /// Runs the program and returns its exit code; its output is in `output_`.
  int run(const std::string& arguments, const std::string& before = "") {
    const testing::Ended ended = testing::run_shell(before + command(arguments));
    output_ = ended.text;
    return ended.code;
  }
  std::string command(const std::string& arguments) const {
    return std::string(WARPTUNE_PROGRAM) + " decode --device host --out " + folder_.string() + " " +
           arguments;
  }
  static std::string golden(const std::string& name) {
    return "--model " + std::string(TEST_DATA) + "/golden/" + name;
  }
  /// A run that takes minutes.
  static std::string long_run() {
    return golden("gqa") + " --random-weights 1 --prompt-len 4 --steps 200000 --ranks 2";
  }
  std::string tokens() const {
    std::smatch line;
    return std::regex_search(output_, line, std::regex("sequence 0: .*")) ? line.str() : "";
  }
  CsvRow last_row() const { return read_csv(folder_ / "host" / "decode.csv").back(); }

  /// The processes of a command that is in the background, its ranks in their order.
  static std::vector<pid_t> children_of(pid_t parent) {
    std::vector<pid_t> children;
    std::ifstream in(fmt::format("/proc/{0}/task/{0}/children", parent));
    for (pid_t child = 0; in >> child;) children.push_back(child);
    return children;
  }
  /// Whether a process ends within some seconds.
  static bool ends(pid_t process) {
    for (int i = 0; i < 300; ++i) {
      if (::kill(process, 0) != 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
  }
  /// Starts commands in the background, each with its output in a file, and returns their processes.
  pid_t start(const std::string& line, const std::string& log) const {
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl("/bin/sh", "sh", "-c", ("exec " + line + " > " + (folder_ / log).string() + " 2>&1").c_str(),
              nullptr);
      ::_exit(127);
    }
    return child;
  }
  std::string log(const char* name) const {
    std::ifstream in(folder_ / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static int code_of(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  /// Waits until the ranks decode: they have opened the CSV.
  std::vector<pid_t> running_ranks(pid_t program) const {
    for (int i = 0; i < 300; ++i) {
      if (children_of(program).size() == 2 && fs::exists(folder_ / "host" / "decode.csv")) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return children_of(program);
  }

  fs::path folder_;
  std::string output_;
};

TEST_F(RanksCommand, ChecksAGoldenAndAppendsOneRow) {
  const std::string check = golden("gqa") + " --check " + TEST_DATA + "/golden/gqa/golden.safetensors ";
  for (const int ranks : {2, 4}) {
    ASSERT_EQ(run(check + fmt::format("--ranks {} -v", ranks)), 0) << output_;
    EXPECT_NE(output_.find(fmt::format(", {} ranks, plans: ", ranks)), std::string::npos) << output_;
    EXPECT_NE(output_.find("all_reduce_add_rms_norm"), std::string::npos) << output_;
    EXPECT_EQ(count_of(output_, "check against"), 1) << output_;
    EXPECT_EQ(last_row().at("ranks"), std::to_string(ranks));
    EXPECT_TRUE(last_row().at("plan_set").ends_with(fmt::format("+ranks={}", ranks)));
    EXPECT_EQ(last_row().at("check"), "pass");
  }
  EXPECT_EQ(read_csv(folder_ / "host" / "decode.csv").size(), 2u);
}

TEST_F(RanksCommand, HasTheTokensOfOneRankAndThoseOfNaivePlans) {
  for (const char* model : {"tied", "phi3"}) {
    const std::string arguments = golden(model) + " --prompt-len 9,3 --steps 8 --check-baseline 4";
    ASSERT_EQ(run(arguments), 0) << output_;
    const std::string one = tokens();
    ASSERT_EQ(run(arguments + " --ranks 2"), 0) << output_;
    EXPECT_EQ(tokens(), one);
    EXPECT_EQ(count_of(output_, "check against the naive plans: ok"), 1) << output_;
  }
}

TEST_F(RanksCommand, DumpsAndComparesTheLayersOfRank0) {
  const std::string layers = golden("gqa") + " --prompt-len 5 --steps 3 --ranks 2 ",
                    dump = (folder_ / "d").string();
  ASSERT_EQ(run(layers + "--dump-layers " + dump), 0) << output_;
  ASSERT_EQ(run(layers + "--compare-layers " + dump), 0) << output_;
  EXPECT_NE(run(layers + "--dump-layers " + dump), 0) << "it is not empty";
  EXPECT_EQ(count_of(output_, "warptune: "), 1) << output_;
}

TEST_F(RanksCommand, AKilledRankEndsTheRunWithOneSentence) {
  for (const std::size_t rank : {0u, 1u}) {
    const pid_t program = start(command(long_run()), "log");
    const auto ranks = running_ranks(program);
    ASSERT_EQ(ranks.size(), 2u) << log("log");
    ::kill(ranks[rank], SIGKILL);
    EXPECT_EQ(code_of(program), 1);
    const std::string sentence =
        fmt::format("warptune: rank {} of 2 was ended by signal 9 (Killed), which ends the run\n", rank);
    EXPECT_NE(log("log").find(sentence), std::string::npos) << log("log");
    EXPECT_EQ(count_of(log("log"), "warptune: "), 1) << log("log");
    for (const pid_t process : ranks) EXPECT_TRUE(ends(process));
    fs::remove(folder_ / "host" / "decode.csv");
  }
}

TEST_F(RanksCommand, WhatEndsTheProgramEndsItsRanks) {
  for (const int signal : {SIGTERM, SIGINT, SIGKILL}) {
    const pid_t program = start(command(long_run()), "log");
    const auto ranks = running_ranks(program);
    ASSERT_EQ(ranks.size(), 2u) << log("log");
    ::kill(program, signal);
    EXPECT_EQ(code_of(program), -signal);
    for (const pid_t process : ranks) EXPECT_TRUE(ends(process)) << signal;
    fs::remove(folder_ / "host" / "decode.csv");
  }
}

TEST_F(RanksCommand, OtherLaunchersStartTheRanks) {
  struct Launcher {
    const char *rank, *ranks, *local, *rest;
  };
  for (const Launcher& launcher :
       {Launcher{"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT=29500"},
        Launcher{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", ""},
        Launcher{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", ""},
        Launcher{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_JOB_ID=7 SLURM_STEP_ID=0"}}) {
    std::vector<pid_t> processes;
    for (const int rank : {0, 1})
      processes.push_back(
          start(fmt::format("env {}={} {}=2 {}={} {} {}", launcher.rank, rank, launcher.ranks, launcher.local,
                            rank, launcher.rest, command(golden("gqa") + " --steps 4 --ranks 2")),
                fmt::format("log{}", rank)));
    for (const pid_t process : processes) EXPECT_EQ(code_of(process), 0) << launcher.rank;
    EXPECT_NE(log("log0").find(", 2 ranks, plans"), std::string::npos) << log("log0");
    EXPECT_EQ(log("log1"), "") << launcher.rank;
  }
}

TEST_F(RanksCommand, ARankOfAnotherLauncherEndsWhenAnotherIsKilled) {
  std::vector<pid_t> processes;
  for (const int rank : {0, 1})
    processes.push_back(start(fmt::format("env RANK={} WORLD_SIZE=2 LOCAL_RANK={} MASTER_PORT=29501 {}", rank,
                                          rank, command(long_run())),
                              fmt::format("log{}", rank)));
  for (int i = 0; i < 300 && !fs::exists(folder_ / "host" / "decode.csv"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ::kill(processes[1], SIGKILL);
  EXPECT_EQ(code_of(processes[1]), -SIGKILL);
  EXPECT_EQ(code_of(processes[0]), 1);
  EXPECT_NE(log("log0").find("warptune: rank 1 of 2 has ended\n"), std::string::npos) << log("log0");
}

TEST_F(RanksCommand, BadInputIsOneSentence) {
  const std::string gqa = golden("gqa");
  struct Bad {
    std::string arguments, before, sentence;
  };
  for (const Bad& bad : {
           Bad{gqa + " --ranks 3", "", "gqa has 4 query heads, which 3 ranks cannot split evenly"},
           Bad{gqa + " --ranks 9", "", "--ranks: Value 9 not in range 1 to 8"},
           Bad{gqa + " --ranks 2 --fuse-norm on", "",
               "--fuse-norm on needs one rank: 2 ranks add the residual in their exchange"},
           Bad{gqa + " --ranks 2", "RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 ",
               "--ranks is 2, and torchrun started 4 processes (WORLD_SIZE)"},
           Bad{gqa + " --ranks 2", "RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 ",
               "RANK is 1 and LOCAL_RANK is 0: the ranks of a model run on one host"},
           Bad{gqa + " --ranks 2", "RANK=x WORLD_SIZE=2 ", "RANK is 'x'; it must be an integer"},
           Bad{gqa + " --ranks 2", "RANK=2 WORLD_SIZE=2 ", "RANK is 2; the ranks are 0 to 1"},
           Bad{gqa + " --ranks 2 --prompt-ids missing.txt", "", "missing.txt"},
       }) {
    EXPECT_EQ(run(bad.arguments, bad.before), 2) << output_;
    EXPECT_NE(output_.find(bad.sentence), std::string::npos) << bad.sentence << "\n" << output_;
    EXPECT_EQ(count_of(output_, "warptune: "), 1) << output_;
    EXPECT_FALSE(fs::exists(folder_ / "host" / "decode.csv")) << "a refused run writes nothing";
  }
  const testing::Ended ended =
      testing::run_shell("{} decode --preset tinyllama-1.1b --ranks 2 --device cuda:0,cuda:1,cuda:2");
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.text.find("--ranks 2 needs 2 devices; --device names 3"), std::string::npos) << ended.text;
}

TEST_F(RanksCommand, ALauncherOfOneProcessIsNone) {
  EXPECT_EQ(run(golden("gqa") + " --steps 2 --ranks 2", "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 "), 0) << output_;
  EXPECT_EQ(last_row().at("ranks"), "2");
}

TEST_F(RanksCommand, OnlyRank0TimesWhatIsMissing) {
  ASSERT_EQ(run(golden("mha") + " --steps 2 --ranks 2 --tune-missing 0.02"), 0) << output_;
  EXPECT_EQ(count_of(output_, "problems had no winner"), 1) << output_;
  EXPECT_NE(last_row().at("plan_set").find("tuned"), std::string::npos) << output_;
}

TEST_F(RanksCommand, AnOldCsvGetsTheColumn) {
  ASSERT_EQ(run(golden("gqa") + " --steps 2"), 0) << output_;
  const fs::path csv = folder_ / "host" / "decode.csv";
  auto rows = read_csv(csv);
  rows[0].erase("ranks");
  std::vector<std::string> columns = decode_columns();
  columns.pop_back();
  write_csv(csv, columns, rows);
  ASSERT_EQ(run(golden("gqa") + " --steps 2 --ranks 2"), 0) << output_;
  rows = read_csv(csv);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].at("ranks"), "1");
  EXPECT_EQ(rows[1].at("ranks"), "2");
}

TEST(GpuRanksCommand, TwoGpusAgreeWithTransformersAndWithNaivePlans) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "fewer than two CUDA devices";
  const fs::path folder = testing::fresh_folder("gpu_ranks");
  for (const std::string name : {"gqa", "tied", "phi3"}) {
    const std::string model = std::string(TEST_DATA) + "/golden/" + name;
    const std::string run =
        "{} decode --ranks 2 --tune-missing 0 --out " + folder.string() + " --model " + model;
    for (const std::string& check : {" --check " + model + "/golden.safetensors",
                                     std::string(" --prompt-len 100,3 --check-baseline 8")}) {
      const testing::Ended ended = testing::run_shell(run + check);
      EXPECT_EQ(ended.code, 0) << ended.text;
      EXPECT_NE(ended.text.find(", 2 ranks, plans: "), std::string::npos) << ended.text;
    }
  }
}

}  // namespace
}  // namespace warptune
