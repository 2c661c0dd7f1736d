#include "harness/results/merge.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <mutex>

#include "harness/core/error.h"
#include "harness/results/journal.h"
#include "harness/results/source_hash.h"
#include "harness/results/sweep_file.h"
#include "tests/sweep_rows.h"
#include "variants/table.h"

namespace {

/// The targets of renames, and whether the journal next to them was locked at that time; rename below
/// replaces the C library's, also for tests with several threads.
std::map<std::filesystem::path, std::string> replaced;
std::mutex replaced_mutex;

}  // namespace

extern "C" int rename(const char* from, const char* to) noexcept {
  const int journal = ::open(std::filesystem::path(to).replace_extension(".journal").c_str(), O_RDONLY);
  {
    const std::scoped_lock lock(replaced_mutex);
    replaced[to] = journal < 0                                ? "no journal"
                   : ::flock(journal, LOCK_EX | LOCK_NB) != 0 ? "journal held"
                                                              : "journal free";
  }
  ::close(journal);
  return static_cast<int>(::syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
}

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::Fields;
using testing::sweep_fields;

/// A folder of results of the host with one winner, one row and its samples.
class Merge : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }

  fs::path results(const std::string& name, double us, const std::string& source_hash) const {
    const fs::path host = folder_ / name / "host";
    Wisdom wisdom(here_);
    Winner winner = winner_;
    winner.time_us = us;
    winner.source_hash = source_hash;
    winner.run_id = name;
    wisdom.put(winner);
    wisdom.save(host / "wisdom.json");
    write_csv(host / "sweep.csv", sweep_columns(), {sweep_fields({{"run_id", name}})});
    Fields samples;
    for (const std::string& column : samples_columns()) samples.emplace(column, "1");
    samples.insert_or_assign("run_id", name);
    write_csv(host / "sweep.samples.csv", samples_columns(), {samples});
    return folder_ / name;
  }
  std::string kept() const {
    return Wisdom::load(folder_ / "all" / "host" / "wisdom.json").winners().at(0).run_id;
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / "merge";
  const Provenance here_{"host", "x86_64", "", "", "abc"};
  const Winner winner_{.problem = {"rms_norm", {{"tokens", 1}, {"hidden", 8}}, DType::fp32},
                       .variant = "host_naive"};
  const std::string now_ = source_hash(Compiler(KernelSources(), {}), ops(), winner_);
};

TEST_F(Merge, CountsOnlyRowsOfSweeps) {
  const MergeCounts counts =
      merge_results(ops(), {results("a", 1, now_), results("b", 2, now_)}, folder_ / "all");
  EXPECT_EQ(counts.rows, 2u);
  EXPECT_EQ(counts.files, 1u);
  EXPECT_EQ(counts.winners, 1u);
  EXPECT_EQ(read_csv(folder_ / "all" / "host" / "sweep.samples.csv").size(), 2u);
}

TEST_F(Merge, KeepsTheFasterOfFreshWinners) {
  merge_results(ops(), {results("slow", 2, now_), results("fast", 1, now_)}, folder_ / "all");
  EXPECT_EQ(kept(), "fast");
}

TEST_F(Merge, KeepsAFreshWinnerBeforeAStaleOne) {
  const fs::path stale = results("stale", 1, "edited since"), fresh = results("fresh", 2, now_);
  merge_results(ops(), {stale, fresh}, folder_ / "all");
  EXPECT_EQ(kept(), "fresh");
  fs::remove_all(folder_ / "all");
  merge_results(ops(), {fresh, stale}, folder_ / "all");
  EXPECT_EQ(kept(), "fresh");
}

