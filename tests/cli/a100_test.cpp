// The A100 kit: its whole path runs on the host, and its device check says what to do.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/program.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;
using testing::run_shell;

const std::string kScript = std::string(SOURCE_ROOT) + "/scripts/a100.sh";
const std::string kPredict = "python3 " + std::string(SOURCE_ROOT) + "/scripts/predict_a100.py";

void write_program(const fs::path& path, const std::string& body) {
  std::ofstream(path) << "#!/usr/bin/env bash\n" << body;
  fs::permissions(path, fs::perms::owner_all);
}

/// The script on a sweep of three configurations, with a small checkpoint.
std::string trial(const fs::path& folder, const std::string& program) {
  return "DEVICE=host CONFIG=" + testing::host_sweep(folder, "64") + " MODELS=" + SOURCE_ROOT +
         "/tests/data/golden/gqa PROMPT_LEN=4 STEPS=2 CHECK_STEPS=2 WARPTUNE=" + program + " " + kScript +
         " --out " + (folder / "out").string();
}

std::size_t lines_of(const fs::path& path) {
  std::size_t count = 0;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) ++count;
  return count;
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

TEST(A100, TheWholePathEndsWithAnArchiveAndRunsAgain) {
  const fs::path folder = testing::fresh_folder("a100");
  const auto first = run_shell(trial(folder, "{}"));
  ASSERT_EQ(first.code, 0) << first.text;
  const auto packed = run_shell("tar -tzf " + last_line(first.text));
  ASSERT_EQ(packed.code, 0) << packed.text << first.text;
  for (const char* name :
       {"out/facts.txt", "out/report.html", "out/host/sweep.csv", "out/host/wisdom.json",
        "out/host/device.json", "out/host/decode.csv", "out/logs/tune.log", "out/logs/device.log"})
    EXPECT_NE(packed.text.find(name), std::string::npos) << name << " is not in\n" << packed.text;
  const auto decode = read_csv(folder / "out/host/decode.csv");
  ASSERT_EQ(decode.size(), 1u);
  EXPECT_EQ(decode[0].at("check"), "pass");
  const std::size_t rows = lines_of(folder / "out/host/sweep.csv");

  const auto second = run_shell(trial(folder, "{}"));
  ASSERT_EQ(second.code, 0) << second.text;
  EXPECT_EQ(lines_of(folder / "out/host/sweep.csv"), rows) << "what has a row is not measured again";
}

TEST(A100, ASpentBudgetKeepsTheWinnersAndGoesOn) {
  const fs::path folder = testing::fresh_folder("a100_budget");
  fs::create_directories(folder / "out/host");
  std::ofstream(folder / "out/host/wisdom.json") << R"({"schema":2,"device":"host","winners":[]})";
  std::ofstream(folder / "out/host/device.json") << R"({"name":"host"})";
  write_program(folder / "program", "[ \"$1\" = tune ] && exec sleep 600\nexit 0\n");
  const auto run = run_shell(trial(folder, (folder / "program").string()) + " --budget 1s");
  EXPECT_EQ(run.code, 0) << run.text;
  EXPECT_NE(run.text.find("the budget of 1s is spent; the same command goes on"), std::string::npos)
      << run.text;
  EXPECT_TRUE(fs::is_regular_file(last_line(run.text))) << run.text;
}

TEST(A100, AFailedCheckIsReportedAndPacked) {
  const fs::path folder = testing::fresh_folder("a100_failed");
  fs::create_directories(folder / "out/host");
  std::ofstream(folder / "out/host/wisdom.json") << R"({"schema":2,"device":"host","winners":[]})";
  std::ofstream(folder / "out/host/device.json") << R"({"name":"host"})";
  write_program(folder / "program", "[ \"$1\" = decode ] && exit 1\nexit 0\n");
  const auto run = run_shell(trial(folder, (folder / "program").string()));
  EXPECT_EQ(run.code, 1) << run.text;
  EXPECT_NE(run.text.find("golden/gqa failed ("), std::string::npos) << run.text;
  EXPECT_TRUE(fs::is_regular_file(last_line(run.text))) << run.text;
}

