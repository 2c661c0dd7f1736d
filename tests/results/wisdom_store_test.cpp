#include "harness/results/wisdom_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "harness/core/error.h"
#include "harness/results/sha256.h"
#include "harness/results/source_hash.h"
#include "tests/files.h"
#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::text_of;

/// Winners of the host with the code of this program, and an empty store.
class Store : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "store");
  }

  Winner winner(std::int64_t hidden, double us, const std::string& run = "run") const {
    Winner w{.problem = {"rms_norm", {{"tokens", 1}, {"hidden", hidden}}, DType::fp32},
             .variant = "host_naive",
             .time_us = us,
             .run_id = run,
             .csv = "sweep.csv"};
    w.source_hash = source_hash(Compiler(KernelSources(), {}), ops(), w);
    return w;
  }
  Wisdom wisdom(const std::vector<Winner>& winners) const {
    Wisdom all(here_);
    for (const Winner& w : winners) all.put(w);
    return all;
  }
  Pulled pull() const { return pull_wisdom(store(), local_, here_, judge_); }
  WisdomStore store() const { return WisdomStore((folder_ / "store").string()); }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_ / "store")) found.push_back(entry.path());
    return found;
  }
  std::string local_run(std::int64_t hidden) const {
    const Wisdom local = Wisdom::load(local_);
    const Winner* found = local.winner_on(winner(hidden, 1).problem, here_.device);
    return found ? found->run_id : "none";
  }

  const Provenance here_{"host", "x86_64", "", "", "abc"};
  const fs::path folder_ = fs::path(::testing::TempDir()) / ("store" + std::to_string(::getpid()));
  const fs::path local_ = folder_ / "local" / "wisdom.json";
  const WinnerJudge judge_{ops()};
};

/// Runs `work` in a process of its own; returns its id.
pid_t in_process(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  int code = 0;
  try {
    work();
  } catch (const std::exception&) {
    code = 1;
  }
  ::_exit(code);
}

