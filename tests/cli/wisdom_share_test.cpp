// A team's wisdom as a user types it: push, pull, list, and WARPTUNE_WISDOM.
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "harness/results/source_hash.h"
#include "harness/results/wisdom.h"
#include "tests/files.h"
#include "tests/program.h"
#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::Ended;
using testing::fresh_folder;
using testing::run_shell;
using testing::text_of;

const Provenance kHost{"host", "x86_64", "", "", ""};

Winner rms_norm_winner(std::int64_t hidden, double us, const std::string& run) {
  Winner w{.problem = {"rms_norm", {{"tokens", 2}, {"hidden", hidden}}, DType::fp32},
           .variant = "host_naive",
           .time_us = us,
           .run_id = run};
  w.source_hash = source_hash(Compiler(KernelSources(), {}), ops(), w);
  return w;
}

fs::path write_wisdom(const fs::path& file, const std::vector<Winner>& winners) {
  Wisdom wisdom(kHost);
  for (const Winner& w : winners) wisdom.put(w);
  wisdom.save(file);
  return file;
}

/// The first group of a pattern in what a program printed; empty where it does not match.
std::string words_of(const Ended& ended, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(ended.text, match, std::regex(pattern)) ? match[1].str() : std::string();
}

TEST(WisdomShare, PushAndPullThroughAFolder) {
  const fs::path folder = fresh_folder("share");
  fs::create_directories(folder / "store");
  const std::string store = (folder / "store").string();
  const fs::path mine = write_wisdom(folder / "mine.json", {rms_norm_winner(8, 2, "mine")});
  const fs::path theirs = write_wisdom(folder / "theirs.json",
                                       {rms_norm_winner(8, 1, "theirs"), rms_norm_winner(16, 1, "theirs")});
  Ended ended = run_shell("{} wisdom push " + store + " --wisdom " + theirs.string());
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_NE(ended.text.find("pushed 2 winners and 0 steps"), std::string::npos) << ended.text;
  ended = run_shell("{} wisdom push file://" + store + " --wisdom " + theirs.string());
  EXPECT_NE(ended.text.find("has all of it"), std::string::npos) << ended.text;

  ended = run_shell("{} wisdom pull " + store + " --wisdom " + mine.string());
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_NE(ended.text.find("2 winners and 0 steps, written"), std::string::npos) << ended.text;
  EXPECT_EQ(Wisdom::load(mine).winners().at(0).run_id, "theirs");
  ended = run_shell("{} wisdom pull " + store + " --wisdom " + mine.string());
  EXPECT_NE(ended.text.find("nothing new"), std::string::npos) << ended.text;
}

TEST(WisdomShare, ADamagedObjectIsOneSentence) {
  const fs::path folder = fresh_folder("share_damaged");
  fs::create_directories(folder / "store");
  std::ofstream(folder / "store" / (std::string(64, 'a') + ".json")) << "{";
  write_wisdom(folder / "w.json", {rms_norm_winner(8, 2, "mine")});
  const std::string to = (folder / "store").string() + " --wisdom " + (folder / "w.json").string();
  for (const char* command : {"push ", "pull "}) {
    const Ended ended = run_shell("{} wisdom " + (command + to), "2>&1 >/dev/null");
    EXPECT_EQ(ended.code, 0) << ended.text;
    EXPECT_EQ(std::ranges::count(ended.text, '\n'), 1) << ended.text;
    EXPECT_NE(ended.text.find("is damaged"), std::string::npos) << ended.text;
  }
}

TEST(WisdomShare, BadInputIsOneSentence) {
  const fs::path folder = fresh_folder("share_bad");
  const fs::path file = write_wisdom(folder / "w.json", {rms_norm_winner(8, 2, "mine")});
  const auto refused = [&](const std::string& command, const std::string& part) {
    const Ended ended = run_shell(command, "2>&1 >/dev/null");
    EXPECT_EQ(ended.code, 2) << command;
    EXPECT_EQ(std::ranges::count(ended.text, '\n'), 1) << ended.text;
    EXPECT_NE(ended.text.find(part), std::string::npos) << ended.text;
  };
  refused("{} wisdom push " + (folder / "none").string() + " --wisdom " + file.string(), "is not a folder");
  refused("{} wisdom push s3://bucket --wisdom " + file.string(), "mounted");
  refused("{} wisdom push " + folder.string() + " --wisdom " + (folder / "none.json").string(), "none.json");
  refused("{} rerun", "WARPTUNE_WISDOM");
  refused("WARPTUNE_WISDOM=/no/such.json {} bench --device host", "none of the files");
}

