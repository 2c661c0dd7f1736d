#include "results/merge.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "results/samples_file.h"
#include "results/source_hash.h"
#include "sweep_rows.h"

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
  const std::string now_ = source_hash(Compiler(KernelSources(), {}), winner_);
};

TEST_F(Merge, CountsRowsOfSweepsAlone) {
  const MergeCounts counts = merge_results({results("a", 1, now_), results("b", 2, now_)}, folder_ / "all");
  EXPECT_EQ(counts.rows, 2u);
  EXPECT_EQ(counts.files, 1u);
  EXPECT_EQ(counts.winners, 1u);
  EXPECT_EQ(read_csv(folder_ / "all" / "host" / "sweep.samples.csv").size(), 2u);
}

TEST_F(Merge, KeepsTheFasterOfFreshWinners) {
  merge_results({results("slow", 2, now_), results("fast", 1, now_)}, folder_ / "all");
  EXPECT_EQ(kept(), "fast");
}

TEST_F(Merge, KeepsAFreshWinnerBeforeAStaleOne) {
  const fs::path stale = results("stale", 1, "edited since"), fresh = results("fresh", 2, now_);
  merge_results({stale, fresh}, folder_ / "all");
  EXPECT_EQ(kept(), "fresh");
  fs::remove_all(folder_ / "all");
  merge_results({fresh, stale}, folder_ / "all");
  EXPECT_EQ(kept(), "fresh");
}

TEST_F(Merge, RefusesAFileOfAnotherSchemaAndWritesNothing) {
  const fs::path good = results("good", 1, now_), bad = results("bad", 1, now_);
  write_csv(bad / "host" / "sweep.csv", sweep_columns(), {sweep_fields({{"schema", "2"}})});
  EXPECT_THROW(merge_results({good, bad}, folder_ / "all"), InputError);
  EXPECT_FALSE(fs::exists(folder_ / "all"));
}

}  // namespace
}  // namespace warptune