TEST(A100, EachFindingSaysWhatToDo) {
  const fs::path folder = testing::fresh_folder("a100_check");
  const auto check = [&](const std::string& values) {
    write_program(folder / "nvidia-smi", "case $1 in\n" + values + "esac\n");
    return run_shell("PATH=" + folder.string() + ":$PATH DEVICE=cuda:3 " + kScript + " --check-only");
  };
  const auto good = check(
      "*=name,*) echo 'NVIDIA A100-SXM4-80GB, 550.54' ;;\n*clocks*) echo '210, 1410, 1593, 1593' ;;\n"
      "*power*) echo '400.00, 400.00' ;;\n*mig*) echo 'Disabled, Enabled, Enabled' ;;\n");
  EXPECT_EQ(good.code, 0) << good.text;
  EXPECT_EQ(good.text.find("!!"), std::string::npos) << good.text;
  EXPECT_NE(good.text.find("ok  name: NVIDIA A100-SXM4-80GB, driver 550.54"), std::string::npos) << good.text;
  EXPECT_NE(good.text.find("SM 210 of at most 1410 MHz, memory 1593 of at most 1593 MHz"), std::string::npos);

  const auto bad = check(
      "*=name,*) echo 'NVIDIA H100, 550.54' ;;\n*clocks*) echo '210, 1410, 1593, 1593' ;;\n"
      "*power*) echo '250.00, 400.00' ;;\n*mig*) echo 'Enabled, Disabled, Disabled' ;;\n"
      "*apps*) echo '17, python' ;;\n");
  EXPECT_EQ(bad.code, 0) << bad.text;
  for (const char* finding :
       {"!!  name: NVIDIA H100; this kit is for an A100", "'sudo nvidia-smi -i 3 -pl 400' restores it",
        "'sudo nvidia-smi -i 3 -mig 0' ends it", "'sudo nvidia-smi -i 3 -e 1' and a reboot",
        "'sudo nvidia-smi -i 3 -pm 1' keeps it loaded", "others compute on it: 17, python;"})
    EXPECT_NE(bad.text.find(finding), std::string::npos) << finding << " is not in\n" << bad.text;
}

TEST(A100, BadOptionsAreBadInput) {
  for (const char* given : {"--budget soon", "--bugdet 1h", "--budget", "--out"}) {
    const auto run = run_shell(kScript + " " + given);
    EXPECT_EQ(run.code, 2) << given;
    EXPECT_EQ(run.text.find("a100: "), 0u) << run.text;
  }
}

TEST(PredictA100, TheRecordedPredictionIsThatOfTheRecordedRows) {
  const auto run = run_shell(kPredict + " --check");
  EXPECT_EQ(run.code, 0) << run.text;
}

TEST(PredictA100, ComparesMeasuredWinnersOfTheCard) {
  const fs::path folder = testing::fresh_folder("predict_a100");
  std::ofstream(folder / "predicted.csv")
      << "problem,variant,predicted_40gb_us,predicted_80gb_us\n"
         "\"linear[tokens=1,in=4096,out=4096,bias=no,dtype=bf16]\",gemv,30,20\n";
  std::ofstream(folder / "wisdom.json")
      << R"({"winners":[{"op":"linear","dims":{"tokens":1,"in":4096,"out":4096,"bias":[0,"no"]},"dtype":"fp16",)"
         R"("variant":"gemv_cp_async","time_us":24}]})";
  const auto compared = [&](const std::string& memory) {
    std::ofstream(folder / "device.json") << R"({"name":"NVIDIA A100","memory_bytes":)" + memory + "}";
    return run_shell(kPredict + " --compare " + (folder / "wisdom.json").string() + " --predicted " +
                     (folder / "predicted.csv").string());
  };
  const auto large = compared("85000000000"), small = compared("42000000000");
  EXPECT_EQ(large.code, 0) << large.text;
  EXPECT_NE(large.text.find("1 problems: median ratio 1.20"), std::string::npos) << large.text;
  EXPECT_NE(small.text.find("1 problems: median ratio 0.80"), std::string::npos) << small.text;
}

}  // namespace
}  // namespace warptune
