// Grids of persistent GEMMs on other devices than the one that they were chosen for: an exported launch runs
// there, and no constraint is checked.
#include <gtest/gtest.h>

#include <string>

#include "harness/core/space.h"
#include "harness/device/launch_check.h"
#include "tests/support.h"

namespace warptune {
namespace {
using testing::Dims;

Problem gemm(const std::string& out, const Dims& more = {}) {
  Dims dims = {{"tokens", "64"}, {"in", "4096"}, {"out", out}};
  dims.insert(dims.end(), more.begin(), more.end());
  return find_op("linear").op.problem(dims, DType::bf16);
}
Problem int4_gemm(const std::string& out, const std::string& epilogue = "none") {
  return gemm(out, {{"weights", "int4"}, {"group", "128"}, {"epilogue", epilogue}});
}

/// The number of blocks on a device with that many SMs of a launch that was chosen for `facts`.
std::int64_t blocks_on(DeviceFacts facts, const Variant& variant, const Problem& problem,
                       const Config& config, int sms) {
  const Launch launch = launch_of(variant, variant.stages.back(), problem, config, facts);
  facts.sms = sms;
  return launched_grid(launch, facts).x;
}

// A second group of rows would overwrite the sums that take the place of the stages.
TEST(ExportedGrid, ABlockHasOneGroupOfRows) {
  const Variant& variant = find_op("linear").variant("mma_packed_cp_async");
  const DeviceFacts facts = known_device("sm_80");
  int count = 0;
  for (const std::string epilogue : {"none", "swiglu", "add_rms"})
    for (const std::string out : {"3048", "4096", "12296", "12304"}) {
      const int alignment = epilogue == "add_rms" ? 16 : 8, rows = epilogue == "swiglu" ? 2 : 1;
      if (std::stoi(out) % alignment != 0) continue;
      const Problem problem = int4_gemm(out, epilogue);
      for (const Config& config : Space(variant, problem, facts).configs()) {
        if (config["one_group"] == 0) continue;
        for (const int sms : {20, 108, 132, 200}) {
          const std::int64_t ranges = blocks_on(facts, variant, problem, config, sms) / config["splits"];
          EXPECT_LE(alignment * ceil_div(problem["out"] / alignment, ranges) * rows, config["rows"])
              << problem.key() << ' ' << config.str() << " on " << sms << " SMs";
        }
        ++count;
      }
    }
  EXPECT_GT(count, 100);
}

// A block beyond the last group of blocks would compute rows that do not exist, and with more blocks partial
// sums would exceed the workspace.
TEST(ExportedGrid, BlocksThatSplitKAreTheSameOnEveryDevice) {
  for (const auto& [name, problem] :
       {std::pair("mma_cp_async", gemm("4096")), std::pair("mma_packed_cp_async", int4_gemm("4096"))}) {
    const Variant& variant = find_op("linear").variant(name);
    for (const int chosen_for : {14, 108}) {
      DeviceFacts facts = known_device("sm_80");
      facts.sms = chosen_for;
      int count = 0;
      for (const Config& config : Space(variant, problem, facts).configs()) {
        if (config["splits"] == 1) continue;
        const std::int64_t blocks = blocks_on(facts, variant, problem, config, chosen_for);
        EXPECT_EQ(blocks % config["splits"], 0) << name << ' ' << config.str();
        for (const int sms : {14, 42, 98, 132})
          EXPECT_EQ(blocks_on(facts, variant, problem, config, sms), blocks)
              << name << ' ' << config.str() << " on " << sms << " SMs";
        ++count;
      }
      EXPECT_GT(count, 10) << name;
    }
  }
}

}  // namespace
}  // namespace warptune