int end_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Sha256, IsThatOfTheStandard) {
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_F(Store, AnObjectIsAWisdomFileNamedByItsHash) {
  const auto pushed = store().push(wisdom({winner(8, 1), winner(16, 2)}));
  EXPECT_EQ(pushed.winners, 2u);
  ASSERT_EQ(files(), std::vector{pushed.object});
  EXPECT_EQ(pushed.object.stem(), sha256(text_of(pushed.object)));
  EXPECT_EQ(Wisdom::load(pushed.object).winners().size(), 2u);
}

TEST_F(Store, PushWritesOnlyWhatTheStoreLacks) {
  store().push(wisdom({winner(8, 1)}));
  const auto again = store().push(wisdom({winner(8, 1)}));
  EXPECT_EQ(again.object, fs::path());
  EXPECT_EQ(files().size(), 1u);
  const auto more = store().push(wisdom({winner(8, 1), winner(16, 2)}));
  EXPECT_EQ(more.winners, 1u);
  EXPECT_EQ(Wisdom::load(more.object).winners().at(0).problem, winner(16, 2).problem);
}

TEST_F(Store, StepsArePushedAndPulled) {
  StepWinner step{.step = {kStepOp, {{"batch", 1}}, DType::fp32}, .time_us = 3, .alone_us = 9, .run_id = "s"};
  step.plans.plans = {{winner(8, 1).problem, "host_naive", {}, winner(8, 1).source_hash}};
  Wisdom with_step = wisdom({winner(8, 1)});
  with_step.put(step);
  EXPECT_EQ(store().push(with_step).steps, 1u);
  EXPECT_EQ(store().push(with_step).object, fs::path());
  EXPECT_EQ(pull().steps, 1u);
  EXPECT_EQ(Wisdom::load(local_).steps().at(0).run_id, "s");
}

TEST_F(Store, PullKeepsTheFasterWinnerInEveryOrder) {
  for (const bool slow_first : {true, false}) {
    SetUp();
    store().push(wisdom({winner(8, slow_first ? 2 : 1, slow_first ? "slow" : "fast")}));
    store().push(
        wisdom({winner(8, slow_first ? 1 : 2, slow_first ? "fast" : "slow"), winner(16, 5, "slow")}));
    EXPECT_TRUE(pull().changed);
    EXPECT_EQ(local_run(8), "fast");
    EXPECT_EQ(local_run(16), "slow");
    const std::string before = text_of(local_);
    EXPECT_FALSE(pull().changed) << "a second pull writes nothing";
    EXPECT_EQ(text_of(local_), before);
  }
}

TEST_F(Store, PullKeepsTheTimesOfAllWithoutEndInTheirOrder) {
  const auto with_times = [&](double us, std::int64_t threads) {
    Winner w = winner(8, us);
    w.times = {{"host_threaded", "hash", {"threads"}, {{{threads}, us}, {{8}, us}}}};
    return w;
  };
  store().push(wisdom({with_times(1, 2)}));
  store().push(wisdom({with_times(3, 4)}));
  EXPECT_TRUE(pull().changed);
  EXPECT_EQ(Wisdom::load(local_).winners().at(0).times.at(0).rows.size(), 3u);
  EXPECT_FALSE(pull().changed);
}

TEST_F(Store, PullKeepsTheLocalWinnerThatIsFaster) {
  wisdom({winner(8, 1, "mine")}).save(local_);
  store().push(wisdom({winner(8, 2, "theirs")}));
  pull();
  EXPECT_EQ(local_run(8), "mine");
}

TEST_F(Store, PullNamesWhatItRefuses) {
  Winner stale = winner(8, 1);
  stale.source_hash = "edited since";
  store().push(wisdom({stale, winner(16, 2)}));
  const Pulled pulled = pull();
  EXPECT_EQ(local_run(8), "none");
  EXPECT_EQ(local_run(16), "run");
  ASSERT_EQ(pulled.refused.size(), 1u);
  EXPECT_EQ(pulled.refused.begin()->winner, "rms_norm[tokens=1,hidden=8,dtype=fp32] host_naive");
  EXPECT_EQ(pulled.refused.begin()->reason, "tuned on other code of its kernels");
}

TEST_F(Store, WinnersOfOtherDevicesStayInTheStore) {
  Winner other = winner(8, 1);
  other.made_on = {"NVIDIA H200", "sm_90a", "580", "13.0", ""};
  store().push(wisdom({other, winner(16, 2)}));
  const Pulled pulled = pull();
  EXPECT_EQ(pulled.other_devices, 1u);
  EXPECT_EQ(pulled.winners, 1u);
}

TEST_F(Store, WinnersOfADeviceAndOfItsRehearsalStayApart) {
  const Provenance real{"NVIDIA H100 80GB HBM3", "sm_90a", "580", "13.0", ""},
      rehearsal{"h100-as-sm_80", "sm_90a-as-sm_80", "580", "13.0", ""};
  Winner of_real = winner(8, 1, "real"), of_rehearsal = winner(8, 2, "rehearsal");
  of_real.made_on = real;
  of_rehearsal.made_on = rehearsal;
  store().push(wisdom({of_real, of_rehearsal}));
  for (const auto& [here, run] : {std::pair{real, "real"}, {rehearsal, "rehearsal"}}) {
    const fs::path file = folder_ / run / "wisdom.json";
    const Pulled pulled = pull_wisdom(store(), file, here, judge_);
    EXPECT_EQ(pulled.winners, 1u);
    EXPECT_EQ(pulled.other_devices, 1u);
    EXPECT_EQ(Wisdom::load(file).winners().at(0).run_id, run);
  }
}

TEST_F(Store, ADamagedObjectIsNamedAndDoesNotStopTheOthers) {
  const fs::path bad = store().push(wisdom({winner(8, 1)})).object;
  store().push(wisdom({winner(16, 2)}));
  const std::string whole = text_of(bad);
  for (const std::string& damaged : {whole.substr(0, whole.size() / 2), std::string(), whole + " "}) {
    std::ofstream(bad, std::ios::binary) << damaged;
    fs::remove_all(local_.parent_path());
    const Pulled pulled = pull();
    ASSERT_EQ(pulled.damaged.size(), 1u);
    EXPECT_NE(pulled.damaged[0].find(bad.string()), std::string::npos) << pulled.damaged[0];
    EXPECT_EQ(local_run(8), "none");
    EXPECT_EQ(local_run(16), "run");
  }
  EXPECT_EQ(store().push(wisdom({winner(8, 1), winner(16, 2)})).object, bad) << "a push repairs it";
  EXPECT_EQ(text_of(bad), whole);
  EXPECT_TRUE(pull().damaged.empty());
}

TEST_F(Store, EachDigitOfAnObjectsNameIsChecked) {
  const fs::path object = store().push(wisdom({winner(8, 1)})).object;
  const std::string hash = object.stem();
  for (const std::size_t digit :
       {std::size_t{0}, std::size_t{7}, std::size_t{8}, std::size_t{31}, std::size_t{63}}) {
    std::string other = hash;
    other[digit] = other[digit] == '0' ? '1' : '0';
    const fs::path renamed = object.parent_path() / (other + ".json");
    fs::rename(object, renamed);
    const Pulled pulled = pull();
    ASSERT_EQ(pulled.damaged.size(), 1u) << digit;
    EXPECT_NE(pulled.damaged[0].find(other), std::string::npos) << pulled.damaged[0];
    EXPECT_EQ(pulled.winners, 0u);
    fs::rename(renamed, object);
  }
  for (const std::string& name : {hash.substr(1), hash + "0", "g" + hash.substr(1)}) {
    fs::copy_file(object, object.parent_path() / (name + ".json"));
    EXPECT_TRUE(pull().damaged.empty()) << "another file: " << name;
  }
  fs::rename(object, object.parent_path() / (hash + ".txt"));
  fs::remove_all(local_.parent_path());
  EXPECT_EQ(pull().winners, 0u) << "not an object";
}

TEST_F(Store, PullReplacesAKnownStepByAFasterOne) {
  const auto push_step = [&](double us, const std::string& run, const std::vector<std::string>& hashes) {
    StepWinner step{
        .step = {kStepOp, {{"batch", 1}}, DType::fp32}, .time_us = us, .alone_us = 9, .run_id = run};
    for (const std::string& hash : hashes)
      step.plans.plans.push_back({winner(8, 1).problem, "host_naive", {}, hash});
    Wisdom with_step(here_);
    with_step.put(step);
    store().push(with_step);
  };
  const auto known = [&] { return Wisdom::load(local_).steps().at(0).run_id; };
  const std::string now = winner(8, 1).source_hash;
  push_step(3, "slow", {now, now});
  EXPECT_TRUE(pull().changed);
  push_step(2, "fast", {now, now});
  EXPECT_TRUE(pull().changed);
  EXPECT_EQ(known(), "fast");
  push_step(1, "stale", {"edited since", now});
  const Pulled pulled = pull();
  EXPECT_EQ(known(), "fast");
  ASSERT_EQ(pulled.refused.size(), 1u) << "its first plan is stale";
  EXPECT_EQ(pulled.refused.begin()->reason, "tuned on other code of its kernels");
}

TEST_F(Store, AnObjectOfAnotherSchemaIsNamed) {
  const std::string text = "{\"schema\": 99}";
  std::ofstream(folder_ / "store" / (sha256(text) + ".json")) << text;
  store().push(wisdom({winner(8, 1)}));
  const Pulled pulled = pull();
  ASSERT_EQ(pulled.damaged.size(), 1u);
  EXPECT_NE(pulled.damaged[0].find("schema 99"), std::string::npos) << pulled.damaged[0];
  EXPECT_EQ(local_run(8), "run");
}

TEST_F(Store, OtherFilesAreIgnored) {
  std::ofstream(folder_ / "store" / "README.md") << "ours";
  std::ofstream(folder_ / "store" / ".partial-other-1-0") << "{\"sch";
  store().push(wisdom({winner(8, 1)}));
  EXPECT_TRUE(pull().damaged.empty());
}

TEST_F(Store, WritersAtOnceLoseNothing) {
  constexpr int kWriters = 8, kPushes = 5;
  std::vector<pid_t> writers;
  for (int i = 0; i < kWriters; ++i)
    writers.push_back(in_process([&] {
      for (int j = 0; j < kPushes; ++j)  // the first winner is the same in all of them
        store().push(wisdom({winner(8, 1), winner(100 + i * kPushes + j, 1)}));
    }));
  writers.push_back(in_process([&] {
    for (int j = 0; j < kPushes; ++j)
      if (!pull().damaged.empty()) throw std::runtime_error("a reader saw a half-written object");
  }));
  for (const pid_t writer : writers) EXPECT_EQ(end_of(writer), 0);
  EXPECT_EQ(pull().winners, static_cast<std::size_t>(1 + kWriters * kPushes));
}

TEST_F(Store, AKilledWriterLeavesOnlyWholeObjects) {
  for (int round = 0; round < 5; ++round) {
    const pid_t writer = in_process([&] {
      for (std::int64_t i = 8;; ++i) store().push(wisdom({winner(i, 1), winner(round, 1)}));
    });
    ::usleep(static_cast<useconds_t>(20000 + 7001 * round));
    ::kill(writer, SIGKILL);
    end_of(writer);
  }
  EXPECT_TRUE(pull().damaged.empty());
  store().push(wisdom({winner(4000, 1, "after")}));
  pull();
  EXPECT_EQ(local_run(4000), "after");
}

TEST_F(Store, AFullDiskLeavesNothing) {
  const pid_t writer = in_process([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    store().push(wisdom({winner(8, 1)}));
  });
  EXPECT_EQ(end_of(writer), 1);
  EXPECT_TRUE(files().empty());
}

TEST_F(Store, AFolderIsNamedByItsPathOrUrl) {
  store().push(wisdom({winner(8, 1)}));
  const std::string path = (folder_ / "store").string();
  for (const std::string& place : {path, "file://" + path, "file://localhost" + path})
    EXPECT_EQ(WisdomStore(place).folder(), fs::path(path)) << place;
  for (const std::string& place :
       {path + "/none", "s3://bucket/" + path, std::string("file://relative"), files().front().string()})
    EXPECT_THROW(WisdomStore{place}, InputError) << place;
  try {
    WisdomStore("s3:///bucket");
    ADD_FAILURE() << "a bucket is no folder";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("a folder that it is mounted on"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace warptune
