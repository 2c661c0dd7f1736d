// A stopped sweep resumes where it was.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <random>
#include <thread>

#include "harness/measure/sampler.h"
#include "harness/results/journal.h"
#include "harness/results/row_store.h"
#include "harness/results/sweep_row.h"
#include "harness/results/wisdom.h"
#include "tests/program.h"
#include "tests/tune/processes.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::children_of;
using testing::first_rows;
using testing::fresh_folder;
using testing::host_sweep;
using testing::run_shell;
using testing::start_tune;
using testing::statuses;

/// Waits until the program has written `rows` more rows; false if it ends before.
bool writes_rows(pid_t pid, int& status, const fs::path& csv, std::ptrdiff_t rows) {
  const auto lines = [&] {
    std::ifstream in(csv);
    return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
  };
  for (const auto before = lines(); lines() < before + rows; std::this_thread::sleep_for(1ms))
    if (::waitpid(pid, &status, WNOHANG) != 0) return false;
  return ::waitpid(pid, &status, WNOHANG) == 0;
}

TEST(Resume, TwentyKillsChangeNothing) {
  const fs::path folder = fresh_folder("resume_kills");
  const std::string sweep = host_sweep(folder, "{from: 8, to: 160, step: 8}", "[1, 2]"),
                    out = (folder / "out").string();
  // A real crash, to distinguish from the kills.
  ::setenv("WARPTUNE_WORKER_FAULT", "abort:threads=2", 1);
  ASSERT_EQ(run_shell("{} tune " + sweep + " --out " + (folder / "complete").string()).code, 0);
  const auto complete = statuses(read_csv(folder / "complete" / "host" / "sweep.csv"));
  ASSERT_EQ(complete.size(), 60u);

  std::mt19937 random(7);
  int kills = 0, code = -1;
  for (int starts = 0; starts < 400 && (kills < 20 || code != 0); ++starts) {
    const pid_t pid = start_tune(sweep, out);
    int status = 0;
    if (kills >= 20) {
      ::waitpid(pid, &status, 0);
    } else if (writes_rows(pid, status, fs::path(out) / "host" / "sweep.csv", random() % 3)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));  // in the middle of something
      const bool worker = random() % 2 == 0;
      const auto targets = worker ? children_of(pid) : std::vector<pid_t>{pid};
      for (const pid_t target : targets) ::kill(target, SIGKILL);
      kills += !targets.empty();
      if (worker && random() % 2 == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(random() % 100));
        ::kill(pid, SIGKILL);
      }
      ::waitpid(pid, &status, 0);
    }
    code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  ::unsetenv("WARPTUNE_WORKER_FAULT");
  EXPECT_EQ(kills, 20);
  EXPECT_EQ(code, 0);
  EXPECT_EQ(statuses(read_csv(fs::path(out) / "host" / "sweep.csv")), complete);
  EXPECT_EQ(Wisdom::load(fs::path(out) / "host" / "wisdom.json").winners().size(), 20u);
}

