#include "harness/results/published.h"

#include <gtest/gtest.h>

#include "variants/table.h"

namespace warptune {
namespace {

std::string published(std::string_view device, const std::string& op, const std::string& dims) {
  const Op& o = find_op(op).op;
  return published_time(device, o, o.problem(parse_pairs(dims), DType::bf16).key());
}

TEST(Published, ATimeIsThatOfTheSameGpuAndShape) {
  const std::string h200 = published("NVIDIA H200", "linear", "tokens=1,in=4096,out=12288");
  EXPECT_EQ(h200, "26.35 vLLM 0.22.0");
  EXPECT_NE(h200, published("NVIDIA H100 80GB HBM3", "linear", "tokens=1,in=4096,out=12288"));
  EXPECT_EQ(published("NVIDIA H200", "linear", "tokens=3,in=4096,out=12288"), "") << "none is interpolated";
  EXPECT_EQ(published("h100-as-sm_80", "linear", "tokens=1,in=4096,out=12288"), "") << "a rehearsal";
  EXPECT_EQ(published("NVIDIA H200", "linear", "tokens=1,in=4096,out=12288,epilogue=add"), "")
      << "it computes more";
}

TEST(Published, WeightFormatsAreApart) {
  const std::string shape = "tokens=1,in=4096,out=12288";
  const auto on_h200 = [&](const std::string& weights) {
    return std::stod(published("NVIDIA H200", "linear", shape + weights));
  };
  EXPECT_EQ(on_h200(""), 26.35);
  EXPECT_EQ(on_h200(",weights=int8"), 19.14);
  EXPECT_EQ(on_h200(",weights=fp8,activations=fp8"), 17.99);
  EXPECT_EQ(on_h200(",weights=fp8,group=128,activations=fp8"), 17.71);
  EXPECT_EQ(on_h200(",weights=int4,group=128"), 14.08);
  EXPECT_EQ(on_h200(",weights=fp8"), 17.99) << "others round activations, too";
}

TEST(Published, AttentionIncludesTheAppend) {
  const std::string shape = "batch=1,q_heads=32,kv_heads=8,head_dim=128,context=4096";
  const std::string time = published("NVIDIA H100 80GB HBM3", "attention_decode", shape);
  ASSERT_NE(time, "");
  EXPECT_EQ(published("NVIDIA H100 80GB HBM3", "attention_decode", shape + ",append=yes"), time);
}

TEST(Published, HasReductionsAndPrompts) {
  EXPECT_EQ(std::stod(published("NVIDIA A100-SXM4-80GB", "all_reduce", "bytes=16384,ranks=2")), 4.89);
  EXPECT_NE(published("NVIDIA H200", "attention_prefill",
                      "batch=1,q_len=1024,kv_len=1024,q_heads=32,kv_heads=8,head_dim=128"),
            "");
}

}  // namespace
}  // namespace warptune
