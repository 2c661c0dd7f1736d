// warptune bisect on a git repository that the test makes: its program is a script whose kernel sleeps.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "harness/results/history.h"
#include "tests/files.h"
#include "tests/program.h"
#include "tests/sweep_rows.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::Ended;
using testing::run_shell;
using testing::text_of;

constexpr const char* kRow = "rms_norm[tokens=1,hidden=64,dtype=bf16]";

class Bisect : public ::testing::Test {
 protected:
  void SetUp() override {
    if (run_shell("git --version").code != 0) GTEST_SKIP() << "git is not here";
    fs::create_directories(repo_);
    std::ofstream(folder_ / "wisdom.json") << "{}";
    std::string columns;
    for (const std::string& column : sweep_columns()) columns += (columns.empty() ? "" : ",") + column;
    // `rerun` of the program: sleeps as the kernel says, and appends the row that this took.
    std::ofstream(folder_ / "program.py")
        << "import csv, os, sys, time\n"
           "given = dict(zip(sys.argv[3::2], sys.argv[4::2]))\n"
           "columns = '"
        << columns
        << "'.split(',')\n"
           "path = os.path.join(given['--out'], 'gpu', 'bisect.csv')\n"
           "begin = time.perf_counter()\n"
           "time.sleep(KERNEL)\n"
           "us = 1e6 * (time.perf_counter() - begin)\n"
           "os.makedirs(os.path.dirname(path), exist_ok=True)\n"
           "new = not os.path.exists(path)\n"
           "with open(path, 'a', newline='') as file:\n"
           "    rows = csv.DictWriter(file, columns, restval='')\n"
           "    if new: rows.writeheader()\n"
           "    rows.writerow(dict(schema=1, run_id='r' + given['--runs'],\n"
           "        device='NVIDIA H200', driver='580', op='rms_norm', problem='"
        << kRow << "', variant='sleeps', status='ok', cache='cold', sampling='rerun', time_us=us))\n";
    git("init -q -b main");
  }

  Ended git(const std::string& arguments) const {
    return run_shell("git -C " + repo_.string() +
                     " -c user.name=t -c user.email=t@t -c commit.gpgsign=false " + arguments);
  }
  /// A commit whose kernel sleeps so long; one that does not build has no kernel.
  void commit(const std::string& subject, const std::string& kernel) const {
    std::ofstream(repo_ / "kernel.txt") << kernel << "\n";
    std::ofstream(repo_ / "notes.txt") << subject << "\n";
    ASSERT_EQ(git("add -A").code, 0);
    const Ended made = git("commit -qm '" + subject + "'");
    ASSERT_EQ(made.code, 0) << made.text;
  }
  Ended bisect(const std::string& more = "", const std::string& commits = "--good HEAD~7 --bad main") const {
    const std::string build = "test -s kernel.txt && grep -q . kernel.txt && echo $COMMIT >> " +
                              (folder_ / "builds.txt").string() +
                              " && { echo \"#!/usr/bin/env python3\"; sed \"s/KERNEL/$(cat kernel.txt)/\" " +
                              (folder_ / "program.py").string() + "; } > $PROGRAM && chmod +x $PROGRAM";
    return run_shell("{} bisect " + commits + " --row '" + std::string(kRow) + "' --wisdom " +
                     (folder_ / "wisdom.json").string() + " --repo " + repo_.string() + " --work " +
                     (folder_ / "work").string() + " --runs 3 --min-effect 50% --build '" + build + "' " +
                     more);
  }
  long builds() const {
    const std::string text = text_of(folder_ / "builds.txt");
    return std::ranges::count(text, '\n');
  }
  const fs::path folder_ = testing::fresh_folder("bisect"), repo_ = folder_ / "repo";
};

constexpr const char *kFast = "0.01", *kSlow = "0.2", *kBroken = "";

TEST_F(Bisect, SkipsACommitThatDoesNotBuild) {
  for (const char* subject : {"one", "two", "three"}) commit(subject, kFast);
  commit("broken", kBroken);  // the first that is tried
  commit("five", kFast);
  for (const char* subject : {"slower", "after", "last"}) commit(subject, kSlow);
  const Ended found = bisect();
  ASSERT_EQ(found.code, 0) << found.text;
  EXPECT_NE(found.text.find("does not build"), std::string::npos) << found.text;
  EXPECT_TRUE(found.text.ends_with(" slower\n")) << found.text;
}