TEST(Resume, ANewValueMeasuresOnlyNewConfigurations) {
  const fs::path folder = fresh_folder("resume_value");
  const std::string out = " --out " + folder.string();
  ASSERT_EQ(run_shell("{} tune " + host_sweep(folder, "[16, 32]", "[1]") + out).code, 0);
  const auto before = first_rows(read_csv(folder / "host" / "sweep.csv"));
  ASSERT_EQ(before.size(), 4u);
  const auto ended = run_shell("{} tune " + host_sweep(folder, "[16, 32]", "[1, 2]") + out);
  EXPECT_EQ(ended.code, 0);
  EXPECT_NE(ended.text.find("4 of them are from an earlier run"), std::string::npos) << ended.text;
  const auto all = read_csv(folder / "host" / "sweep.csv"), rows = first_rows(all);
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), rows.begin()));
  EXPECT_EQ(rows[4].at("config"), "threads=2");
  EXPECT_EQ(rows[5].at("config"), "threads=2");
  // Known rows take part in the choice. A winner names the run that holds its row.
  const Wisdom wisdom = Wisdom::load(folder / "host" / "wisdom.json");
  for (const Winner& w : wisdom.winners()) {
    EXPECT_TRUE(std::ranges::any_of(all, [&](const auto& r) {
      return r.at("problem") == w.problem.key() && r.at("variant") == w.variant &&
             r.at("config") == w.config.str() && r.at("run_id") == w.run_id;
    }));
  }
  // Other sampling options need new rows.
  std::ofstream(folder / "sweep.yaml", std::ios::app) << "seed: 2\n";
  ASSERT_EQ(run_shell("{} tune " + (folder / "sweep.yaml").string() + out).code, 0);
  EXPECT_EQ(first_rows(read_csv(folder / "host" / "sweep.csv")).size(), 12u);
}

TEST(Resume, FreshBeginsANewFile) {
  const fs::path folder = fresh_folder("resume_fresh");
  const std::string tune = "{} tune " + host_sweep(folder, "[16]") + " --out " + folder.string();
  ASSERT_EQ(run_shell(tune).code, 0);
  ASSERT_EQ(run_shell(tune + " --fresh").code, 0);
  EXPECT_EQ(first_rows(read_csv(folder / "host" / "sweep.csv")).size(), 3u);
  EXPECT_EQ(first_rows(read_csv(folder / "host" / "sweep.2.csv")).size(), 3u);
  EXPECT_NE(run_shell(tune).text.find("sweep.2.csv"), std::string::npos);  // continues the newest
  EXPECT_EQ(first_rows(read_csv(folder / "host" / "sweep.2.csv")).size(), 3u);
}

TEST(Resume, AnIncompleteLineIsMovedWithANote) {
  const fs::path folder = fresh_folder("resume_torn");
  const std::string tune = "{} tune " + host_sweep(folder, "[16]") + " --out " + folder.string();
  ASSERT_EQ(run_shell(tune).code, 0);
  const fs::path csv = folder / "host" / "sweep.csv", journal = folder / "host" / "sweep.journal";
  fs::resize_file(csv, fs::file_size(csv) - 5);
  std::ofstream(journal, std::ios::app) << "{\"run_id\": \"half";
  const auto ended = run_shell(tune);
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_NE(ended.text.find("ended in an incomplete line"), std::string::npos) << ended.text;
  EXPECT_EQ(statuses(read_csv(csv)).size(), 3u);
  EXPECT_EQ(Journal::read(journal).runs().size(), 2u);
  EXPECT_TRUE(fs::exists(csv.string() + ".cut"));
  EXPECT_TRUE(fs::exists(journal.string() + ".cut"));
}

TEST(Resume, ASecondProgramIsRefused) {
  const fs::path folder = fresh_folder("resume_second");
  fs::create_directories(folder / "host");
  const std::string tune = "{} tune " + host_sweep(folder, "[16]") + " --out " + folder.string();
  {
    const Journal held(folder / "host" / "sweep.journal");
    const auto ended = run_shell(tune);
    EXPECT_EQ(ended.code, 2);
    EXPECT_NE(ended.text.find("another program is writing"), std::string::npos) << ended.text;
  }
  EXPECT_EQ(run_shell(tune).code, 0);
}