TEST(WisdomShare, AFullDiskIsOneSentence) {
  const fs::path folder = fresh_folder("share_full");
  fs::create_directories(folder / "store");
  std::vector<Winner> winners;
  for (std::int64_t hidden = 1; hidden <= 20; ++hidden) winners.push_back(rms_norm_winner(hidden, 2, "mine"));
  const fs::path file = write_wisdom(folder / "w.json", winners);
  const Ended ended = run_shell("bash -c 'ulimit -f 1; {} wisdom push " + (folder / "store").string() +
                                " --wisdom " + file.string() + "'");
  EXPECT_EQ(ended.code, 1) << ended.text;
  EXPECT_EQ(std::ranges::count(ended.text, '\n'), 1) << ended.text;
  EXPECT_TRUE(fs::is_empty(folder / "store"));
}

TEST(WisdomShare, ListShowsWhichFilesAreInUse) {
  const fs::path folder = fresh_folder("share_list");
  const fs::path user = write_wisdom(folder / "user.json", {rms_norm_winner(8, 2, "user")});
  write_wisdom(folder / "team" / "host" / "wisdom.json",
               {rms_norm_winner(8, 1, "team"), rms_norm_winner(16, 1, "team")});
  const Ended ended = run_shell("WARPTUNE_WISDOM=" + user.string() + ":" + (folder / "none.json").string() +
                                ":" + (folder / "team").string() + " {} wisdom list --device host");
  EXPECT_EQ(ended.code, 0);
  EXPECT_NE(ended.text.find("missing"), std::string::npos) << ended.text;
  EXPECT_NE(ended.text.find("2 winners and 0 steps of " + user.string() + ", " +
                            (folder / "team" / "host" / "wisdom.json").string()),
            std::string::npos)
      << ended.text;
}

TEST(WisdomShare, CommandsTakeTheSearchPathUnlessAFileIsNamed) {
  const fs::path folder = fresh_folder("share_path");
  const fs::path a = write_wisdom(folder / "a.json", {rms_norm_winner(8, 2, "a")}),
                 b = write_wisdom(folder / "b.json", {rms_norm_winner(16, 2, "b")});
  const auto names = [&](const std::string& options) {
    return run_shell("WARPTUNE_WISDOM=" + a.string() + ":" + b.string() + " {} bench --device host " +
                         options + " --benchmark_list_tests=true",
                     "2>/dev/null")
        .text;
  };
  const std::string of_path = names(""), of_file = names("--wisdom " + b.string());
  EXPECT_EQ(std::ranges::count(of_path, '\n'), 2) << of_path;
  EXPECT_EQ(std::ranges::count(of_file, '\n'), 1) << of_file;
  EXPECT_NE(of_file.find("hidden:16"), std::string::npos) << of_file;
}

/// A model's wisdom, and a store whose winners are other variants that are faster.
class Ranks : public ::testing::Test {
 protected:
  static constexpr int kRanks = 16;

