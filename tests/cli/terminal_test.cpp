// No control character of a file reaches the terminal through stdout, whatever the command.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/results/wisdom.h"
#include "tests/files.h"
#include "tests/program.h"
#include "tests/sweep_rows.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::Ended;
using testing::fresh_folder;
using testing::run_shell;

const std::string kHostile = "x\x1b[31m\nINJECTED\r\x07y\x7f";

/// Runs the program and checks what it prints on both streams.
Ended expect_clean(const std::string& arguments) {
  const Ended ended = run_shell("{} " + arguments);
  for (const char c : ended.text)
    EXPECT_TRUE(c == '\n' || (static_cast<unsigned char>(c) >= ' ' && c != '\x7f'))
        << arguments << ": byte " << static_cast<int>(c) << " in\n"
        << ended.text;
  EXPECT_EQ(ended.text.find("\nINJECTED"), std::string::npos) << arguments << ":\n" << ended.text;
  EXPECT_NE(ended.text.find("\\x1b[31m\\nINJECTED"), std::string::npos)
      << arguments << ": this test would not see it, in\n"
      << ended.text;
  return ended;
}

/// A wisdom whose texts are all hostile.
fs::path hostile_wisdom(const fs::path& file) {
  Wisdom wisdom({kHostile, kHostile, kHostile, kHostile, kHostile});
  Winner winner{.problem = {"argmax", {{"batch", 1}, {"vocab", 9}}, DType::fp16},
                .variant = kHostile,
                .time_us = 3,
                .source_hash = kHostile,
                .run_id = kHostile,
                .csv = kHostile};
  winner.config.set(kHostile, 1, kHostile);
  wisdom.put(winner);
  winner.problem.op = kHostile;
  winner.made_on = {"other" + kHostile, kHostile, kHostile, kHostile, kHostile};
  wisdom.put(winner);
  StepWinner step{.step = {kStepOp, {}, DType::fp16}, .time_us = 3, .alone_us = 9};
  step.step.dims.set("model", 0, kHostile);
  step.plans.options.set(kHostile, 1, kHostile);
  step.plans.plans = {{winner.problem, kHostile, winner.config, kHostile, kHostile}};
  wisdom.put(step);
  wisdom.save(file);
  return file;
}

TEST(Terminal, Wisdom) {
  const fs::path folder = fresh_folder("terminal_wisdom"), file = hostile_wisdom(folder / "w.json");
  EXPECT_EQ(expect_clean("wisdom show " + file.string()).code, 0);
  EXPECT_EQ(expect_clean("wisdom check " + file.string()).code, 1);
  fs::create_directories(folder / "store");
  const std::string store = (folder / "store").string();
  EXPECT_EQ(run_shell("{} wisdom push " + store + " --wisdom " + file.string()).code, 0);
  Wisdom(Provenance{kHostile, "arch", "", "", ""}).save(folder / "local.json");
  const Ended pulled = expect_clean("wisdom pull " + store + " --wisdom " + (folder / "local.json").string());
  EXPECT_NE(pulled.text.find("refused 2 winners"), std::string::npos) << pulled.text;
}

TEST(Terminal, Rows) {
  const fs::path folder = fresh_folder("terminal_rows");
  std::vector<testing::Fields> rows;
  for (const char* us : {"1", "2", "3", "4"})
    rows.push_back(testing::sweep_fields({{"time_us", us},
                                          {"run_id", kHostile},
                                          {"device", kHostile},
                                          {"op", kHostile},
                                          {"problem", kHostile + "[n=1,dtype=fp32]"},
                                          {"dtype", "fp32"},
                                          {"variant", kHostile},
                                          {"config", "block=" + std::string(us)},
                                          {"throttled", "hw_slowdown" + kHostile},
                                          {"sampling", "finalist"}}));
  const std::string base = (folder / "base.csv").string(), now = (folder / "now.csv").string();
  write_csv(base, sweep_columns(), rows);
  rows.pop_back();
  write_csv(now, sweep_columns(), rows);
  expect_clean("compare " + base + " " + now + " --all-rows");
  expect_clean("compare " + base + " " + now + " --all-rows --format markdown");
  for (testing::Fields& row : rows) row["sampling"] = "screened";
  write_csv(now, sweep_columns(), rows);
  expect_clean("simulate " + now + " --strategy random --seeds 1");
}

TEST(Terminal, AJsonDocumentStaysExact) {
  const fs::path folder = fresh_folder("terminal_json"), file = hostile_wisdom(folder / "w.json");
  Wisdom wisdom({kHostile, "sm_90a", "", "", ""});
  wisdom.put(
      {{"argmax", {{"batch", 1}, {"vocab", 9}}, DType::fp16}, "naive", {{"block", 64}}, 3, "", kHostile, ""});
  wisdom.save(file);
  const Ended exported = run_shell("{} wisdom export " + file.string());
  EXPECT_EQ(exported.text, testing::text_of(file));
  EXPECT_EQ(exported.text.find('\x1b'), std::string::npos);
}

TEST(Terminal, CompilerMessages) {
  const fs::path folder = fresh_folder("terminal_inspect");
  std::ofstream(folder / "k.cu", std::ios::binary)
      << "#error \x1b[31m\x07 bell\nextern \"C\" __global__ void k() {}\n";
  const std::string bytes = testing::text_of(folder / "k.cu");
  std::ofstream(folder / "k.yaml")
      << "kernels:\n  - {op: argmax, variant: mine, file: k.cu, kernel: k, arguments: [], grid: [1], block: "
         "[32]}\n"
         "ops:\n  - op: argmax\n    dtypes: fp16\n    problems: [{batch: 1, vocab: 9}]\n    variants: mine\n";
  const Ended ended = run_shell("{} inspect " + (folder / "k.yaml").string() + " --arch sm_90a");
  for (const char c : ended.text)
    EXPECT_TRUE(c == '\n' || c == '\t' || static_cast<unsigned char>(c) >= ' ')
        << static_cast<int>(c) << ended.text;
}

}  // namespace
}  // namespace warptune
