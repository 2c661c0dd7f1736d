#include "harness/exchange/aic.h"

#include <gtest/gtest.h>

#include "variants/table.h"

namespace warptune {
namespace {

Wisdom wisdom_of(const std::vector<std::pair<std::string, std::string>>& problems) {
  Wisdom wisdom({.device = "NVIDIA H200"});
  for (const auto& [op, dims] : problems)
    wisdom.put({.problem = find_op(op).op.problem(parse_pairs(dims), DType::bf16),
                .variant = "best",
                .config = {},
                .time_us = 12.5,
                .source_hash = {},
                .run_id = {},
                .csv = {},
                .made_on = {.device = "NVIDIA H200"}});
  return wisdom;
}

/// The rows of a table without the columns that all have.
std::vector<std::string> rows_of(const std::string& table) {
  std::vector<std::string> rows;
  std::istringstream in(table);
  for (std::string line; std::getline(in, line);) {
    std::size_t at = 0;
    for (int comma = 0; comma < 5; ++comma) at = line.find(',', at) + 1;
    rows.push_back(line.substr(at));
  }
  return rows;
}

TEST(Aic, WritesAFilePerOp) {
  const auto tables = aic_tables(
      ops(),
      wisdom_of({{"linear", "tokens=8,in=4096,out=12288"},
                 {"linear", "tokens=1,in=128,out=32,weights=int4,group=128"},
                 {"linear", "tokens=1,in=64,out=32,epilogue=swiglu"},
                 {"attention_decode", "batch=2,q_heads=32,kv_heads=8,head_dim=128,context=512,append=yes"},
                 {"attention_prefill", "batch=1,q_len=96,kv_len=96,q_heads=4,kv_heads=4,head_dim=64"},
                 {"attention_prefill", "batch=1,q_len=8,kv_len=96,q_heads=4,kv_heads=4,head_dim=64"},
                 {"all_reduce", "bytes=16384,ranks=2"},
                 {"rms_norm", "tokens=1,hidden=4096"}}));
  EXPECT_EQ(tables.size(), 4u);
  EXPECT_EQ(rows_of(tables.at("gemm_perf.txt")),
            (std::vector<std::string>{"gemm_dtype,m,n,k,latency", "bfloat16,8,12288,4096,0.0125",
                                      "int4_wo,1,32,128,0.0125"}));
  EXPECT_EQ(rows_of(tables.at("generation_attention_perf.txt")).at(1),
            "2,1,32,8,128,1,bfloat16,bfloat16,511,0,0.0125");
  EXPECT_EQ(rows_of(tables.at("context_attention_perf.txt")).size(), 2u) << "only whole prompts";
  EXPECT_EQ(rows_of(tables.at("custom_allreduce_perf.txt")).at(1), "bfloat16,2,8192,0.0125") << "elements";
  EXPECT_TRUE(
      tables.at("gemm_perf.txt")
          .starts_with("framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\nwarptune,"));
}

}  // namespace
}  // namespace warptune
