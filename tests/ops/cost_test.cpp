#include "tests/support.h"

namespace warptune::testing {
namespace {

Cost cost_of(const std::string& op, const Dims& dims, DType dtype = DType::bf16) {
  const Op& found = find_op(op).op;
  return found.cost(found.problem(dims, dtype));
}

/// The floor of a row comes from these numbers: every needed byte once, and the arithmetic.
void expect_cost(const std::string& op, const Dims& dims, double bytes, double flops) {
  const Cost cost = cost_of(op, dims);
  EXPECT_DOUBLE_EQ(cost.bytes, bytes) << op;
  EXPECT_DOUBLE_EQ(cost.flops, flops) << op;
}

TEST(Costs, OfRowWiseOps) {
  const Dims rows = {{"tokens", "3"}, {"hidden", "64"}};
  expect_cost("rms_norm", rows, 2 * (192 + 192 + 64), 4 * 192);    // x, y, weight
  expect_cost("add_rms_norm", rows, 2 * (4 * 192 + 64), 5 * 192);  // x, residual, sum, y, weight
  expect_cost("swiglu", {{"tokens", "3"}, {"intermediate", "64"}}, 2 * 576, 5 * 192);  // gate, up, y
}

TEST(Costs, OfLinear) {
  const Dims dims = {{"tokens", "3"}, {"in", "64"}, {"out", "32"}};
  Dims biased = dims;
  biased.emplace_back("bias", "yes");
  expect_cost("linear", dims, 2 * (3 * 64 + 32 * 64 + 3 * 32), 2 * 3 * 64 * 32);
  expect_cost("linear", biased, 2 * (3 * 64 + 32 * 64 + 3 * 32 + 32), 2 * 3 * 64 * 32);
}

TEST(Costs, OfRopeAppend) {
  Dims dims = {{"tokens", "3"}, {"q_heads", "4"}, {"kv_heads", "2"}, {"head_dim", "8"}};
  // Per token qkv is read, q, k and v are written, and 8 bytes say where; 3 operations per rotated element.
  expect_cost("rope_append", dims, 3 * (2 * 64 + 2 * 64 + 8), 3 * 3 * 48);
  dims.emplace_back("bias", "yes");
  expect_cost("rope_append", dims, 3 * (2 * 64 + 2 * 64 + 8) + 2 * 64, 3 * 3 * 48);
  dims.emplace_back("kv_dtype", "int8");  // with a scale of 4 bytes per row
  expect_cost("rope_append", dims, 3 * (2 * 64 + 2 * 32 + 32 + 4 * 4 + 8) + 2 * 64, 3 * 3 * 48);
  dims.emplace_back("rotary_dim", "2");
  expect_cost("rope_append", dims, 3 * (2 * 64 + 2 * 32 + 32 + 4 * 4 + 8) + 2 * 64, 3 * 3 * 12);
  dims.emplace_back("qk_norm", "yes");  // two rows of weights, and 4 operations per element of q and k
  expect_cost("rope_append", dims, 3 * (2 * 64 + 2 * 32 + 32 + 4 * 4 + 8) + 2 * 64 + 2 * 16,
              3 * (3 * 12 + 4 * 48));
}

TEST(Costs, OfAttentionDecode) {
  Dims dims = {{"batch", "2"}, {"q_heads", "4"}, {"kv_heads", "2"}, {"head_dim", "8"}, {"context", "10"}};
  // Per sequence q, out, keys and values, and a length of 4 bytes; 4 operations per key and element of q.
  const double keys = 2 * 10 * 2 * 8;
  expect_cost("attention_decode", dims, 2 * (2 * (32 + 32 + keys) + 4), 2 * 4 * 10 * 32);
  dims.emplace_back("append", "yes");  // the new rows are read and written, and inv_freq is 4 floats
  expect_cost("attention_decode", dims, 2 * (2 * (32 + 32 + keys + 2 * 16) + 4) + 4 * 4, 2 * 4 * 10 * 32);
  dims.emplace_back("qk_norm", "yes");  // two rows of weights
  expect_cost("attention_decode", dims, 2 * (2 * (32 + 32 + keys + 2 * 16) + 4) + 4 * 4 + 2 * 16,
              2 * 4 * 10 * 32);
}

TEST(Costs, OfSoftmaxAndMask) {
  Dims dims = {{"batch", "2"}, {"q_heads", "4"}, {"q_len", "3"}, {"kv_len", "5"}, {"mask", "none"}};
  expect_cost("softmax", dims, 2 * 2 * 120, 5 * 120);
  dims.back().second = "given";
  expect_cost("softmax", dims, 2 * (2 * 120 + 30), 5 * 120);
  expect_cost("causal_mask", {{"batch", "2"}, {"max_q_len", "3"}, {"max_k_len", "5"}}, 2 * 30 + 2 * 8, 0);
}

TEST(Costs, OfPadding) {
  const Dims rows = {{"batch", "1"}, {"max_q_len", "7"}, {"hidden", "8"}};  // one sequence of the full length
  expect_cost("remove_padding", rows, 7 * (4 + 2 * 2 * 8), 0);
  expect_cost("restore_padding", rows, 2 * (7 + 7) * 8 + 4 * 2, 0);
  EXPECT_EQ(cost_of("padding_offset", {{"batch", "1"}, {"max_q_len", "7"}}, DType::int32).bytes,
            4 * (1 + 2 + 7));
}

TEST(Costs, OfEmbedding) {
  // Of a table of two rows, two ids hit 1.5 on average.
  expect_cost("embedding", {{"tokens", "2"}, {"vocab", "2"}, {"hidden", "8"}}, (1.5 + 2) * 8 * 2 + 4 * 2, 0);
}

}  // namespace
}  // namespace warptune::testing
