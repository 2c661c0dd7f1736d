// One bad configuration costs one row.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "harness/device/compile.h"
#include "harness/device/device.h"
#include "harness/results/wisdom.h"
#include "harness/tune/compile_pool.h"
#include "harness/tune/device_worker.h"
#include "harness/tune/worker_group.h"
#include "tests/files.h"
#include "tests/program.h"
#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::first_rows;
using testing::fresh_folder;
using testing::host_sweep;
using testing::run_shell;
using testing::text_of;

struct Fault {
  const char* kind;
  const char* status;
  const char* sentence;
  const char* deadline = "60";  // s; long enough that only a hang exceeds it
  const char* hidden = "[16, 32]";
};

class Isolation : public ::testing::TestWithParam<Fault> {};

TEST_P(Isolation, CostsOneRow) {
  if (testing::kSanitized && GetParam().kind == std::string("memory"))
    GTEST_SKIP() << "needs a program without sanitizer";
  const fs::path folder = fresh_folder(std::string("isolation_") + GetParam().kind);
  const auto ended =
      run_shell(std::string("WARPTUNE_WORKER_FAULT='") + GetParam().kind + ":threads=2' {} tune " +
                host_sweep(folder, GetParam().hidden) + " --first-deadline 0 --deadline " +
                GetParam().deadline + " --out " + folder.string());
  EXPECT_EQ(ended.code, 0) << ended.text;
  const auto rows = first_rows(read_csv(folder / "host" / "sweep.csv"));
  ASSERT_EQ(rows.size(), GetParam().hidden == std::string("16") ? 3u : 6u) << ended.text;
  for (const auto& row : rows) {
    const bool bad = row.at("config") == "threads=2";
    EXPECT_EQ(row.at("status"), bad ? GetParam().status : "ok") << row.at("config");
    EXPECT_TRUE(!bad || row.at("detail").find(GetParam().sentence) != std::string::npos) << row.at("detail");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Faults, Isolation,
    ::testing::Values(Fault{"loop", "timeout", "no result within 10 seconds", "10", "16"},
                      Fault{"stop", "timeout", "no result within 10 seconds", "10", "16"},
                      Fault{"segv", "crash", "the worker died of signal 11"},
                      Fault{"abort", "crash", "the worker died of signal 6"},
                      Fault{"exit0", "crash", "the worker ended with exit code 0"},
                      Fault{"kill", "crash", "3 workers in a row: out of memory, or someone killed them"},
                      Fault{"memory", "resource", "the host is out of memory"},
                      Fault{"throw", "launch_error", "the device is lost"}),
    [](const auto& info) { return std::string(info.param.kind); });

TEST(IsolationWisdom, ATemporaryFailureReplacesNoWinner) {
  const fs::path folder = fresh_folder("isolation_winner");
  const std::string sweep = host_sweep(folder, "64", "[1]"), out = " --fresh --out " + folder.string();
  ASSERT_EQ(run_shell("{} tune " + sweep + " --filter host_threaded" + out).code, 0);
  const auto winner = [&] { return Wisdom::load(folder / "host" / "wisdom.json").winners().front().variant; };
  ASSERT_EQ(winner(), "host_threaded");
  // So fast that no other configuration wins by time.
  Wisdom wisdom = Wisdom::load(folder / "host" / "wisdom.json");
  Winner fast = wisdom.winners().front();
  fast.time_us = 1e-3;
  wisdom.put(fast);
  wisdom.save(folder / "host" / "wisdom.json");
  const auto ended = run_shell("WARPTUNE_WORKER_FAULT=segv:threads=1 {} tune " + sweep + out);
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_NE(ended.text.find("the wisdom keeps host_threaded"), std::string::npos) << ended.text;
  EXPECT_EQ(winner(), "host_threaded");
}

TEST(IsolationCompile, ALongCompilationTimesOutAndTheOthersContinue) {
  const Variant& variant = find_op("rms_norm").variant("naive");
  const Problem problem{"rms_norm", {{"tokens", 1}, {"hidden", 64}}, DType::fp32};
  std::vector<Config> configs;
  for (int i = 0; i < 4; ++i) configs.push_back({{"block", 64 << i}});
  std::vector<CompileTask> tasks;
  for (const Config& config : configs) tasks.push_back({&variant, &problem, config});
  std::atomic<bool> let_go = false;
  CompilePool pool(
      [&](const CompileTask& task) {
        while (task.config["block"] == 128 && !let_go)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return Resources{.registers = static_cast<int>(task.config["block"])};
      },
      1, 8);
  for (const CompileTask& task : tasks) pool.add(task);
  EXPECT_EQ(pool.take(0, 60).resources.registers, 64);
  const CompileResult late = pool.take(1, 0.1);
  EXPECT_EQ(late.kind, CompileResult::Kind::timeout);
  EXPECT_EQ(late.detail, "did not compile within 0.1 seconds");
  EXPECT_EQ(pool.take(2, 60).resources.registers, 256);
  EXPECT_EQ(pool.take(3, 60).resources.registers, 512);
  let_go = true;
}

TEST(IsolationDeadline, FollowsTheBestWithAFloor) {
  Deadline deadline({.floor_seconds = 5, .max_seconds = 30, .slowdown = 100});
  EXPECT_EQ(deadline.seconds(), 30);
  Measurement m;
  m.time_us = 10;
  m.launches_per_sample = 100;
  deadline.learn({.status = Status::crash}, 29);
  EXPECT_EQ(deadline.seconds(), 30);
  deadline.learn(m, 0.2);
  EXPECT_EQ(deadline.seconds(), 5);
  deadline.learn(m, 4);  // correct, but its verification takes long
  EXPECT_NEAR(deadline.seconds(), 3 * 4 + 100 * 10e-6 * 300, 1e-9);
  deadline.learn(m, 20);
  EXPECT_EQ(deadline.seconds(), 30);
}

TEST(IsolationDisk, AFullDiskStopsTheSweepAndKeepsItsRows) {
  if (testing::kThreadSanitized) GTEST_SKIP() << "needs a program without thread sanitizer";
  const fs::path folder = fresh_folder("isolation_full");
  const std::string sweep = host_sweep(folder, "{from: 8, to: 128, step: 4}", "1");
  // 8 blocks of 1024 bytes: some rows fit.
  const auto ended =
      run_shell("bash -c \"trap '' XFSZ; ulimit -f 8; {} tune " + sweep + " --out " + folder.string() + "\"");
  EXPECT_EQ(ended.code, 1) << ended.text;
  EXPECT_NE(ended.text.find("cannot be written: File too large"), std::string::npos) << ended.text;
  const auto before = first_rows(read_csv(folder / "host" / "sweep.csv"));  // throws if a row is incomplete
  EXPECT_GT(before.size(), 3u);
  EXPECT_LT(before.size(), 62u);
  const auto again = run_shell("{} tune " + sweep + " --out " + folder.string());
  EXPECT_EQ(again.code, 0) << again.text;
  const auto rows = first_rows(read_csv(folder / "host" / "sweep.csv"));
  EXPECT_EQ(testing::statuses(rows).size(), 62u);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(rows[i], before[i]);
}

TEST(IsolationDisk, NothingIsMeasuredIfNothingCanBeWritten) {
  if (testing::kThreadSanitized) GTEST_SKIP() << "needs a program without thread sanitizer";
  const fs::path folder = fresh_folder("isolation_readonly");
  const std::string sweep = host_sweep(folder, "8");
  const auto full =
      run_shell("bash -c \"trap '' XFSZ; ulimit -f 0; {} tune " + sweep + " --out " + folder.string() + "\"");
  EXPECT_EQ(full.code, 2) << full.text;
  EXPECT_NE(full.text.find("cannot be written: File too large"), std::string::npos) << full.text;

  fs::create_directories(folder / "locked");
  fs::permissions(folder / "locked", fs::perms::owner_read | fs::perms::owner_exec);
  // Root can write anywhere except to a file system without space for files.
  const std::string out = ::geteuid() == 0 ? "/proc/locked" : (folder / "locked").string();
  const auto locked = run_shell("{} tune " + sweep + " --out " + out);
  EXPECT_EQ(locked.code, 2) << locked.text;
  EXPECT_NE(locked.text.find("cannot be made"), std::string::npos) << locked.text;
  fs::permissions(folder / "locked", fs::perms::owner_all);
}

#if WARPTUNE_HAS_CUDA
TEST(IsolationCache, ACorruptedCubinIsCompiledAgain) {
  const fs::path cache = fresh_folder("isolation_cache");
  const Compiler compiler(KernelSources(std::string(SOURCE_ROOT) + "/kernels"), cache);
  const auto compile = [&] {
    return compiler.compile("rms_norm/naive.cu", "rms_norm_naive<float, 64, 32>", "sm_80");
  };
  const std::string code = compile().code;
  EXPECT_TRUE(compile().from_cache);
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(cache))
    if (entry.is_regular_file()) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1u);
  std::fstream(files[0], std::ios::in | std::ios::out | std::ios::binary).seekp(-9, std::ios::end) << "X";
  Cubin again = compile();
  EXPECT_FALSE(again.from_cache);
  EXPECT_EQ(again.code, code);
  fs::resize_file(files[0], fs::file_size(files[0]) / 2);
  EXPECT_FALSE(compile().from_cache);
  EXPECT_TRUE(compile().from_cache);
  std::ofstream(files[0]) << "{\"hash\": 1}\n";
  EXPECT_FALSE(compile().from_cache);
}
#endif