TEST(Resume, FinalistsAreReusedOrTimed) {
  const fs::path folder = fresh_folder("resume_finalists"), csv = folder / "host" / "sweep.csv";
  const std::string tune = "{} tune " + host_sweep(folder, "[16]") + " --out " + folder.string();
  const auto winner = [&] { return Wisdom::load(folder / "host" / "wisdom.json").winners().at(0); };
  ASSERT_EQ(run_shell(tune).code, 0);
  const auto rows = read_csv(csv);
  const auto may_win = std::ranges::count_if(first_rows(rows), [](const auto& row) {
    return row.at("detail").find(kAbandoned) == std::string::npos;  // on a busy machine some are
  });
  const auto finalists =
      std::ranges::count_if(rows, [](const auto& row) { return row.at("sampling") == "finalist"; });
  EXPECT_GE(finalists, 1);
  EXPECT_LE(finalists, may_win) << "some may be surely slower";
  EXPECT_EQ(static_cast<long>(rows.size()), 3 + finalists) << "one cache state each";
  const Winner before = winner();
  for (const VariantTimes& times : before.times)  // times of the screening, taken at the same temperature
    for (const VariantTimes::Row& kept : times.rows)
      EXPECT_TRUE(std::ranges::any_of(first_rows(rows), [&](const auto& row) {
        return std::abs(std::stod(row.at("time_us")) / kept.time_us - 1) < 1e-4;
      })) << times.variant;
  ASSERT_EQ(run_shell(tune).code, 0);
  EXPECT_EQ(read_csv(csv), rows);
  EXPECT_EQ(winner().run_id, before.run_id);
  EXPECT_EQ(winner().config, before.config);
  EXPECT_NEAR(winner().time_us, before.time_us, 1e-5 * before.time_us);
  write_csv(csv, sweep_columns(), first_rows(rows));  // as if killed before the finalists
  ASSERT_EQ(run_shell(tune).code, 0);
  EXPECT_EQ(read_csv(csv).size(), rows.size());
  EXPECT_NE(winner().run_id, before.run_id);
}

TEST(Resume, ASustainedTimeIsMeasuredOnce) {
  const fs::path folder = fresh_folder("resume_sustained"), csv = folder / "host" / "sweep.csv";
  const std::string sweep = host_sweep(folder, "[16]");
  const std::string tune = "{} tune " + sweep + " --out " + folder.string();
  std::ofstream(sweep, std::ios::app) << "finalists: 1\n";
  ASSERT_EQ(run_shell(tune).code, 0);
  const auto finalist = [&] {
    auto rows = read_csv(csv);
    std::erase_if(rows, [](const auto& row) { return row.at("sampling") != "finalist"; });
    return rows;
  };
  ASSERT_EQ(finalist().size(), 1u);
  EXPECT_EQ(finalist().front().at("sustained_us"), "");
  std::ofstream(sweep, std::ios::app) << "sustained: true\n";
  const auto second = run_shell(tune);
  ASSERT_EQ(second.code, 0) << second.text;
  EXPECT_NE(second.text.find(", sustained "), std::string::npos) << second.text;
  ASSERT_EQ(finalist().size(), 2u);
  EXPECT_GT(std::stod(finalist().back().at("sustained_us")), 0);
  EXPECT_EQ(finalist().back().at("sustained_power_w"), "") << "the host has no counter";
  ASSERT_EQ(run_shell(tune).code, 0);
  EXPECT_EQ(finalist().size(), 2u);
}

