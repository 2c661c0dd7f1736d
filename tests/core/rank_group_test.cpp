#include "harness/core/rank_group.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>

#include "harness/core/error.h"
#include "tests/ranks.h"

namespace warptune {
namespace {
using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RankGroup, ExchangesValuesInTheOrderOfRanks) {
  on_ranks(3, [](const auto& group) {
    for (int round = 0; round < 2000; ++round) {
      const auto all = group->all_gather(100 * round + group->rank());
      ASSERT_THAT(all, ElementsAre(100 * round, 100 * round + 1, 100 * round + 2));
    }
    EXPECT_EQ(group->largest(-group->rank()), 0);
  });
}

TEST(RankGroup, LeavesNoFile) {
  std::string name;
  on_ranks(2, [](const auto& group) {
    group->barrier();
    EXPECT_FALSE(std::filesystem::exists("/dev/shm/warptune-" + group->name()));
  });
}

TEST(RankGroup, ARankThatIsKilledIsLostByTheOthers) {
  const std::string name = group_name();
  const auto codes = run_processes(2, [&](int rank) {
    RankGroup group(name, rank, 2);
    group.barrier();
    if (rank == 1) ::raise(SIGKILL);
    try {
      group.barrier();
    } catch (const RankLost& e) {
      return std::string(e.what()) == "rank 1 of 2 has ended" ? 7 : 1;
    }
    return 0;
  });
  EXPECT_THAT(codes, ElementsAre(7, -1));
}

TEST(RankGroup, AFileOfARunThatWasKilledIsReplaced) {
  const std::string name = group_name();
  const auto killed = run_processes(1, [&](int) {
    try {
      RankGroup(name, 0, 2, 0.01);
    } catch (const RankLost&) {
    }
    return 0;
  });
  EXPECT_THAT(killed, ElementsAre(0));
  std::filesystem::copy_file("/proc/self/exe", "/dev/shm/warptune-" + name);  // of any content
  const auto codes = run_processes(2, [&](int rank) {
    RankGroup group(name, rank, 2, 20);
    return group.all_gather(rank)[1] == 1 ? 0 : 1;
  });
  EXPECT_THAT(codes, ElementsAre(0, 0));
}

TEST(RankGroup, ARankThatDoesNotComeIsNamed) {
  const std::string name = group_name();
  try {
    RankGroup(name, 0, 2, 0.02);
    FAIL();
  } catch (const RankLost& e) {
    EXPECT_STREQ(e.what(), "rank 1 of 2 did not join in time");
  }
  try {
    RankGroup(name, 1, 2, 0.02);
    FAIL();
  } catch (const RankLost& e) {
    EXPECT_THAT(e.what(), HasSubstr("rank 0 of 2 did not start within"));
  }
}

TEST(RankGroup, RefusesImpossibleNumbers) {
  EXPECT_THROW(RankGroup("x", 0, 9), InputError);
  EXPECT_THROW(RankGroup("x", 2, 2), InputError);
  EXPECT_THROW(RankGroup("x", -1, 2), InputError);
}

}  // namespace
}  // namespace warptune
