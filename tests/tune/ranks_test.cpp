// Sweeps whose problems have ranks, on the host: each rank is a process.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "harness/device/device.h"
#include "harness/results/wisdom.h"
#include "tests/files.h"
#include "tests/program.h"
#include "tests/tune/processes.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::Ended;
using testing::first_rows;
using testing::run_shell;

constexpr const char* kSampling = "device: host\nsampling: {min_samples: 6, max_time: 0.002}\n";

class Ranks : public ::testing::Test {
 protected:
  /// A sweep with these items of `ops`.
  std::string sweep(const std::string& ops, const std::string& more = "", const std::string& name = "sweep") {
    const fs::path path = folder_ / (name + ".yaml");
    std::ofstream(path) << kSampling << more << "ops:\n" << ops;
    return path.string();
  }
  static std::string all_reduce(const std::string& bytes, const std::string& ranks = "2") {
    return "  - {op: all_reduce, dtypes: bf16, problems: [{bytes: " + bytes + ", ranks: " + ranks + "}]}\n";
  }
  Ended tune(const std::string& sweep, const std::string& options = "", const std::string& fault = "") const {
    return run_shell("WARPTUNE_WORKER_FAULT='" + fault + "' {} tune " + sweep + " --out " + folder_.string() +
                     " " + options);
  }
  testing::Rows rows(const std::string& name = "sweep") const {
    return read_csv(folder_ / "host" / (name + ".csv"));
  }
  Wisdom wisdom() const { return Wisdom::load(folder_ / "host" / "wisdom.json"); }
  /// A fault costs the row of the problem with 64 bytes, and no other row.
  void costs_one_row(const std::string& fault, const std::string& status, const std::string& detail,
                     const std::string& options = "") {
    const Ended ended = tune(sweep(all_reduce("[32, 64, 128]")), options, fault);
    EXPECT_EQ(ended.code, 1) << ended.text;
    const auto found = first_rows(rows());
    ASSERT_EQ(found.size(), 3u) << ended.text;
    for (const auto& row : found) {
      const bool is_bad = row.at("problem").find("bytes=64,") != std::string::npos;
      EXPECT_EQ(row.at("status"), is_bad ? status : "ok") << row.at("problem") << row.at("detail");
      EXPECT_TRUE(!is_bad || row.at("detail").starts_with(detail)) << row.at("detail");
    }
  }
  const fs::path folder_ = testing::fresh_folder("tune_ranks");
};

TEST_F(Ranks, ASweepTimesProblemsWithAndWithoutRanksOnTheSameProcesses) {
  const std::string file =
      sweep(all_reduce("[64, 4096]") +
                "  - {op: all_gather, dtypes: fp32, problems: [{tokens: 3, columns: 8, ranks: 2}]}\n"
                "  - {op: rms_norm, dtypes: fp32, problems: [{tokens: 8, hidden: 32}],\n"
                "     variants: [host_naive, host_threaded: {parameters: {threads: 1}}]}\n",
            "other_caches: true\n");
  const Ended dry = tune(file, "--dry-run");
  EXPECT_EQ(dry.code, 0) << dry.text;
  EXPECT_NE(dry.text.find("total of 4 problems on host"), std::string::npos) << dry.text;
  const Ended ended = tune(file);
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_NE(ended.text.find("on 2 x host (x86_64), 2 ranks"), std::string::npos) << ended.text;
  for (const auto& row : rows()) EXPECT_EQ(row.at("status"), "ok") << row.at("problem") << row.at("detail");
  EXPECT_EQ(first_rows(rows()).size(), 5u);
  EXPECT_GT(rows().size(), 6u) << "finalists, in other cache states too";
  ASSERT_EQ(wisdom().winners().size(), 4u);
  EXPECT_NE(wisdom().exact({"all_reduce", {{"bytes", 64}, {"ranks", 2}}, DType::bf16}), nullptr);

  const Ended again = tune(file);
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_NE(again.text.find("5 of them are from an earlier run"), std::string::npos) << again.text;
  const Ended more = tune(sweep(all_reduce("[64, 4096, 8192]")));
  EXPECT_NE(more.text.find("2 of them are from an earlier run"), std::string::npos) << more.text;
  EXPECT_EQ(wisdom().winners().size(), 5u);
}

TEST_F(Ranks, MissingProblemsAreTimedAndWinnersAgain) {
  ASSERT_EQ(tune(sweep(all_reduce("64"))).code, 0);
  const Ended rest = tune(sweep(all_reduce("[64, 4096]"), "missing: true\n", "rest"));
  EXPECT_EQ(rest.code, 0) << rest.text;
  ASSERT_EQ(rows("rest").size(), 1u) << rest.text;
  const fs::path recorded = folder_ / "recorded.json";
  fs::copy_file(folder_ / "host" / "wisdom.json", recorded);
  const Ended again = run_shell("{} rerun " + recorded.string() +
                                " --device host --runs 2 --name again --out " + folder_.string());
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_EQ(rows("again").size(), 4u) << again.text;
  for (const auto& row : rows("again")) EXPECT_EQ(row.at("status"), "ok") << row.at("detail");
}