TEST(Resume, WinnersAreTimedOnceInAFreshProcess) {
  const fs::path folder = fresh_folder("resume_fresh"), csv = folder / "host" / "sweep.csv";
  const std::string sweep = host_sweep(folder, "[16, 32]");
  std::ofstream(sweep, std::ios::app) << "fresh_process: true\nobjective: energy\n";
  const std::string tune = "{} tune " + sweep + " --out " + folder.string();
  const auto fresh_rows = [&] {
    std::map<std::string, int> rows;  // by problem
    for (const auto& row : read_csv(csv)) rows[row.at("problem")] += row.at("sampling") == "fresh_process";
    return rows;
  };
  const auto first = run_shell(tune);
  ASSERT_EQ(first.code, 0) << first.text;
  EXPECT_NE(first.text.find("note: no energy was measured; the time decides\n"), std::string::npos)
      << first.text;
  const auto rows = read_csv(csv);
  const auto fresh = fresh_rows();
  ASSERT_EQ(fresh.size(), 2u);
  for (const auto& [problem, count] : fresh) {
    EXPECT_GE(count, 1) << problem;
    EXPECT_LE(count, 3) << problem;
  }
  EXPECT_EQ(rows.back().at("sampling"), "fresh_process") << "after all problems";
  for (const Winner& winner : Wisdom::load(folder / "host" / "wisdom.json").winners())
    EXPECT_TRUE(std::ranges::any_of(rows, [&](const auto& row) {
      return row.at("sampling") == "fresh_process" && row.at("problem") == winner.problem.key() &&
             row.at("variant") == winner.variant && row.at("config") == winner.config.str();
    })) << winner.problem.key();
  ASSERT_EQ(run_shell(tune).code, 0);
  EXPECT_EQ(read_csv(csv), rows) << "nothing is left to time";
  auto killed = rows;  // before the fresh process
  std::erase_if(killed, [](const auto& row) { return row.at("sampling") == "fresh_process"; });
  write_csv(csv, sweep_columns(), killed);
  ASSERT_EQ(run_shell(tune).code, 0);
  EXPECT_EQ(fresh_rows().size(), 2u);
  EXPECT_GT(read_csv(csv).size(), killed.size());
  for (const auto& [problem, count] : fresh_rows()) EXPECT_GE(count, 1) << problem;
}

TEST(Resume, SecondsOfASearchAreSpentOnce) {
  const fs::path folder = fresh_folder("resume_seconds"), csv = folder / "host" / "sweep.csv";
  const auto tune = [&](const std::string& budget) {
    const std::string sweep = host_sweep(folder, "[16]", "[1, 2]");
    std::ofstream(sweep, std::ios::app) << "strategy: {name: exhaustive, budget: " << budget << "}\n";
    return run_shell("{} tune " + sweep + " --out " + folder.string());
  };
  ASSERT_EQ(tune("1").code, 0);
  ASSERT_EQ(tune("600s").code, 0);
  EXPECT_EQ(first_rows(read_csv(csv)).size(), 3u) << "host_threaded has no row yet";
  fs::remove_all(folder / "host");
  ASSERT_EQ(tune("2").code, 0);
  const auto rows = read_csv(csv);
  ASSERT_EQ(first_rows(rows).size(), 2u);
  const auto again = tune("600s");
  EXPECT_EQ(again.code, 0);
  EXPECT_NE(again.text.find("1 problem was searched by an earlier run; --fresh searches again"),
            std::string::npos)
      << again.text;
  EXPECT_EQ(read_csv(csv), rows);
  write_csv(csv, sweep_columns(), first_rows(rows));  // as if killed during the search
  ASSERT_EQ(tune("600s").code, 0);
  EXPECT_EQ(first_rows(read_csv(csv)).size(), 3u) << "the search goes on";
}

TEST(Resume, ASearchThatHasEndedKeepsItsRowsWhenTheSweepChanges) {
  const fs::path folder = fresh_folder("resume_changed");
  const auto tune = [&](const std::string& threads, const std::string& budget) {
    const std::string sweep = host_sweep(folder, "[16]", threads);
    std::ofstream(sweep, std::ios::app) << "strategy: {name: exhaustive, budget: " << budget << "}\n";
    return run_shell("{} tune " + sweep + " --out " + folder.string());
  };
  ASSERT_EQ(tune("[2]", "2").code, 0);
  const auto again = tune("[1, 2]", "600s");  // the first proposal of the second variant is new
  EXPECT_EQ(again.code, 0);
  EXPECT_NE(again.text.find("2 configurations, 2 ok"), std::string::npos) << again.text;
  EXPECT_NE(again.text.find("2 of them are from an earlier run"), std::string::npos) << again.text;
}