/// The kernels with one line inserted before the sum in rms_norm/naive.cu.
std::string kernels_with(const fs::path& folder, const std::string& line) {
  fs::copy(std::string(SOURCE_ROOT) + "/kernels", folder / "kernels", fs::copy_options::recursive);
  const fs::path file = folder / "kernels" / "rms_norm" / "naive.cu";
  std::string source = text_of(file);
  source.insert(source.find("  float sum = 0;"), "  " + line + "\n");
  std::ofstream(file) << source;
  return (folder / "kernels").string();
}

void gpu_fault(const std::string& name, const std::string& line, const std::string& status) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const fs::path folder = fresh_folder(name), sweep = folder / "sweep.yaml";
  std::ofstream(sweep) << "device: cuda:0\nops:\n  - op: rms_norm\n    dtypes: fp32\n    problems: [{tokens: "
                          "8, hidden: 1024}]\n    variants: [naive: {parameters: {block: [64, 128, 256]}}, "
                          "vectorized: {parameters: {block: [128, 256], rows: [1], vec: [4]}}]\n";
  const auto ended = run_shell("WARPTUNE_KERNELS=" + kernels_with(folder, line) + " {} tune " +
                               sweep.string() + " --deadline 4 --out " + folder.string());
  EXPECT_EQ(ended.code, 0) << ended.text;
  int bad = 0, good = 0;
  for (const auto& device : fs::directory_iterator(folder))
    if (fs::exists(device.path() / "sweep.csv"))
      for (const auto& row : first_rows(read_csv(device.path() / "sweep.csv"))) {
        const bool is_bad = row.at("variant") == "naive" && row.at("config") == "block=128";
        EXPECT_EQ(row.at("status"), is_bad ? status : "ok") << row.at("variant") << " " << row.at("detail");
        EXPECT_TRUE(!is_bad || !row.at("detail").empty());
        ++(is_bad ? bad : good);
      }
  EXPECT_EQ(bad, 1);
  EXPECT_GT(good, 3);
}

TEST(GpuIsolation, EndlessKernel) {
  gpu_fault("isolation_gpu_loop", "if constexpr (kBlock == 128) for (;;) __nanosleep(1000);", "timeout");
}

TEST(GpuIsolation, IllegalAddress) {
  gpu_fault("isolation_gpu_segv", "if constexpr (kBlock == 128) *(volatile int*)8 = 1;", "launch_error");
}

TEST(GpuIsolation, Trap) {
  gpu_fault("isolation_gpu_trap", "if constexpr (kBlock == 128) __trap();", "launch_error");
}

}  // namespace
}  // namespace warptune
