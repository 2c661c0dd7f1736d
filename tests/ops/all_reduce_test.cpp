// The ops of several ranks, on the host: each rank is a process.
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

TEST(AllReduce, ADeviceAloneRefusesIt) {
  const OwnedDevice device = open_device("host");
  const OpEntry& entry = find_op("all_reduce");
  const Problem problem = entry.op.problem({{"bytes", 64}}, DType::fp32);
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