TEST_F(Bisect, ReusesBuildsAndTimes) {
  for (const char* subject : {"one", "two", "three"}) commit(subject, kFast);
  commit("slower", kSlow);
  for (const char* subject : {"five", "six", "seven", "last"}) commit(subject, kSlow);
  const std::string status = git("status --porcelain").text;
  const Ended found = bisect();
  ASSERT_EQ(found.code, 0) << found.text;
  EXPECT_TRUE(found.text.ends_with(" slower\n")) << found.text;
  EXPECT_LE(builds(), 5) << "the ends, and three of the six commits between";
  EXPECT_EQ(git("status --porcelain").text, status);
  EXPECT_EQ(git("worktree list").text.find("work/tree"), std::string::npos) << "it is removed";
  const long before = builds();
  const Ended again = bisect();
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_TRUE(again.text.ends_with(" slower\n")) << again.text;
  EXPECT_EQ(builds(), before) << "everything is known";
  // What a kill leaves: the state without the last answers, and the worktree.
  std::string state = text_of(folder_ / "work" / "state.json");
  const auto effects = state.find("\"effects\": {");
  state.replace(effects, std::string::npos, "\"effects\": {}}");
  std::ofstream(folder_ / "work" / "state.json") << state;
  EXPECT_EQ(bisect().code, 0);
  EXPECT_EQ(builds(), before) << "programs are kept";
  const Ended other = bisect("", "--good HEAD~6 --bad main");
  EXPECT_EQ(other.code, 2) << "another search needs another folder: " << other.text;
}

TEST_F(Bisect, SaysThatTheRowDidNotChangeAndWhatElseDiffers) {
  for (const char* subject : {"1", "2", "3", "4", "5", "6", "7", "8"}) commit(subject, kFast);
  const auto row = [&](const char* commit, const char* id, const char* driver) {
    return testing::sweep_fields(
        {{"run_id", id},
         {"git_commit", git(std::string("rev-parse --short=12 ") + commit).text.substr(0, 12)},
         {"device", "NVIDIA H200"},
         {"driver", driver},
         {"toolkit", "13.0"},
         {"problem", kRow},
         {"sampling", "rerun"}});
  };
  add_to_history(folder_ / "history",
                 {row("HEAD~7", "20260101T000000Z-1", "580"), row("HEAD", "20260102T000000Z-1", "590")});
  const Ended same = bisect("--history " + (folder_ / "history").string());
  EXPECT_EQ(same.code, 1) << same.text;
  EXPECT_NE(same.text.find("did not change"), std::string::npos) << same.text;
  EXPECT_TRUE(same.text.ends_with("what differs in the history: driver: 580 -> 590\n")) << same.text;
}

TEST_F(Bisect, CommitsThatDoNotBuildLeaveARange) {
  for (const char* subject : {"1", "2", "3"}) commit(subject, kFast);
  for (const char* subject : {"a", "b"}) commit(subject, kBroken);
  for (const char* subject : {"slow", "7", "8"}) commit(subject, kSlow);
  const Ended range = bisect();
  EXPECT_EQ(range.code, 3) << range.text;
  for (const char* subject : {" a\n", " b\n", " slow\n"})
    EXPECT_NE(range.text.find(subject, range.text.find("is one of these")), std::string::npos) << range.text;
}

TEST_F(Bisect, WrongInputIsOneSentence) {
  for (const char* subject : {"1", "2", "3", "4", "5", "6", "7", "8"}) commit(subject, kFast);
  for (const char* commits : {"--good none --bad main", "--good main --bad HEAD~3", "--good main --bad main",
                              "--good=--all --bad main"}) {
    const Ended wrong = bisect("", commits);
    EXPECT_EQ(wrong.code, 2) << commits;
    EXPECT_EQ(std::ranges::count(wrong.text, '\n'), 1) << wrong.text;
    EXPECT_EQ(builds(), 0);
  }
}

}  // namespace
}  // namespace warptune