TEST_F(Ranks, ADeathOfOneRankCostsOneRow) {
  costs_one_row("segv@1:bytes=64,", "crash", "rank 1: the worker died of signal 11");
}

TEST_F(Ranks, ADeathOfTheFirstRankCostsOneRow) {
  costs_one_row("abort@0:bytes=64,", "crash", "rank 0: the worker died of signal 6");
}

TEST_F(Ranks, ALostDeviceOfOneRankCostsOneRow) {
  costs_one_row("throw@1:bytes=64,", "launch_error", "rank 1: the device is lost");
}

TEST_F(Ranks, AHangOfOneRankCostsOneRow) {
  costs_one_row("loop@1:bytes=64,", "timeout", "no result within 10 seconds",
                "--first-deadline 0 --deadline 10");
}

TEST_F(Ranks, ARankThatIsKilledIsTriedAgain) {
  costs_one_row("kill@1:bytes=64,", "crash",
                "rank 1: the worker died of signal 9 (Killed); 3 workers in a row: out of memory");
}

/// A sweep of an op that each rank does alone, y = 2 x. On the host one rank does it wrong for 64
/// elements.
class OwnOp : public Ranks {
 protected:
  std::string own_sweep() {
    std::ofstream(folder_ / "twice.cu") << R"(
#ifdef __CUDACC_RTC__
__device__ bool is_wrong() { return false; }
#else
extern "C" int mkdir(const char* path, unsigned mode);
bool is_wrong() {  // on the rank that makes the folder
  static const bool makes = mkdir(")" << (folder_ / "wrong").string()
                                        << R"(", 0700) == 0;
  return makes;
}
#endif
extern "C" __global__ void twice(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i] + (n == 64 && is_wrong());
}
)";
    std::ofstream(folder_ / "twice.cpp") << R"(
extern "C" void twice(const double* const* in, double* const* out, const long long* dims, const double*) {
  for (long long i = 0; i < dims[0]; ++i) out[0][i] = 2 * in[0][i];
}
)";
    return sweep("  - {op: double, dtypes: fp32, problems: [{n: [64, 65], ranks: 2}], variants: [twice]}\n",
                 R"yaml(
ops_defined:
  - name: double
    summary: y = 2 * x on each rank
    dims: {n: elements, ranks: GPUs}
    tensors: [{name: x, shape: n}, {name: y, shape: n, role: output}]
    reference: {cpp: twice.cpp, function: twice}
kernels:
  - name: twice
    op: double
    source: twice.cu
    kernel: twice
    arguments: [x, y, n]
    launch: {grid: "ceil_div(n, 64)", block: 64}
)yaml");
  }
};

TEST_F(OwnOp, AWrongResultOfOneRankIsWrong) {
  const Ended ended = tune(own_sweep());
  EXPECT_EQ(ended.code, 1) << ended.text;
  const auto found = first_rows(rows());
  ASSERT_EQ(found.size(), 2u) << ended.text;
  EXPECT_EQ(found[0].at("status"), "wrong_result");
  EXPECT_EQ(found[0].at("detail").find("before timing: rank "), 0u) << found[0].at("detail");
  EXPECT_EQ(found[1].at("status"), "ok") << found[1].at("detail");
}

using GpuRanks = OwnOp;

TEST_F(GpuRanks, TwoGpusDoEveryJobTogether) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "fewer than two CUDA devices";
  const Ended ended = tune(own_sweep(), "--device auto", "segv@1:n=64,");
  EXPECT_EQ(ended.code, 1) << ended.text;
  EXPECT_NE(ended.text.find(", 2 ranks"), std::string::npos) << ended.text;
  EXPECT_NE(ended.text.find("2 configurations, 1 ok, 1 failed"), std::string::npos) << ended.text;
  const Ended again = tune(own_sweep(), "--device cuda:1,cuda:0 --retry crash");
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_NE(again.text.find("2 configurations, 2 ok, 0 failed"), std::string::npos) << again.text;
}

