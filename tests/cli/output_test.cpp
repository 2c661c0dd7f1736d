// Output for people: tables, suggestions for misspelled names, closed pipes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/program.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::Ended;
using testing::fresh_folder;
using testing::run;
using testing::run_shell;

void expect_text(const Ended& ended, const std::string& part) {
  EXPECT_NE(ended.text.find(part), std::string::npos) << "no '" << part << "' in:\n" << ended.text;
}

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

/// The folder with the winners of a sweep of rms_norm on the host; all tests share it.
const fs::path& tuned_host() {
  static const fs::path folder = [] {
    const fs::path made = fresh_folder("output_tuned");
    const Ended ended = run("tune " + testing::host_sweep(made, "[64, 128]") + " --out " + made.string());
    EXPECT_EQ(ended.code, 0) << ended.text;
    return made;
  }();
  return folder;
}

TEST(Output, AMisspelledNameGetsASuggestion) {
  const std::string sweep = testing::host_sweep(fresh_folder("output_names"), "64");
  for (const auto& [arguments, part] :
       {std::pair<std::string, std::string>{"tnue x.yaml", "did you mean 'tune'?"},
        {"wisdom shwo x.json", "did you mean 'show'?"},
        {"tune " + sweep + " --filtr x", "did you mean '--filter'?"},
        {"decode --preset llama2-7", "did you mean 'llama2-7b'?"},
        {"profile 'rms_norm[tokens=1,hidden=64,dtype=bf61]' --wisdom w.json",
         "unknown dtype 'bf61'; did you mean 'bf16'?"},
        {"decode --preset llama2-7b --device host --dtype fp31", "fp32"}}) {
    const Ended ended = run(arguments);
    EXPECT_EQ(ended.code, 2) << arguments << ended.text;
    expect_text(ended, part);
  }
}

TEST(Output, AUsageErrorNamesTheCommandThatWasTyped) {
  for (const auto& [arguments, part] :
       {std::pair<std::string, std::string>{"wisdom show",
                                            "'warptune wisdom show --help' shows the arguments"},
        {"wisdom show x.json --nothing",
         "'warptune wisdom show' has no option '--nothing'; 'warptune wisdom "
         "show --help' lists them"},
        {"wisdom nothing", "'warptune wisdom' has no subcommand 'nothing'"},
        {"new kernel", "'warptune new kernel --help'"},
        {"--nothing", "'warptune' has no option '--nothing'"},
        {"compare x.csv", "'warptune compare --help'"}}) {
    const Ended ended = run(arguments);
    EXPECT_EQ(ended.code, 2) << arguments << ended.text;
    expect_text(ended, part);
  }
}

TEST(Output, AClosedPipeIsNoError) {
  const std::string sweep = testing::host_sweep(fresh_folder("output_pipe"), "{from: 8, to: 2048, step: 8}");
  for (const std::string& command :
       {std::string("list parameters"), "tune " + sweep + " --dry-run --device host"}) {
    const Ended ended = run_shell("({} " + command + " | head -n 1 > /dev/null)");
    EXPECT_EQ(ended.text, "") << command;
  }
  // If SIGPIPE is ignored, writing fails instead.
  EXPECT_EQ(
      run_shell("(trap '' PIPE; {} tune " + sweep + " --dry-run --device host | head -n 1 > /dev/null)").text,
      "");
}

TEST(Output, ADryRunForAnotherArchitectureNeedsNoDevice) {
  const std::string sweep = std::string(SOURCE_ROOT) + "/configs/llama2-7b.yaml";
  const Ended ended = run("tune " + sweep + " --dry-run --arch sm_90a --filter rms_norm/ --out /no/such");
  EXPECT_EQ(ended.code, 0) << ended.text;
  for (const char* part : {"all", "legal", "planned", "NVIDIA H200 (sm_90a)", "evaluations",
                           "estimated time: about", "rms_norm[tokens=1,hidden=4096,dtype=bf16]"})
    expect_text(ended, part);
  EXPECT_LE(widest_line(ended.text), 140u);  // the line of the estimate is a sentence, not a table
  EXPECT_EQ(run("tune " + sweep + " --dry-run --arch sm_12").code, 2);
  EXPECT_EQ(run("tune " + sweep + " --arch sm_90a").code, 2) << "--arch is for --dry-run";
}

TEST(Output, VerboseTunePrintsTheTimeSpentMeasuring) {
  const fs::path folder = fresh_folder("output_verbose");
  const std::string tune = "tune " + testing::host_sweep(folder, "64") + " --out " + folder.string();
  const Ended quiet = run(tune), verbose = run(tune + " --fresh -v");
  EXPECT_EQ(quiet.text.find("the workers measured"), std::string::npos) << quiet.text;
  expect_text(verbose, "the workers measured");
  EXPECT_EQ(quiet.text.find("ms per configuration"), std::string::npos) << quiet.text;
  for (const char* part : {"ms per configuration", "wait for a compile", "second verify", "other"})
    expect_text(verbose, part);
  for (const char* heading : {"problem", "us", "GB/s", "TFLOP/s", "% floor", "x naive"})
    expect_text(quiet, heading);
  EXPECT_EQ(quiet.text.find('\033'), std::string::npos) << "a pipe has no color";
}

TEST(Output, WisdomShowsSpeedsAndFilters) {
  const std::string show = "wisdom show " + (tuned_host() / "host" / "wisdom.json").string();
  const Ended all = run(show);
  EXPECT_EQ(all.code, 0) << all.text;
  for (const char* part :
       {"2 of 2 winners", "us", "GB/s", "% floor", "rms_norm[tokens=8,hidden=64,dtype=fp32]"})
    expect_text(all, part);
  EXPECT_LE(widest_line(all.text), 120u);
  expect_text(run(show + " --problem hidden=64,"), "1 of 2 winners");
  expect_text(run(show + " --op rms_norm"), "2 of 2 winners");
  const Ended wrong = run(show + " --op rms_nrom");
  EXPECT_EQ(wrong.code, 2);
  expect_text(wrong, "did you mean 'rms_norm'?");
}

TEST(Output, AProfileFindsTheWinnerOfAProblem) {
  const std::string profile = "profile 'rms_norm[tokens=8,hidden=64,dtype=fp32]' -o " +
                              (fresh_folder("output_profile") / "report").string();
  const Ended ended = run(profile + " --wisdom " + (tuned_host() / "host" / "wisdom.json").string());
  EXPECT_EQ(ended.code, 0) << ended.text;
  expect_text(ended, "profile rms_norm/host_");
  EXPECT_EQ(run(profile).code, 2) << "without a wisdom there is no winner";
}

}  // namespace
}  // namespace warptune
