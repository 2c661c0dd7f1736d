// Hardware counters: what is asked of ncu, what is read from its CSV, and what is computed beside it.
#include "harness/tune/counters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "harness/core/space.h"
#include "variants/table.h"

namespace warptune {
namespace {

TEST(Counters, ReadsEachKernelOfTheCsvOfNcu) {
  const std::string text =
      "==PROF== Connected to process 7 (/bin/warptune)\n==PROF== Disconnected from process 7\n"
      "\"ID\",\"Kernel "
      "Name\",\"dram__bytes_read.sum\",\"gpu__time_duration.sum\",\"lts__t_sector_hit_rate.pct\","
      "\"none\"\n"
      "\"\",\"\",\"byte\",\"ns\",\"%\",\"\"\n"
      "\"0\",\"void warptune::split<(int)4, (int)8>(Args)\",\"1,000,000\",\"3,000\",\"40.00\",\"n/a\"\n"
      "\"1\",\"combine\",\"500\",\"1,000\",\"80.00\",\"n/a\"\n";
  const auto kernels = parse_ncu_csv(text, {"dram__bytes_read.sum", "lts__t_sector_hit_rate.pct", "none"});
  using Values = std::map<std::string, double>;
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].kernel, "split");
  EXPECT_EQ(kernels[0].values, (Values{{"dram__bytes_read.sum", 1e6}, {"lts__t_sector_hit_rate.pct", 40}}));
  EXPECT_EQ(kernels[1].kernel, "combine");
  EXPECT_EQ(kernels[1].values, (Values{{"dram__bytes_read.sum", 500}, {"lts__t_sector_hit_rate.pct", 80}}));
  EXPECT_TRUE(parse_ncu_csv("==ERROR== no permission\n", {}).empty());
}

TEST(Counters, TheTableComparesMeasuredWithComputed) {
  const KernelCounters first{"split",
                             {{"gpu__time_duration.sum", 12500},
                              {"dram__bytes_read.sum", 3e6},
                              {"dram__bytes_write.sum", 1e6},
                              {"smsp__inst_executed.sum", 1000},
                              {"smsp__inst_issued.sum", 1100},
                              {"sm__warps_active.avg.pct_of_peak_sustained_active", 43.75},
                              {"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", 400},
                              {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", 60},
                              {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", 40}}};
  const KernelCounters second{"library", {{"gpu__time_duration.sum", 1000}}};
  std::istringstream lines(counters_text({first, second}, {{"split", 50}}, 5e6, false));
  std::string heading, row;
  std::getline(lines, heading);
  const auto words = [](const std::string& line) {
    std::istringstream split(line);
    std::vector<std::string> found;
    for (std::string word; split >> word;) found.push_back(word);
    return found;
  };
  for (std::string line; std::getline(lines, line);)
    if (line.find("split") != std::string::npos) row = line;
  // us, DRAM MB, % of the op's bytes, occupancy measured and computed, replays, conflicts.
  EXPECT_EQ(words(row),
            (std::vector<std::string>{"split", "12.50", "4.00", "80.0", "43.8", "50.0", "10.0", "25.0"}));
  EXPECT_EQ(heading.find("tensor"), std::string::npos) << "a column without values is omitted: " << heading;
}

TEST(Counters, AsksForSharedMemoryL2OccupancyIssueTensorAndDram) {
  const OpEntry& entry = find_op("rms_norm");
  const ProfileTarget target{
      .problem = entry.op.problem(Assignment{{"tokens", 1}, {"hidden", 64}}, DType::bf16),
      .variant = "naive"};
  const std::string command = shell_text(counters_command("/bin/warptune", target, default_metrics()));
  for (const char* metric :
       {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", "lts__t_sector_hit_rate.pct",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "smsp__issue_active.avg.pct_of_peak_sustained_active", "smsp__inst_issued.sum",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "dram__bytes_read.sum",
        "dram__bytes_write.sum"})
    EXPECT_NE(command.find(metric), std::string::npos) << metric;
}

TEST(Counters, ComputesTheOccupancyOfEachKernel) {
#if !WARPTUNE_HAS_CUDA
  GTEST_SKIP() << "this build compiles no kernels";
#endif
  const OpEntry& entry = find_op("rms_norm");
  const DeviceFacts facts = known_device("sm_90a");
  const Variant& variant = entry.variant("naive");
  ProfileTarget target{.problem = entry.op.problem(Assignment{{"tokens", 1}, {"hidden", 64}}, DType::bf16),
                       .variant = variant.name};
  target.config = Space(variant, target.problem, facts).configs().front();
  const Compiler compiler(KernelSources(), {});
  const auto found = computed_occupancy(ops(), compiler, target, facts);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.begin()->first, "rms_norm_naive");
  EXPECT_EQ(found.begin()->second,
            inspect(compiler, variant, target.problem, target.config, facts).occupancy_pct);
}

}  // namespace
}  // namespace warptune