TEST(Resume, ExcludedRowsAreWrittenOnceAndReplaced) {
  const fs::path folder = fresh_folder("resume_excluded"), sweep = folder / "sweep.yaml";
  const auto write = [&](const std::string& constraints) {
    std::ofstream(sweep)
        << "device: host\nconstraint_rows: true\nsampling: {min_samples: 6, max_time: 0.002}\n"
           "ops:\n  - op: rms_norm\n    dtypes: fp32\n    problems: [{tokens: 8, hidden: 16}]\n"
           "    variants: [host_threaded: {parameters: {threads: [1, 2]}"
        << constraints << "}]\n";
    const auto ended = run_shell("{} tune " + sweep.string() + " --out " + folder.string());
    EXPECT_EQ(ended.code, 0) << ended.text;
    std::map<std::string, int> counts;
    for (const auto& row : first_rows(read_csv(folder / "host" / "sweep.csv"))) ++counts[row.at("status")];
    return counts;
  };
  using Counts = std::map<std::string, int>;
  EXPECT_EQ(write(", constraints: [threads < 2]"), (Counts{{"constraint", 1}, {"ok", 1}}));
  EXPECT_EQ(write(", constraints: [threads < 2]"), (Counts{{"constraint", 1}, {"ok", 1}}));
  EXPECT_EQ(write(""), (Counts{{"constraint", 1}, {"ok", 2}}));
  EXPECT_EQ(write(""), (Counts{{"constraint", 1}, {"ok", 2}}));
}

TEST(Resume, TemporaryFailuresAreRetriedOnDemand) {
  const fs::path folder = fresh_folder("resume_retry"), csv = folder / "host" / "sweep.csv";
  const std::string tune = "{} tune " + host_sweep(folder, "[16]") + " --out " + folder.string();
  ::setenv("WARPTUNE_WORKER_FAULT", "abort:threads=2", 1);
  run_shell(tune);
  ::unsetenv("WARPTUNE_WORKER_FAULT");
  const auto found = [&] {
    std::vector<std::string> list;
    for (const auto& row : first_rows(read_csv(csv)))
      if (row.at("config") == "threads=2") list.push_back(row.at("status"));
    return list;
  };
  using Statuses = std::vector<std::string>;
  EXPECT_EQ(found(), Statuses{"crash"});
  EXPECT_EQ(run_shell(tune + " --retry timeout,resource").code, 0);
  EXPECT_EQ(found(), Statuses{"crash"}) << "remembered";
  const auto retried = run_shell(tune + " --retry timeout,crash");
  EXPECT_EQ(retried.code, 0) << retried.text;
  EXPECT_NE(retried.text.find("2 of them are from an earlier run"), std::string::npos) << retried.text;
  EXPECT_EQ(found(), (Statuses{"crash", "ok"}));
  EXPECT_NE(run_shell(tune + " --retry crash").text.find("3 of them are from an earlier run"),
            std::string::npos)
      << "the row that is ok counts now";
  const auto merged = run_shell("{} merge " + folder.string() + " -o " + (folder / "all").string());
  EXPECT_EQ(merged.code, 0) << merged.text;
  EXPECT_EQ(read_csv(folder / "all" / "host" / "sweep.csv"), read_csv(csv)) << "both rows are kept";
  for (const char* wrong : {"timeouts", "ok", "constraint", "timeout,slow", "Crash"}) {
    const auto refused = run_shell(tune + " --retry " + wrong);
    EXPECT_EQ(refused.code, 2) << wrong << refused.text;
  }
}

/// The wisdom of a file without the times of tried configurations.
std::string choices_in(const fs::path& path) {
  const Wisdom wisdom = Wisdom::load(path);
  Wisdom rest(wisdom.provenance());
  for (Winner winner : wisdom.winners()) {
    winner.times.clear();
    rest.put(std::move(winner));
  }
  return rest.to_json();
}

