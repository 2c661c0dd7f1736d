#include "harness/results/wisdom_path.h"

#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/results/sha256.h"
#include "harness/results/source_hash.h"
#include "tests/files.h"
#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

/// Wisdom files of a user and of a team.
class SearchPath : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }

  Winner winner(std::int64_t hidden, double us, const std::string& run) const {
    Winner w{.problem = {"rms_norm", {{"tokens", 1}, {"hidden", hidden}}, DType::fp32},
             .variant = "host_naive",
             .time_us = us,
             .run_id = run};
    w.source_hash = source_hash(Compiler(KernelSources(), {}), ops(), w);
    return w;
  }
  fs::path file(const std::string& name, const std::vector<Winner>& winners) const {
    Wisdom wisdom(here_);
    for (const Winner& w : winners) wisdom.put(w);
    wisdom.save(folder_ / name);
    return folder_ / name;
  }
  WisdomInUse read(const std::vector<fs::path>& files) const { return read_wisdom(ops(), files, here_); }
  std::string run_of(const WisdomInUse& in_use, std::int64_t hidden) const {
    const Winner* found = in_use.wisdom.winner_on(winner(hidden, 1, "").problem, here_.device);
    return found ? found->run_id : "none";
  }

  const Provenance here_{"host", "x86_64", "", "", "abc"};
  const fs::path folder_ = fs::path(::testing::TempDir()) / "search_path";
};

TEST_F(SearchPath, SplitsAtColons) {
  EXPECT_EQ(search_path("a.json:b/c::d"), (std::vector<fs::path>{"a.json", "b/c", "d"}));
  EXPECT_TRUE(search_path("").empty());
}

TEST_F(SearchPath, AFolderHoldsAFilePerDevice) {
  const fs::path of_device = file("team/h200/wisdom.json", {}), plain = file("user/wisdom.json", {});
  EXPECT_EQ(wisdom_file_of(folder_ / "team", "h200"), of_device);
  EXPECT_EQ(wisdom_file_of(folder_ / "user", "h200"), plain);
  EXPECT_EQ(wisdom_file_of(plain, "h200"), plain);
  EXPECT_EQ(wisdom_file_of(folder_ / "none", "h200"), folder_ / "none");
}

TEST_F(SearchPath, TheEarlierFileWinsThoughItIsSlower) {
  const fs::path user = file("user.json", {winner(8, 2, "user")}),
                 team = file("team.json", {winner(8, 1, "team"), winner(16, 1, "team")});
  const WisdomInUse in_use = read({user, team});
  EXPECT_EQ(run_of(in_use, 8), "user");
  EXPECT_EQ(run_of(in_use, 16), "team");
  EXPECT_EQ(in_use.files[0].used, 1u);
  EXPECT_EQ(in_use.files[1].used, 1u);
  EXPECT_EQ(in_use.files[1].winners, 2u);
  EXPECT_EQ(run_of(read({team, user}), 8), "team");
}

TEST_F(SearchPath, AStaleWinnerGivesWayToAFreshOne) {
  Winner stale = winner(8, 1, "user");
  stale.source_hash = "edited since";
  const fs::path user = file("user.json", {stale}), team = file("team.json", {winner(8, 2, "team")});
  const WisdomInUse in_use = read({user, team});
  EXPECT_EQ(run_of(in_use, 8), "team");
  EXPECT_EQ(in_use.files[0].used, 0u);
  EXPECT_EQ(run_of(read({team, user}), 8), "team");
  EXPECT_EQ(run_of(read({user, file("other.json", {stale})}), 8), "user") << "both are stale";
}

TEST_F(SearchPath, AHotWinnerGivesWayToAColdOne) {
  Winner hot = winner(8, 1, "user");
  hot.cache = CacheMode::hot;
  EXPECT_EQ(run_of(read({file("user.json", {hot}), file("team.json", {winner(8, 2, "team")})}), 8), "team");
}

TEST_F(SearchPath, MissingFilesAreSkippedAndDamagedOnesAreNot) {
  const fs::path team = file("team.json", {winner(8, 1, "team")});
  const WisdomInUse in_use = read({folder_ / "user.json", team});
  EXPECT_TRUE(in_use.found());
  EXPECT_EQ(in_use.missing(), (folder_ / "user.json").string());
  EXPECT_EQ(in_use.present(), team.string());
  EXPECT_FALSE(read({folder_ / "user.json"}).found());
  std::ofstream(folder_ / "user.json") << "{";
  EXPECT_THROW(read({folder_ / "user.json", team}), InputError);
}

TEST_F(SearchPath, TheHashIsThatOfTheBytes) {
  const fs::path user = file("user.json", {winner(8, 1, "user")}),
                 team = file("team.json", {winner(8, 1, "team")});
  EXPECT_EQ(read({user}).hash, sha256(testing::text_of(user)));
  EXPECT_EQ(read({user, team}).hash, sha256(read({user}).hash + read({team}).hash));
  EXPECT_EQ(read({user, folder_ / "none.json"}).hash, read({user}).hash);
  EXPECT_EQ(read({user}).str(),
            read({user}).hash.substr(0, 16) + ", 1 winner and 0 steps of " + user.string());
}

}  // namespace
}  // namespace warptune