TEST_F(Merge, KeepsTheTimesOfBothWinners) {
  const auto with_times = [&](const std::string& name, double us, std::int64_t threads) {
    const fs::path folder = results(name, us, now_), file = folder / "host" / "wisdom.json";
    Wisdom wisdom(here_);
    Winner winner = Wisdom::load(file).winners().at(0);
    winner.times = {{"host_threaded", now_, {"threads"}, {{{threads}, us}, {{8}, us}}}};
    wisdom.put(winner);
    wisdom.save(file);
    return folder;
  };
  const fs::path fast = with_times("fast", 1, 2), slow = with_times("slow", 3, 4);
  for (const auto& order : {std::vector{fast, slow}, std::vector{slow, fast}}) {
    fs::remove_all(folder_ / "all");
    merge_results(ops(), order, folder_ / "all");
    EXPECT_EQ(kept(), "fast");
    const Winner winner = Wisdom::load(folder_ / "all" / "host" / "wisdom.json").winners().at(0);
    ASSERT_EQ(winner.times.size(), 1u);
    std::map<std::int64_t, double> times;
    for (const auto& row : winner.times[0].rows) times[row.values.at(0)] = row.time_us;
    EXPECT_EQ(times, (std::map<std::int64_t, double>{{2, 1}, {4, 3}, {8, 1}}));
  }
}

TEST_F(Merge, KeepsTheFasterOfFreshSteps) {
  const auto with_step = [&](const std::string& name, double us, const std::string& hash) {
    const fs::path folder = results(name, 1, now_), file = folder / "host" / "wisdom.json";
    Wisdom wisdom = Wisdom::load(file);
    StepWinner step{
        .step = {kStepOp, {{"batch", 1}}, DType::fp32}, .time_us = us, .alone_us = 9, .run_id = name};
    step.plans.plans = {{winner_.problem, winner_.variant, {}, hash}};
    wisdom.put(step);
    wisdom.save(file);
    return folder;
  };
  const fs::path slow = with_step("slow", 3, now_), fast = with_step("fast", 2, now_),
                 stale = with_step("stale", 1, "edited since");
  for (const auto& order : {std::vector{slow, stale, fast}, std::vector{fast, slow, stale}}) {
    fs::remove_all(folder_ / "all");
    merge_results(ops(), order, folder_ / "all");
    const auto steps = Wisdom::load(folder_ / "all" / "host" / "wisdom.json").steps();
    ASSERT_EQ(steps.size(), 1u);
    EXPECT_EQ(steps[0].run_id, "fast");
  }
}

TEST_F(Merge, RefusesAFileOfAnotherSchemaAndWritesNothing) {
  const fs::path good = results("good", 1, now_), bad = results("bad", 1, now_);
  write_csv(bad / "host" / "sweep.csv", sweep_columns(), {sweep_fields({{"schema", "2"}})});
  EXPECT_THROW(merge_results(ops(), {good, bad}, folder_ / "all"), InputError);
  EXPECT_FALSE(fs::exists(folder_ / "all"));
}

TEST_F(Merge, RefusesToReplaceTheFileOfARunningSweep) {
  const fs::path out = results("all", 1, now_), more = results("more", 2, now_);
  {
    const Journal held(out / "host" / "sweep.journal");
    EXPECT_THROW(merge_results(ops(), {more}, out), InputError);
  }
  EXPECT_EQ(read_csv(out / "host" / "sweep.csv").size(), 1u);
  EXPECT_EQ(merge_results(ops(), {more}, out).rows, 2u);
}

TEST_F(Merge, HoldsTheJournalUntilTheRowsAreReplaced) {
  const fs::path out = folder_ / "all", more = results("more", 2, now_);
  Journal(more / "host" / "sweep.journal").add("more", {});
  replaced.clear();
  merge_results(ops(), {more}, out);
  EXPECT_EQ(replaced[out / "host" / "sweep.csv"], "journal held");
}

