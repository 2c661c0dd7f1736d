// The ops of several ranks, on the host: each rank is a process.
#include <cstdlib>

#include "harness/core/space.h"
#include "harness/device/device.h"
#include "harness/measure/bench.h"
#include "tests/ranks.h"
#include "tests/support.h"

namespace warptune {
namespace {
using namespace testing;

void check_on_ranks(const std::string& op, Dims dims, int ranks) {
  dims.emplace_back("ranks", std::to_string(ranks));
  on_ranks(ranks, [&](const std::shared_ptr<RankGroup>& group) {
    const OwnedDevice device = open_device("host", group);
    const OpEntry& entry = find_op(op);
    for (const DType dtype : kFloats) {
      Bench bench(*device, entry, entry.op.problem(dims, dtype), {.min_samples = 2, .max_time = 0.01});
      for (const Variant& variant : entry.variants) {
        if (!variant.runs(bench.problem(), Backend::host)) continue;
        const Measurement m = bench.run(variant, {});
        EXPECT_EQ(m.status, Status::ok) << variant.name << ": " << m.detail;
        const auto times = group->all_gather(m.time_us);
        for (const double us : times) EXPECT_EQ(us, m.time_us) << "the time of a row is that of all ranks";
      }
    }
  });
}

/// Configurations of every variant on problems of all ops of ranks, on this rank of a group.
void check_gpu_rank(const std::shared_ptr<RankGroup>& group) {
  const std::string ranks = std::to_string(group->ranks());
  const std::vector<std::pair<std::string, Dims>> problems = {
      {"all_reduce", {{"bytes", "16"}}},
      {"all_reduce", {{"bytes", "8208"}}},
      {"all_reduce", {{"bytes", "65536"}}},
      {"all_reduce", {{"bytes", "1048576"}}},
      {"all_reduce_add_rms_norm", {{"tokens", "1"}, {"hidden", "4096"}}},
      {"all_reduce_add_rms_norm", {{"tokens", "9"}, {"hidden", "1032"}}},
      {"all_gather", {{"tokens", "1"}, {"columns", "16000"}}},
      {"all_gather", {{"tokens", "3"}, {"columns", "1000"}}}};
  const OwnedDevice device = open_device("cuda:" + std::to_string(group->rank()), group);
  for (auto [op, dims] : problems)
    for (const DType dtype : kFloats) {
      dims.emplace_back("ranks", ranks);
      const OpEntry& entry = find_op(op);
      Bench bench(*device, entry, entry.op.problem(dims, dtype), {.min_samples = 2, .max_time = 0.002});
      dims.pop_back();
      for (const Variant& variant : entry.variants) {
        if (!variant.runs(bench.problem(), Backend::cuda) || !takes(variant, dtype)) continue;
        for (const Config& config : spread(Space(variant, bench.problem(), device->facts()).configs(), 6)) {
          const Measurement m = bench.run(variant, config);
          EXPECT_EQ(m.status, Status::ok)
              << bench.problem().key() << " " << variant.name << " " << config.str() << ": " << m.detail;
        }
      }
    }
}

// A process of its own for each rank, since CUDA does not outlive a fork.
TEST(AllReduceGpu, VariantsAreRightOnTwoGpus) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "there are not two GPUs";
  const std::string name = group_name();
  const auto codes = run_processes(2, [&](int rank) {
    ::setenv("WARPTUNE_RANK", std::to_string(rank).c_str(), 1);
    ::setenv("WARPTUNE_GROUP", name.c_str(), 1);
    ::execl("/proc/self/exe", "ops_test", "--gtest_filter=AllReduceGpu.DISABLED_OneRank",
            "--gtest_also_run_disabled_tests", nullptr);
    return 127;
  });
  EXPECT_EQ(codes, std::vector<int>(2, 0));
}
TEST(AllReduceGpu, DISABLED_OneRank) {
  check_gpu_rank(
      std::make_shared<RankGroup>(std::getenv("WARPTUNE_GROUP"), std::atoi(std::getenv("WARPTUNE_RANK")), 2));
}

TEST(AllReduce, HostVariantsAreRight) {
  check_on_ranks("all_reduce", {{"bytes", "16"}}, 2);
  check_on_ranks("all_reduce", {{"bytes", "24000"}}, 3);
  check_on_ranks("all_reduce", {{"bytes", "65536"}}, 2);
}

TEST(AllReduceAddRmsNorm, HostVariantsAreRight) {
  check_on_ranks("all_reduce_add_rms_norm", {{"tokens", "1"}, {"hidden", "4096"}}, 2);
  check_on_ranks("all_reduce_add_rms_norm", {{"tokens", "5"}, {"hidden", "24"}}, 4);
}

TEST(AllGather, HostVariantsAreRight) {
  check_on_ranks("all_gather", {{"tokens", "1"}, {"columns", "8"}}, 2);
  check_on_ranks("all_gather", {{"tokens", "3"}, {"columns", "1000"}}, 3);
}

TEST(AllReduce, CudaVariantsCompile) {
  check_compiles("all_reduce", {{"bytes", "8208"}, {"ranks", "2"}}, kFloats);
  check_compiles("all_reduce", {{"bytes", "65536"}, {"ranks", "8"}}, kFloats);
  check_compiles("all_reduce_add_rms_norm", {{"tokens", "3"}, {"hidden", "4096"}, {"ranks", "2"}}, kFloats);
  check_compiles("all_reduce_add_rms_norm", {{"tokens", "8"}, {"hidden", "8192"}, {"ranks", "4"}}, kFloats);
  check_compiles("all_gather", {{"tokens", "2"}, {"columns", "16000"}, {"ranks", "2"}}, kFloats);
}

TEST(AllReduce, ADeviceAloneRefusesIt) {
  const OwnedDevice device = open_device("host");
  const OpEntry& entry = find_op("all_reduce");
  const Problem problem = entry.op.problem({{"bytes", 64}, {"ranks", 2}}, DType::fp32);
  try {
    device->prepare(entry.variant("host_naive"), problem, {});
    FAIL();
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(),
                 "all_reduce[bytes=64,ranks=2,dtype=fp32] is for 2 ranks, one device each; here 1 is one");
  }
}

}  // namespace
}  // namespace warptune