TEST_F(Ranks, AKilledProgramLeavesNoWorkerAndTheSweepResumes) {
  const std::string file = sweep(all_reduce("[32, 64, 128]"));
  ::setenv("WARPTUNE_WORKER_FAULT", "loop@1:bytes=64,", 1);
  const pid_t pid = testing::start_tune(file, folder_.string());
  ::unsetenv("WARPTUNE_WORKER_FAULT");
  const fs::path csv = folder_ / "host" / "sweep.csv";
  while (!fs::exists(csv) || testing::text_of(csv).find("bytes=32,") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const auto workers = testing::children_of(pid);
  EXPECT_EQ(workers.size(), 2u);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  for (const pid_t worker : workers)
    while (::kill(worker, 0) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const Ended ended = tune(file);
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_NE(ended.text.find("1 of them are from an earlier run"), std::string::npos) << ended.text;
  EXPECT_EQ(testing::statuses(rows()).size(), 3u);
}

TEST_F(Ranks, AStepIsTunedOnAllRanks) {
  const std::string model = std::string(TEST_DATA) + "/golden/gqa";
  const fs::path file = folder_ / "steps.yaml";
  std::ofstream(file)
      << kSampling << "dtypes: fp32\nfinalists: 2\nmodels:\n  - {model: " << model
      << ", ranks: 2, context: 64, cache: hot, max_configs: 1, ops: [all_reduce_add_rms_norm, "
         "embedding]}\nsteps:\n  - {model: "
      << model << ", ranks: 2, context: 64}\n";
  const Ended ended = tune(file.string(), "", "abort@1:step fuse_append=yes");
  EXPECT_EQ(ended.code, 0) << ended.text;
  ASSERT_EQ(wisdom().steps().size(), 1u) << ended.text;
  EXPECT_EQ(wisdom().steps().front().step.key(), "step[model=gqa,batch=1,context=64,ranks=2,dtype=fp32]");
  // An option is tried again after another has won, so there may be several such rows.
  int aborted = 0;
  for (const auto& row : rows("steps")) {
    const bool is_bad = row.at("config") == "fuse_append=yes";
    aborted += is_bad;
    EXPECT_EQ(row.at("status") != "ok", is_bad) << row.at("config");
    EXPECT_EQ(row.at("detail").starts_with("rank 1: the worker died of signal 6"), is_bad)
        << row.at("detail");
  }
  EXPECT_GE(aborted, 1) << ended.text;
}

TEST_F(Ranks, FourRanksRun) {
  const Ended ended = tune(sweep(all_reduce("64", "4")));
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_NE(ended.text.find("on 4 x host"), std::string::npos) << ended.text;
}

TEST_F(Ranks, BadInputIsOneSentence) {
  const auto refused = [&](const std::string& file, const std::string& options, const std::string& sentence) {
    const Ended ended = tune(file, options);
    EXPECT_EQ(ended.code, 2) << ended.text;
    EXPECT_NE(ended.text.find(sentence), std::string::npos) << ended.text;
  };
  const std::string good = sweep(all_reduce("64"), "", "good");
  refused(sweep(all_reduce("64", "[2, 4]")), "",
          "sweep.yaml:4: all_reduce[bytes=64,ranks=4,dtype=bf16] is for 4 ranks, "
          "all_reduce[bytes=64,ranks=2,dtype=bf16] for 2; a sweep has one number of ranks");
  refused(sweep(all_reduce("64", "9")), "", "sweep.yaml:4: dim 'ranks' of op 'all_reduce' is 9");
  refused(sweep(all_reduce("64"), "steps: [{model: llama3.2-1b, ranks: 4, context: 512}]\n"), "",
          "sweep.yaml:3: step[model=llama3.2-1b,batch=1,context=512,ranks=4,dtype=bf16] is for 4 ranks, "
          "all_reduce[bytes=64,ranks=2,dtype=bf16] for 2");
  refused(sweep(all_reduce("64"), "steps: [{model: llama3.2-1b, ranks: 3, context: 512}]\n"), "",
          "sweep.yaml:3: llama3.2-1b has 32 query heads, which 3 ranks cannot split evenly");
  refused(good, "--device cuda:0",
          "device 'cuda:0': problems of 2 ranks need 2 GPUs, one each, or a multiple");
  refused(good, "--device host,host", "device 'host' is given twice");
  refused(good, "--device cuda:90,cuda:91",
          "problems of 2 ranks need 2 devices of one kind: there is no device 'cuda:9");
}

TEST_F(Ranks, CommandsOfOneGpuRefuseThem) {
  ASSERT_EQ(tune(sweep(all_reduce("64"))).code, 0);
  const std::string known = (folder_ / "host" / "wisdom.json").string();
  const auto refused = [&](const std::string& command, const std::string& sentence) {
    const Ended ended = run_shell("{} " + command);
    EXPECT_EQ(ended.code, 2) << ended.text;
    EXPECT_NE(ended.text.find(sentence), std::string::npos) << ended.text;
  };
  refused("profile 'all_reduce[bytes=64,ranks=2,dtype=bf16]' --device host --wisdom " + known,
          "all_reduce[bytes=64,ranks=2,dtype=bf16] runs on 2 ranks; a profiler starts one");
  refused("export --arch sm_90a --wisdom " + known + " -o " + (folder_ / "exported").string(),
          "it runs on 2 ranks; exported folders hold plans of one GPU");
  refused("bench --device host --wisdom " + known,
          "skips all_reduce[bytes=64,ranks=2,dtype=bf16]: it runs on 2 ranks, bench on one GPU");
}

}  // namespace
}  // namespace warptune