TEST_F(Merge, DropsRowsThatItHas) {
  const fs::path a = folder_ / "a", b = folder_ / "b", out = folder_ / "all";
  const auto with_rows = [](const fs::path& folder, const std::string& run, const std::vector<Fields>& rows) {
    Journal(folder / "host" / "sweep.journal").add(run, {{stamp_name("p", "cold", "v"), "hash options"}});
    write_csv(folder / "host" / "sweep.csv", sweep_columns(), rows);
  };
  const auto row = [](const std::string& run, const std::string& time, const Fields& more = {}) {
    Fields fields = more;
    fields.insert({{"run_id", run}, {"problem", "p"}, {"variant", "v"}, {"time_us", time}});
    return sweep_fields(fields);
  };
  const Fields finalist = {{"sampling", "finalist"}}, failed = {{"status", "timeout"}};
  with_rows(a, "r1", {row("r1", "1"), row("r1", "2", finalist)});
  with_rows(b, "r2", {row("r2", "3"), row("r2", "", failed), row("r2", "2", finalist), row("none", "4")});
  MergeCounts counts = merge_results(ops(), {a, b}, out);
  EXPECT_EQ(counts.duplicates, 1u) << "the first row of a configuration stays";
  EXPECT_EQ(counts.rows, 5u) << "one failed, two finalists, one without a key";
  EXPECT_EQ(read_csv(out / "host" / "sweep.csv").at(0).at("time_us"), "1");
  EXPECT_EQ(Journal::read(out / "host" / "sweep.journal").runs().size(), 2u);
  counts = merge_results(ops(), {a, b, out}, out);
  EXPECT_EQ(counts.rows, 5u);
  EXPECT_EQ(counts.duplicates, 6u) << "`out` is read once";
}

TEST_F(Merge, TakesResultsOnly) {
  const fs::path a = results("a", 1, now_);
  std::ofstream(a / "notes.txt") << "x";
  std::ofstream(a / "host" / "notes.txt") << "x";
  std::ofstream(a / "host" / "device.json") << "{\"first\": 1}";
  write_csv(a / "host" / "other.csv", {"x"}, {{{"x", "1"}}});
  const fs::path b = results("b", 2, now_);
  std::ofstream(b / "host" / "device.json") << "{\"second\": 2}";
  const MergeCounts counts = merge_results(ops(), {a, b}, folder_ / "all");
  EXPECT_EQ(counts.files, 1u);
  EXPECT_FALSE(fs::exists(folder_ / "all" / "host" / "other.csv"));
  EXPECT_FALSE(fs::exists(folder_ / "all" / "host" / "notes.txt"));
  EXPECT_EQ(fs::file_size(folder_ / "all" / "host" / "device.json"), 12u);
  merge_results(ops(), {b}, folder_ / "all");
  EXPECT_EQ(fs::file_size(folder_ / "all" / "host" / "device.json"), 12u) << "it keeps its own";
  EXPECT_FALSE(fs::exists(folder_ / "all" / "host" / "sweep.journal")) << "no run has a stamp";
}

TEST_F(Merge, ErrorsNameTheFolderOrFile) {
  const auto error = [&](const std::vector<fs::path>& inputs) {
    try {
      merge_results(ops(), inputs, folder_ / "all");
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  const fs::path a = results("a", 1, now_), empty = folder_ / "empty";
  fs::create_directories(empty / "host");
  EXPECT_EQ(error({a, folder_ / "none"}), "'" + (folder_ / "none").string() + "' is not a folder");
  EXPECT_EQ(error({empty}), "the folders hold no results: a folder of results is what 'tune --out' wrote");
  const fs::path other = results("other", 1, now_);
  write_csv(other / "host" / "sweep.samples.csv", {"run_id", "x"}, {{{"run_id", "r"}, {"x", "1"}}});
  EXPECT_EQ(error({a, other}), (other / "host" / "sweep.samples.csv").string() +
                                   ":1: other columns than the same file of another folder");
  const fs::path newer = results("newer", 1, now_);
  for (const Provenance& there : {Provenance{"other", "x86_64", "", "", "abc"},
                                  {"host", "arm", "", "", "abc"},
                                  {"host", "x86_64", "2", "", "abc"},
                                  {"host", "x86_64", "", "3", "abc"}}) {
    Wisdom(there).save(newer / "host" / "wisdom.json");
    const std::string sentence = error({a, newer});
    EXPECT_TRUE(sentence.starts_with("the winners in '" + (newer / "host" / "wisdom.json").string() +
                                     "' are of " + there.device + " with driver '" + there.driver +
                                     "' and toolkit '" + there.toolkit + "', others of host with '' and ''"))
        << sentence;
    const std::string reversed = error({newer, a}), others = "others of " + there.device + " with '" +
                                                             there.driver + "' and '" + there.toolkit + "';";
    EXPECT_NE(reversed.find(others), std::string::npos) << reversed;
  }
  EXPECT_FALSE(fs::exists(folder_ / "all"));
}

}  // namespace
}  // namespace warptune
