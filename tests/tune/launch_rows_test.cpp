// The CSV has rows of launch floors, and no reader takes them for configurations.
#include <gtest/gtest.h>

#include <fstream>

#include "harness/core/error.h"
#include "harness/device/device.h"
#include "harness/report/summary.h"
#include "harness/results/sweep_file.h"
#include "harness/results/timed_config.h"
#include "harness/search/simulate.h"
#include "harness/tune/device_rows.h"
#include "tests/program.h"
#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::fresh_folder;
using testing::run_shell;

LaunchFloors floors() {
  LaunchFloors f;
  f.graph_node = {.time_us = 1.1,
                  .time_us_min = 1,
                  .ci_low_us = 1.05,
                  .ci_high_us = 1.15,
                  .samples = 21,
                  .launches_per_sample = 1000,
                  .samples_us = {1, 1.1, 1.2}};
  f.single_launch = {.time_us = 2.5, .time_us_min = 2.4, .samples = 21, .launches_per_sample = 1};
  return f;
}

TEST(LaunchRows, AreWrittenOnceAndIgnoredByOtherReaders) {
  const fs::path folder = fresh_folder("launch_rows"), csv = folder / "sweep.csv";
  const Compiler compiler(KernelSources(), {});
  DeviceFacts facts{.backend = Backend::cuda, .name = "NVIDIA X", .arch = "sm_90a", .driver = "580"};
  const auto begin = [&](RowStore& store) {
    DeviceRows rows(compiler, facts, store, {});
    rows.begin({});
    return rows;
  };
  {
    RowStore store(folder, "sweep", false);
    DeviceRows rows = begin(store);
    EXPECT_FALSE(rows.has_launch_floors());
    rows.write({});
    EXPECT_TRUE(read_csv(csv).empty());
    rows.write(floors());
  }
  {
    RowStore store(folder, "sweep", false);
    EXPECT_TRUE(begin(store).has_launch_floors());
    facts.driver = "590";
    EXPECT_FALSE(begin(store).has_launch_floors());
  }
  const auto all = read_csv(csv);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].at("op"), "launch");
  EXPECT_EQ(all[0].at("problem"), "launch[blocks=1,threads=32,dtype=fp32]");
  EXPECT_EQ(all[0].at("variant"), "graph_node");
  EXPECT_EQ(all[0].at("cache"), "hot");
  EXPECT_EQ(all[0].at("time_us"), "1.1");
  EXPECT_EQ(all[0].at("ci_high_us"), "1.15");
  EXPECT_EQ(all[1].at("variant"), "single_launch");
  EXPECT_EQ(all[1].at("cache"), "isolated");
  EXPECT_TRUE(testing::first_rows(all).empty());
  EXPECT_TRUE(read_timed_configs(csv).empty());
  EXPECT_THROW(recorded_spaces(ops(), csv, ""), InputError);
  EXPECT_THROW(read_results({csv}), InputError);
}

TEST(LaunchRows, AHostSweepHasNone) {
  const fs::path folder = fresh_folder("launch_rows_host");
  ASSERT_EQ(run_shell("{} tune " + testing::host_sweep(folder, "8") + " --out " + folder.string()).code, 0);
  for (const auto& row : read_csv(folder / "host" / "sweep.csv")) EXPECT_FALSE(is_launch_row(row));
}

TEST(GpuLaunchRows, ASweepWritesThemOnceAtItsBegin) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const fs::path folder = fresh_folder("launch_rows_gpu"), sweep = folder / "sweep.yaml";
  std::ofstream(sweep)
      << "device: cuda:0\nops:\n  - op: rms_norm\n    problems: [{tokens: 8, hidden: 1024}]\n"
         "    variants: [naive: {parameters: {block: [64, 128]}}]\n";
  const std::string tune = "{} tune " + sweep.string() + " --out " + (folder / "out").string();
  ASSERT_EQ(run_shell(tune).code, 0);
  ASSERT_EQ(run_shell(tune).code, 0);
  const fs::path csv = fs::directory_iterator(folder / "out")->path() / "sweep.csv";
  std::vector<double> times;
  for (const auto& row : read_csv(csv)) {
    if (!is_launch_row(row)) continue;
    EXPECT_EQ(row.at("status"), "ok");
    times.push_back(std::stod(row.at("time_us")));
    EXPECT_LE(std::stod(row.at("ci_low_us")), times.back());
    EXPECT_GE(std::stod(row.at("samples")), 21);
  }
  ASSERT_EQ(times.size(), 2u);
  EXPECT_GT(times[0], 0.2);
  EXPECT_LT(times[0], times[1]);
  EXPECT_LT(times[1], 50);
}

}  // namespace
}  // namespace warptune
