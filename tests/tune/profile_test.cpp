#include "harness/tune/profile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "harness/core/error.h"
#include "harness/device/device.h"
#include "harness/tune/counters.h"
#include "harness/tune/winners_sweep.h"
#include "tests/files.h"
#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::text_of;

ProfileTarget host_target() {
  const OpEntry& entry = find_op("rms_norm");
  return {.problem = entry.op.problem(Assignment{{"tokens", 2}, {"hidden", 33}}, DType::fp32),
          .variant = "host_naive",
          .device = "host"};
}

TEST(Profile, LaunchesOnTheHost) { EXPECT_NO_THROW(run_profiled(ops(), host_target())); }

TEST(Profile, RefusesAnExcludedConfiguration) {
  ProfileTarget target = host_target();
  target.variant = "host_threaded";
  target.config = {{"threads", 99}};
  EXPECT_THROW(run_profiled(ops(), target), InputError);
}

TEST(Profile, NamesTheCommands) {
  const ProfileTarget target = host_target();
  EXPECT_EQ(target.name(), "rms_norm/host_naive/" + target.problem.key());
  const auto ncu = shell_text(profiler_command("ncu", "/bin/warptune", target, "r.sources", "r"));
  EXPECT_EQ(ncu.find("ncu --profile-from-start off --clock-control none"), 0u) << ncu;
  EXPECT_NE(ncu.find("--source-folders r.sources -f -o r /bin/warptune profile rms_norm/host_naive "),
            std::string::npos)
      << ncu;
  EXPECT_TRUE(ncu.ends_with("--device host --inside")) << ncu;
  const auto nsys = shell_text(profiler_command("nsys", "/bin/warptune", target, "", "r"));
  EXPECT_NE(nsys.find("--capture-range=cudaProfilerApi"), std::string::npos);
}

TEST(Profile, QuotesForTheShell) {
  EXPECT_EQ(shell_text({"a=1,b", "it's", "", "x y"}), "a=1,b 'it'\\''s' '' 'x y'");
}

TEST(Profile, WritesSourcesUnderTheNamesOfTheLineTable) {
  const OpEntry& entry = find_op("rms_norm");
  const auto cuda = std::ranges::find(entry.variants, Backend::cuda, &Variant::backend);
  ASSERT_NE(cuda, entry.variants.end());
  ProfileTarget target = host_target();
  target.variant = cuda->name;
  const fs::path folder = fs::path(::testing::TempDir()) / "profile_sources";
  fs::remove_all(folder);
  write_sources(ops(), target, folder);
  EXPECT_TRUE(fs::exists(folder / cuda->stages.front().file));
  EXPECT_TRUE(fs::exists(folder / "kernels" / "common" / "numeric.cuh"));
}

TEST(Profile, GpuReportHasOneKernel) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const auto ncu = find_tool("ncu");
  if (!ncu) GTEST_SKIP() << "ncu is not on this machine";
  const OpEntry& entry = find_op("rms_norm");
  const auto device = open_device("auto");
  const auto variant = std::ranges::find(entry.variants, Backend::cuda, &Variant::backend);
  ProfileTarget target{.problem = entry.op.problem(Assignment{{"tokens", 1}, {"hidden", 4096}}, DType::bf16),
                       .variant = variant->name};
  target.config = Space(*variant, target.problem, device->facts()).configs().front();
  const fs::path folder = fs::path(::testing::TempDir()) / "profile_gpu";
  fs::remove_all(folder);
  write_sources(ops(), target, folder / "sources");
  const char* elsewhere = std::getenv("WARPTUNE_PROGRAM");  // set if the tests run on another machine
  auto command = profiler_command("ncu", elsewhere ? elsewhere : WARPTUNE_PROGRAM, target, folder / "sources",
                                  folder / "report");
  command.front() = ncu->string();
  const fs::path log = folder / "log";
  const int status = std::system((shell_text(command) + " > " + log.string() + " 2>&1").c_str());
  const std::string text = text_of(log);
  if (text.find("ERR_NVGPUCTRPERM") != std::string::npos ||
      text.find("LibraryNotLoaded") != std::string::npos)
    GTEST_SKIP() << "ncu may not read counters here: " << text;
  ASSERT_EQ(status, 0) << text;
  const fs::path csv = folder / "csv";
  ASSERT_EQ(std::system((shell_text({ncu->string(), "--import", (folder / "report.ncu-rep").string(), "--csv",
                                     "--page", "raw", "--print-units", "base"}) +
                         " > " + csv.string())
                            .c_str()),
            0);
  const std::string report = text_of(csv);
  const auto kernels = parse_ncu_csv(report, {});
  ASSERT_EQ(kernels.size(), 1u) << report.substr(0, 2000);
  EXPECT_TRUE(kernels[0].kernel.starts_with("rms_norm_")) << kernels[0].kernel;
}

TEST(WinnersSweep, TriesOnlyTheWinners) {
  const ProfileTarget target = host_target();
  Winner good{.problem = target.problem, .variant = "host_naive", .time_us = 1};
  Winner gone = good;
  gone.problem.dims.set("tokens", 3);
  gone.variant = "no_such";
  Wisdom wisdom;
  wisdom.put(good);
  wisdom.put(gone);
  EXPECT_EQ(winners_of(ops(), wisdom, "tokens=2,").size(), 1u);
  EXPECT_THROW(winners_of(ops(), wisdom, "tokens=9"), InputError);
  EXPECT_THROW(winners_of(ops(), wisdom, "("), InputError);
  std::vector<std::string> left_out;
  const Sweep sweep = winners_sweep(ops(), winners_of(ops(), wisdom, ""), "again", {}, left_out);
  ASSERT_EQ(sweep.items.size(), 1u);
  EXPECT_EQ(sweep.items[0].choices.size(), 1u);
  ASSERT_EQ(left_out.size(), 1u);
  EXPECT_NE(left_out[0].find("no_such"), std::string::npos);
}

TEST(WinnersSweep, TimesEachInItsCacheState) {
  Winner hot{.problem = host_target().problem, .variant = "host_naive", .cache = CacheMode::hot}, cold = hot;
  cold.problem.dims.set("tokens", 3);
  cold.cache = CacheMode::cold;
  std::vector<std::string> left_out;
  const Sweep sweep = winners_sweep(ops(), {hot, cold}, "again", {.min_samples = 33}, left_out);
  ASSERT_EQ(sweep.items.size(), 2u);
  EXPECT_EQ(sweep.items[0].options.cache, CacheMode::hot);
  EXPECT_EQ(sweep.items[1].options.cache, CacheMode::cold);
  EXPECT_EQ(sweep.items[0].options.min_samples, 33);
}

}  // namespace
}  // namespace warptune
