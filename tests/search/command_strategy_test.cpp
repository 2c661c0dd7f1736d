// Another program proposes: what it is told, and what happens where it misbehaves.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/core/error.h"
#include "harness/search/search_order.h"
#include "harness/search/simulate.h"
#include "tests/program.h"

namespace warptune {
namespace {
using Json = nlohmann::json;

/// Four configurations, the third of which fails.
RecordedSpace four() {
  RecordedSpace r{
      .problem = "p[n=1]", .space = {.problem = "p[n=1]"}, .times_us = {4, 2, INFINITY, 3}, .best_us = 2};
  for (int i = 0; i < 4; ++i) r.space.candidates.push_back({.variant = "v", .config = {{"block", 32 << i}}});
  r.space.candidates[1].config.set("mode", 1, "fast");
  r.space.constraints = {{"v", {"block <= 256"}}};
  r.space.likely = {1};
  return r;
}

std::vector<double> found(const std::string& run, int ahead = 1, const char* evaluations = "4") {
  return convergence(
      four(), {.strategy = "command", .budget = parse_budget(evaluations), .seed = 7, .run = run}, ahead);
}

/// A program that answers the questions with these lines, one each, and keeps what it reads.
std::string answers(const std::vector<std::string>& lines, const std::string& log) {
  std::string script = "read space; echo \"$space\" > " + log + "; ";
  for (const std::string& line : lines)
    script += "while read m; do echo \"$m\" >> " + log + "; case $m in *ask*) break;; esac; done; echo '" +
              line + "'; ";
  return script + "cat >> " + log;
}

std::string log_file(const char* name) { return (testing::fresh_folder(name) / "log").string(); }

std::vector<Json> lines_of(const std::string& file) {
  std::ifstream in(file);
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

TEST(CommandStrategy, IsToldTheSpaceAndTheTimes) {
  const std::string log = log_file("command_told");
  EXPECT_EQ(found(answers({R"({"id": 3})", R"({"id": 2})", R"({"id": 1})", R"({"id": null})"}, log)),
            (std::vector<double>{1.5, 1.5, 1}));
  const auto lines = lines_of(log);
  ASSERT_GE(lines.size(), 8u);
  const Json& space = lines[0];
  EXPECT_EQ(space["type"], "space");
  EXPECT_EQ(space["problem"], "p[n=1]");
  EXPECT_EQ(space["seed"], 7);
  EXPECT_EQ(space["evaluations"], 4);
  EXPECT_EQ(space["likely"], Json({1}));
  EXPECT_EQ(space["constraints"]["v"], Json({"block <= 256"}));
  ASSERT_EQ(space["configurations"].size(), 4u);
  EXPECT_EQ(space["configurations"][1],
            Json({{"id", 1}, {"variant", "v"}, {"parameters", {{"block", 64}, {"mode", "fast"}}}}));
  EXPECT_EQ(lines[1], Json({{"type", "ask"}}));
  EXPECT_EQ(lines[2], Json({{"type", "tell"}, {"id", 3}, {"time_us", 3.0}}));
  EXPECT_EQ(lines[4], Json({{"type", "tell"}, {"id", 2}, {"time_us", nullptr}})) << "it failed";
}

TEST(CommandStrategy, IsAskedAgainBeforeTheFirstTime) {
  const std::string log = log_file("command_ahead");
  found(answers({R"({"id": 0})", R"({"id": 1})", R"({"id": null})"}, log), 2);
  const auto lines = lines_of(log);
  ASSERT_GE(lines.size(), 3u);
  EXPECT_EQ(lines[1]["type"], "ask");
  EXPECT_EQ(lines[2]["type"], "ask");
}

/// The sentence of a program that proposes 0 and then misbehaves. What it had proposed is tried first.
std::string sentence_of(const std::string& run) {
  SearchOrder order(four().space, {.strategy = "command", .budget = parse_budget("4"), .run = run}, 2);
  EXPECT_EQ(order.next(), 0u) << run;
  order.propose();
  order.tell(0, 4.0);
  try {
    while (const auto more = order.next()) order.tell(*more, 1.0);
    ADD_FAILURE() << run;
    return {};
  } catch (const InputError& e) {
    return e.what();
  }
}

TEST(CommandStrategy, OneThatMisbehavesGetsASentence) {
  const std::string first = "read space; read ask; echo '{\"id\": 0}'; read ask; ";
  const auto expect = [&](const std::string& then, const std::string& part) {
    const std::string sentence = sentence_of(first + then);
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("the same command goes on"), std::string::npos) << sentence;
    EXPECT_EQ(sentence.find('\n'), std::string::npos) << sentence;
  };
  expect("echo oh no >&2; exit 3", "ended with exit code 3: oh no");
  expect("kill -9 $$", "died of signal 9");
  expect("echo hello", "answered 'hello'");
  expect("echo '[1]'", "answered '[1]'");
  expect("echo '{\"id\": 4}'", "proposed 4, which is not in the space of 4 configurations");
  expect("echo '{\"id\": -1}'", "proposed -1");
  expect("echo '{\"id\": 1.5}'", "proposed 1.5");
  expect("echo '{\"id\": {\"block\": 32}}'", "which is not in the space");
  expect("echo '{\"id\": 0}'", "proposed 0 twice");
}

TEST(CommandStrategy, AProgramThatDoesNotExistGetsASentence) {
  try {
    found("no_such_program_here");
    ADD_FAILURE();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("exit code 127"), std::string::npos) << e.what();
  }
}

/// The program proposes 1, then dies. The next one goes on, and 1 is not measured again.
TEST(CommandStrategy, ASweepKeepsItsRowsAndGoesOn) {
  const auto folder = testing::fresh_folder("command_sweep");
  const auto sweep = folder / "searched.yaml";
  const auto tune = [&](const std::string& script) {
    std::ofstream(folder / "search.sh") << "read space\n" << script;
    std::ofstream(sweep)
        << "sampling: {min_samples: 6, max_time: 0.01}\n"
        << "strategy: {name: command, budget: 2, run: \"sh " << (folder / "search.sh").string()
        << "\"}\nops:\n  - op: rms_norm\n    dtypes: fp32\n    problems: [{tokens: 2, hidden: 33}]\n"
           "    variants: [{host_threaded: {parameters: {threads: [1, 2]}}}]\n";
    return testing::run_shell("{} tune " + sweep.string() + " --device host --out " + folder.string());
  };
  const auto screened = [&] {
    std::vector<std::string> configs;
    for (const auto& row : read_csv(folder / "host" / "searched.csv"))
      if (row.at("sampling") != "finalist") configs.push_back(row.at("config"));
    return configs;
  };
  const testing::Ended dead = tune("read ask; echo '{\"id\": 1}'; read ask; echo no license >&2; exit 5\n");
  EXPECT_EQ(dead.code, 2) << dead.text;
  EXPECT_NE(dead.text.find("ended with exit code 5: no license"), std::string::npos) << dead.text;
  EXPECT_EQ(screened(), (std::vector<std::string>{"threads=2"}));

  const testing::Ended good =
      tune("n=1\nwhile read m; do case $m in *ask*) echo \"{\\\"id\\\": $n}\"; n=$((1 - n));; esac; done\n");
  EXPECT_EQ(good.code, 0) << good.text;
  EXPECT_EQ(screened(), (std::vector<std::string>{"threads=2", "threads=1"}));
}

TEST(CommandStrategy, NeedsAProgram) {
  const auto folder = testing::fresh_folder("command_settings");
  const auto code_of = [&](const std::string& strategy, const std::string& part) {
    std::ofstream(folder / "s.yaml") << "strategy: " << strategy
                                     << "\nops: [{op: rms_norm, problems: [{tokens: 1, hidden: 8}]}]\n";
    const testing::Ended ended =
        testing::run_shell("{} tune " + (folder / "s.yaml").string() + " --device host --dry-run");
    EXPECT_NE(ended.text.find(part), std::string::npos) << ended.text;
    return ended.code;
  };
  EXPECT_EQ(code_of("command", "s.yaml:1: strategy 'command' needs 'run'"), 2);
  EXPECT_EQ(code_of("{name: guided, run: x}", "'run' is for strategy 'command', not 'guided'"), 2);
  EXPECT_EQ(code_of("{name: command, run: x}", "1 problem"), 0);
}

}  // namespace
}  // namespace warptune
