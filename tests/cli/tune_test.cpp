// The program from outside, on the host device.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "results/csv.h"
#include "results/wisdom.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

struct Result {
  int code;
  std::string text;
};

Result run(const std::string& arguments) {
  std::FILE* pipe = ::popen((std::string(WARPTUNE_PROGRAM) + " " + arguments + " 2>&1").c_str(), "r");
  Result result{-1, {}};
  std::array<char, 4096> buffer;
  while (const auto n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    result.text.append(buffer.data(), n);
  result.code = WEXITSTATUS(::pclose(pipe));
  return result;
}

std::string sweep_file() {
  const auto path = fs::path(::testing::TempDir()) / "cli.yaml";
  std::ofstream(path)
      << "sampling: {min_samples: 3, max_time: 0.01}\nops:\n  - op: rms_norm\n    dtypes: fp32\n"
         "    problems: [{tokens: 2, hidden: [8, 33]}]\n";
  return path.string();
}

TEST(Cli, TuneWritesRowsAndWinners) {
  const fs::path out = fs::path(::testing::TempDir()) / "cli_out";
  fs::remove_all(out);
  const Result result = run("tune " + sweep_file() + " --device host --out " + out.string());
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_EQ(result.text.find('\r'), std::string::npos);  // a pipe gets plain lines
  const auto rows = read_csv(out / "host" / "cli.csv");
  ASSERT_GE(rows.size(), 4u);
  for (const auto& row : rows) EXPECT_EQ(row.at("status"), "ok") << row.at("detail");
  EXPECT_EQ(Wisdom::load(out / "host" / "wisdom.json").winners().size(), 2u);
  std::map<std::string, int> finalists;  // by cache state
  for (const auto& row : rows)
    if (row.at("detail").starts_with("finalist")) ++finalists[row.at("cache")];
  EXPECT_GE(finalists["cold"], 2);
  EXPECT_EQ(finalists["hot"], finalists["cold"]);
  EXPECT_EQ(finalists["isolated"], finalists["cold"]);
}

TEST(Cli, CalibrateWritesTheDeviceFileThatTuneUses) {
  const fs::path out = fs::path(::testing::TempDir()) / "calibrate_out";
  fs::remove_all(out);
  const Result result = run("calibrate --device host --out " + out.string());
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("write"), std::string::npos) << result.text;
  const auto file = out / "host" / "device.json";
  ASSERT_TRUE(fs::exists(file));
  const auto before = fs::last_write_time(file);
  EXPECT_EQ(run("tune " + sweep_file() + " --device host --filter host_naive --out " + out.string()).code, 0);
  EXPECT_EQ(fs::last_write_time(file), before);
}

TEST(Cli, DryRunCountsOnly) {
  const Result result = run("tune " + sweep_file() + " --device host --dry-run --filter host_naive");
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("rms_norm/host_naive"), std::string::npos);
  EXPECT_EQ(result.text.find("host_threaded"), std::string::npos);
}

TEST(Cli, ExitCodes) {
  EXPECT_EQ(run("--help").code, 0);
  EXPECT_EQ(run("tune --help").code, 0);
  EXPECT_EQ(run("--no-such-flag").code, 2);
  EXPECT_EQ(run("tune /no/such.yaml").code, 2);
  EXPECT_EQ(run("list ops no_such_op").code, 2);
  EXPECT_EQ(run("inspect " + sweep_file() + " --arch sm_12").code, 2);
  EXPECT_EQ(run("tune " + sweep_file() + " --device cuda:99").code, 2);
  EXPECT_EQ(run("tune " + sweep_file() + " --device host --out /proc/no").code, 2);
}

TEST(Cli, ListsAndDevices) {
  EXPECT_NE(run("list ops").text.find("rms_norm"), std::string::npos);
  EXPECT_NE(run("list variants rms_norm").text.find("rms_norm/vectorized"), std::string::npos);
  EXPECT_NE(run("list parameters rms_norm").text.find("block"), std::string::npos);
  EXPECT_NE(run("devices").text.find("host"), std::string::npos);
}

}  // namespace
}  // namespace warptune