TEST(Resume, APartialSweepDoesNotMakeTheWisdomWorse) {
  const fs::path folder = fresh_folder("resume_part"), wisdom = folder / "host" / "wisdom.json";
  const std::string tune = "{} tune " + host_sweep(folder, "[16]") + " --out " + folder.string();
  ASSERT_EQ(run_shell(tune).code, 0);
  const Wisdom before = Wisdom::load(wisdom);
  Winner fast = before.winners().at(0);
  fast.variant = "host_threaded";
  fast.config = {{"threads", 1}};
  fast.time_us = 1e-3;
  fast.tied = {{"host_threaded", {{"threads", 2}}, 1e-3}};
  const auto source = [&](const Wisdom& of) { return of.winners().at(0).source_hash; };
  Wisdom better(before.provenance());
  better.put(fast);
  better.save(wisdom);
  const std::string kept = choices_in(wisdom);
  const auto part = run_shell(tune + " --filter host_naive");
  EXPECT_EQ(part.code, 0) << part.text;
  EXPECT_NE(part.text.find("the wisdom keeps host_threaded threads=1"), std::string::npos) << part.text;
  EXPECT_EQ(choices_in(wisdom), kept);
  EXPECT_EQ(source(Wisdom::load(wisdom)), source(before));
  const auto again = run_shell("{} rerun " + wisdom.string() + " --device host --out " + folder.string());
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_EQ(choices_in(wisdom), kept);
  ASSERT_EQ(run_shell(tune).code, 0);  // it takes part in the choice
  EXPECT_GT(Wisdom::load(wisdom).winners().at(0).time_us, 1e-3);
}

TEST(Resume, AFileOfAnotherSchemaIsRefused) {
  const fs::path folder = fresh_folder("resume_schema"), csv = folder / "host" / "sweep.csv";
  const std::string tune = "{} tune " + host_sweep(folder, "[16]") + " --out " + folder.string();
  ASSERT_EQ(run_shell(tune).code, 0);
  auto rows = read_csv(csv);
  rows[1]["schema"] = "2";
  write_csv(csv, sweep_columns(), rows);
  const auto refused = run_shell(tune);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.text.find("sweep.csv:3: schema '2'; this program reads schema 1"), std::string::npos)
      << refused.text;
}

TEST(Resume, FinalistsAreNotFirstRows) {
  EXPECT_TRUE(is_first_row({{"cache", "cold"}, {"detail", ""}}));
  EXPECT_TRUE(is_first_row({{"cache", "hot"}, {"detail", "no result within 5 seconds"}}));
  EXPECT_FALSE(is_first_row({{"cache", "isolated"}, {"detail", ""}}));
  EXPECT_FALSE(is_first_row({{"cache", "cold"}, {"detail", "finalist 2 of 8"}}));
}

TEST(Resume, AKeyCoversAllInputs) {
  const CsvRow row = {{"device", "d"},  {"arch", "a"},    {"driver", "1"}, {"toolkit", "13"},
                      {"problem", "p"}, {"variant", "v"}, {"config", "c"}, {"cache", "cold"}};
  const std::string stamp = stamp_of("source", {}), key = key_of(row, stamp);
  EXPECT_EQ(key, key_of(row, stamp_of("source", {})));
  for (const auto& [column, value] : row) {
    CsvRow other = row;
    other[column] = value + "x";
    EXPECT_NE(key_of(other, stamp), key) << column;
  }
  EXPECT_NE(stamp_of("other", {}), stamp);
  EXPECT_NE(stamp_of("source", {.max_rel_ci = 0.01}), stamp);
  EXPECT_NE(stamp_of("source", {.min_samples = 5}), stamp);
  EXPECT_NE(stamp_of("source", {.max_time = 1}), stamp);
  EXPECT_NE(stamp_of("source", {.duty_cycle = 0.5}), stamp);
  EXPECT_NE(stamp_of("source", {.seed = 2}), stamp);
}

}  // namespace
}  // namespace warptune