  void SetUp() override {
    fs::create_directories(folder_ / "store");
    std::ofstream(folder_ / "ids.txt") << "5 6 7\n8 9\n";
    std::ofstream(folder_ / "sweep.yaml")
        << "device: host\ncache: hot\nfinalists: 1\nsampling: {min_samples: 6, max_time: 0.001}\nmodels:\n"
           "  - {model: "
        << TEST_DATA << "/golden/gqa, dtypes: fp32, batch: 2, context: 64, prompt_len: 5, max_configs: 1}\n";
    const Ended tuned =
        run_shell("{} tune " + (folder_ / "sweep.yaml").string() + " --out " + folder_.string());
    ASSERT_EQ(tuned.code, 0) << tuned.text;
    fs::copy_file(folder_ / "host" / "wisdom.json", folder_ / "old.json");

    const Wisdom old = Wisdom::load(folder_ / "old.json");
    Wisdom faster(old.provenance());
    const Compiler compiler(KernelSources(), {});
    for (Winner w : old.winners()) {
      w.variant = w.variant == "host_naive" ? "host_threaded" : "host_naive";
      const Variant* variant = ops().find(w.problem.op).find_variant(w.variant);
      if (!variant) continue;
      Config config;
      for (const Parameter& p : variant->parameters) config.set(p.name, p.values.front());
      w.config = config;
      w.time_us /= 2;
      w.source_hash = source_hash(compiler, ops(), w);
      w.tied.clear();
      w.times.clear();
      faster.put(w);
    }
    ASSERT_FALSE(faster.winners().empty());
    faster.save(folder_ / "faster.json");
    const Ended pushed = run_shell("{} wisdom push " + (folder_ / "store").string() + " --wisdom " +
                                   (folder_ / "faster.json").string());
    ASSERT_EQ(pushed.code, 0) << pushed.text;
  }

  /// The command of a rank that prints its plans to a log.
  std::string rank(const std::string& name) const {
    return "OMP_NUM_THREADS=1 WARPTUNE_WISDOM=" + wisdom_.string() + " " + WARPTUNE_PROGRAM +
           " decode --device host --dtype fp32 --steps 1 --explain --model " + TEST_DATA + "/golden/gqa" +
           " --out " + folder_.string() + " --prompt-ids " + (folder_ / "ids.txt").string() +
           " --dump-layers " + (folder_ / ("layers" + name)).string() + " >" + log(name).string() + " 2>&1";
  }
  fs::path log(const std::string& name) const { return folder_ / ("rank" + name + ".log"); }
  /// The hashes of its wisdom and of its plans.
  std::pair<std::string, std::string> hashes(const std::string& name) const {
    const Ended ended{0, text_of(log(name))};
    return {words_of(ended, "note: wisdom ([0-9a-f]{16}),"), words_of(ended, "note: plans ([0-9a-f]{16})")};
  }

  const fs::path folder_ = fresh_folder("ranks");
  const fs::path wisdom_ = folder_ / "wisdom.json";
};

TEST_F(Ranks, WithTheSameWisdomChooseTheSamePlansWhileItIsMerged) {
  const std::string old = (folder_ / "old.json").string(), now = wisdom_.string();
  const std::string pull = std::string(WARPTUNE_PROGRAM) + " wisdom pull " + (folder_ / "store").string() +
                           " --wisdom " + now + " >>" + (folder_ / "pull.log").string() + " 2>&1";
  const std::string restore = "cp " + old + " " + now + ".copy && mv " + now + ".copy " + now;
  std::map<std::string, std::string> plans;  // by wisdom
  ASSERT_EQ(run_shell(restore + " && " + rank("_old") + " && " + pull + " && " + rank("_new")).code, 0)
      << text_of(log("_old")) << text_of(log("_new"));
  for (const char* name : {"_old", "_new"}) plans.insert(hashes(name));
  ASSERT_EQ(plans.size(), 2u) << "the merge changes the wisdom";
  ASSERT_NE(plans.begin()->second, plans.rbegin()->second) << "the merge changes the plans";

  std::ofstream script(folder_ / "job.sh");
  script << "ranks=()\n";
  for (int i = 0; i < kRanks; ++i) script << rank(std::to_string(i)) << " &\nranks+=($!)\n";
  script << "(while :; do " << restore << "; " << pull << "; sleep 0.05; done) &\nmerger=$!\n"
         << "code=0\nfor id in \"${ranks[@]}\"; do wait $id || code=1; done\n"
         << "kill $merger\nwait $merger 2>/dev/null\nexit $code\n";
  script.close();
  EXPECT_EQ(run_shell("timeout 250 bash " + (folder_ / "job.sh").string()).code, 0);
  for (int i = 0; i < kRanks; ++i) {
    const auto [wisdom, chosen] = hashes(std::to_string(i));
    ASSERT_TRUE(plans.contains(wisdom))
        << "neither the old nor the new file: " << text_of(log(std::to_string(i)));
    EXPECT_EQ(chosen, plans[wisdom]) << i;
  }
}

}  // namespace
}  // namespace warptune
