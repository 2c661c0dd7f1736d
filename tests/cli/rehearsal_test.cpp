// --as sm_80: a GPU rehearses an older architecture.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "harness/device/device.h"
#include "harness/results/wisdom.h"
#include "tests/files.h"
#include "tests/program.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::fresh_folder;
using testing::run_shell;

/// A sweep of GEMMs whose fastest variant on a Hopper GPU is a library.
fs::path sweep_in(const fs::path& folder) {
  const fs::path sweep = folder / "sweep.yaml";
  std::ofstream(sweep) << "sampling: {min_samples: 6, max_time: 0.02}\nstrategy: {name: guided, budget: 30}\n"
                          "finalists: 2\ndtypes: bf16\nops:\n  - op: linear\n"
                          "    problems: [{tokens: 64, in: 4096, out: [4096, 6144]}]\n"
                          "    skip: [linear/naive, linear/tiled]\n";
  return sweep;
}

TEST(Rehearsal, OnTheHostOrOfAnUnknownArchitectureIsOneSentence) {
  const fs::path folder = fresh_folder("rehearsal_host");
  const std::string out = " --out " + (folder / "out").string(), sweep = sweep_in(folder).string(),
                    config = " --problem tokens=1,hidden=64 --config block=64",
                    winners = std::string(SOURCE_ROOT) + "/results/h200/wisdom.json";
  for (const std::string& command :
       {"tune " + sweep + out, "tune --dry-run " + sweep + out, "decode --preset tinyllama-1.1b" + out,
        "rerun " + winners + " --problem rms_norm" + out, "calibrate" + out,
        "profile rms_norm/naive --inside" + config}) {
    for (const auto& [options, sentence] :
         {std::pair{" --as sm_80 --device host",
                    "'host' (x86_64) cannot run as sm_80: it takes a GPU of a newer architecture"},
          {" --device host --as sm_70", "unknown architecture 'sm_70'; known are sm_80, "}}) {
      const auto ended = run_shell("{} " + command + options, "2>&1 >/dev/null");
      EXPECT_EQ(ended.code, 2) << command << options << ended.text;
      EXPECT_NE(ended.text.find(sentence), std::string::npos) << command << options << ": " << ended.text;
      EXPECT_EQ(std::ranges::count(ended.text, '\n'), 1) << ended.text;
    }
  }
  EXPECT_FALSE(fs::exists(folder / "out/host/sweep.csv"));
}

TEST(Rehearsal, ASweepIsPlannedWithoutADevice) {
  const fs::path folder = fresh_folder("rehearsal_plan");
  const auto planned = run_shell("{} tune --dry-run --arch sm_90a-as-sm_80 " + sweep_in(folder).string());
  EXPECT_EQ(planned.code, 0) << planned.text;
  EXPECT_NE(planned.text.find("h200-as-sm_80 (sm_90a-as-sm_80)"), std::string::npos) << planned.text;
  EXPECT_NE(planned.text.find("linear/mma_cp_async"), std::string::npos) << planned.text;
  EXPECT_NE(planned.text.find("     0        0  linear/wgmma"), std::string::npos) << planned.text;
}

TEST(GpuRehearsal, LibrariesArePeersAndTheRowsHaveAFolderOfTheirOwn) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  if (open_device("cuda:0").get()->facts().arch_number() <= 80) GTEST_SKIP() << "not newer than sm_80";
  const fs::path folder = fresh_folder("rehearsal_gpu");
  const std::string out = " --device cuda:0 --out " + folder.string();
  const auto ended = run_shell("{} tune " + sweep_in(folder).string() + " --as sm_80" + out);
  ASSERT_EQ(ended.code, 0) << ended.text;
  const std::string name = open_device("cuda:0 as sm_80").get()->facts().name;
  std::size_t peers = 0, finalists = 0;
  for (const auto& row : read_csv(folder / name / "sweep.csv")) {
    EXPECT_EQ(row.at("device"), name);
    EXPECT_TRUE(row.at("arch").ends_with("-as-sm_80")) << row.at("arch");
    if (row.at("variant") != "cublaslt" || row.at("status") != "ok") continue;
    ++peers;
    finalists += row.at("sampling") == "finalist";
  }
  const fs::path file = folder / name / "wisdom.json";
  const Wisdom wisdom = Wisdom::load(file);
  EXPECT_EQ(wisdom.winners().size(), 2u);
  for (const Winner& winner : wisdom.winners()) EXPECT_NE(winner.variant, "cublaslt");
  EXPECT_EQ(testing::text_of(file).find("cublaslt"), std::string::npos) << "not among ties and times";
#if WARPTUNE_HAS_CUBLASLT
  EXPECT_GE(peers, 4u);
  EXPECT_GE(finalists, 2u) << "one per problem is timed beside the finalists";
#endif
  const auto again = run_shell("{} rerun " + file.string() + " --as sm_80 --name again" + out);
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_TRUE(fs::exists(folder / name / "again.csv")) << again.text;
}

}  // namespace
}  // namespace warptune
