// The op attention_prefill by itself: legal combinations of features, keys, arguments, cost and dropout.
#include <string>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/philox.h"
#include "kernels/attention_prefill/args.h"
#include "tests/attention_dims.h"
#include "tests/support.h"

namespace warptune::testing {
namespace {

std::string prefill_error(const Dims& more) {
  try {
    find_op("attention_prefill").op.problem(shape(1, 8, 8, 4, 2, 64, more), DType::bf16);
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

TEST(AttentionPrefillOp, IllegalCombinationsAreOneSentence) {
  EXPECT_EQ(prefill_error({{"window", "4"}, {"causal", "no"}}),
            "attention_prefill: window (4) needs causal=yes, causal=top_left or causal=offset");
  EXPECT_EQ(prefill_error({{"diagonal", "-4"}}), "attention_prefill: diagonal (-4) needs causal=offset");
  EXPECT_EQ(prefill_error({{"causal", "offset"}, {"diagonal", "1073741825"}}),
            "attention_prefill: diagonal (1073741825) must be at most 2^30");
  EXPECT_EQ(prefill_error({{"k_layout", "dsx"}, {"kv_layout", "packed"}}),
            "attention_prefill: k_layout=dsx needs kv_layout=cache");
  EXPECT_EQ(prefill_error({{"k_layout", "dsx"}, {"head_dim", "20"}}),
            "attention_prefill: head_dim (20) must be a multiple of 8, the elements of 16 bytes, for "
            "k_layout=dsx");
  EXPECT_EQ(prefill_error({{"kv_layout", "qkv"}, {"kv_len", "9"}}),
            "attention_prefill: kv_len (9) must be q_len (8) with kv_layout=qkv, whose keys are those of its "
            "queries");
  EXPECT_EQ(prefill_error({{"kv_layout", "qkv"}, {"head_dim_v", "32"}}),
            "attention_prefill: head_dim_v (32) must be head_dim (64) with kv_layout=qkv");
  EXPECT_EQ(prefill_error({{"kv_layout", "qkv"}, {"q_stride", "512"}}),
            "attention_prefill: q_stride must be 0 with kv_layout=qkv, which has one row length");
  EXPECT_EQ(prefill_error({{"bias_shape", "batch"}}),
            "attention_prefill: bias_shape needs score_bias=additive");
  EXPECT_EQ(prefill_error({{"q_heads", "5"}}),
            "attention_prefill: q_heads (5) must be a multiple of kv_heads (2)");
  EXPECT_EQ(prefill_error({{"batch", "65536"}}),
            "attention_prefill: batch * q_heads (262144) must be at most 65535");
  EXPECT_EQ(prefill_error({{"kv_len", "1073741825"}}),
            "attention_prefill: batch * q_len (8) and kv_len (1073741825) must be at most 2^30");
  EXPECT_EQ(prefill_error({{"dropout", "100"}}),
            "attention_prefill: dropout (100) is in percent and must be below 100");
  EXPECT_EQ(prefill_error({{"precision", "tf32"}}),
            "attention_prefill: precision=tf32 needs dtype=fp32, not bf16");
  EXPECT_EQ(prefill_error({{"page_size", "24"}}),
            "attention_prefill: page_size (24) must be 0 or a power of two from 16 to 256");
  EXPECT_EQ(prefill_error({{"page_size", "512"}}),
            "attention_prefill: page_size (512) must be 0 or a power of two from 16 to 256");
  EXPECT_EQ(prefill_error({{"page_size", "16"}, {"kv_layout", "packed"}}),
            "attention_prefill: page_size (16) needs kv_layout=cache");
  EXPECT_EQ(prefill_error({{"q_stride", "128"}}),
            "attention_prefill: q_stride (128) is below the 256 elements of a row");
  EXPECT_EQ(
      prefill_error({{"q_stride", "260"}}),
      "attention_prefill: q_stride (260) must be a multiple of 8 elements, as head_dim is, for rows to stay "
      "aligned");
}

TEST(AttentionPrefillOp, KeysOfProblemsWithoutFeaturesStay) {
  const Op& op = find_op("attention_prefill").op;
  EXPECT_EQ(
      op.problem(shape(1, 8, 8, 4, 2, 64), DType::bf16).key(),
      "attention_prefill[batch=1,q_len=8,kv_len=8,q_heads=4,kv_heads=2,head_dim=64,causal=yes,uneven=no,"
      "dtype=bf16]");
  EXPECT_EQ(
      op.problem(shape(1, 8, 8, 4, 2, 64, {{"causal", "offset"}, {"diagonal", "-5"}}), DType::bf16).key(),
      "attention_prefill[batch=1,q_len=8,kv_len=8,q_heads=4,kv_heads=2,head_dim=64,causal=offset,uneven=no,"
      "diagonal=-5,dtype=bf16]");
}

/// K and V of the projection lie behind q in each row.
TEST(AttentionPrefillOp, QkvIsOneTensor) {
  const Op& op = find_op("attention_prefill").op;
  const Problem p = op.problem(shape(2, 8, 8, 4, 2, 64, {{"kv_layout", "qkv"}}), DType::bf16);
  const auto specs = op.tensors(p, 0);
  EXPECT_EQ(specs.at(0).shape, (std::vector<std::int64_t>{16, 8 * 64}));
  EXPECT_EQ(specs.at(1).name, "cu_seqlens");
  std::vector<char> memory(2 * 8 * 64);
  std::vector<void*> addresses(specs.size(), memory.data());
  const Args bound = op.bind(p, addresses, nullptr);
  const auto& args = *static_cast<const StridedAttentionPrefillArgs*>(bound.data());
  EXPECT_EQ(args.q, memory.data());
  EXPECT_EQ(args.k_cache, memory.data() + 2 * 4 * 64);
  EXPECT_EQ(args.v_cache, memory.data() + 2 * 6 * 64);
  EXPECT_EQ(args.q_stride, 8 * 64);
  EXPECT_EQ(args.k_strides.row, 8 * 64);
  EXPECT_EQ(args.v_strides.head, 64);
}

TEST(AttentionPrefillOp, CostFollowsTheFeatures) {
  const Op& op = find_op("attention_prefill").op;
  const auto cost = [&](const Dims& dims) { return op.cost(op.problem(dims, DType::bf16)); };
  EXPECT_EQ(cost(shape(1, 4, 4, 1, 1, 1, {{"window", "2"}})).flops, 4.0 * (1 + 2 + 2 + 2));
  EXPECT_EQ(cost(shape(1, 2, 9, 1, 1, 1, {{"window", "2"}})).bytes, 2.0 * 2 * (2 + 3));  // keys 6 to 8
  EXPECT_EQ(cost(shape(1, 2, 9, 1, 1, 1, {{"causal", "top_left"}})).flops, 4.0 * (1 + 2));
  EXPECT_EQ(cost(shape(1, 2, 9, 1, 1, 1, {{"causal", "top_left"}})).bytes, 2.0 * 2 * (2 + 2));
  EXPECT_EQ(cost(shape(1, 4, 4, 1, 1, 1, {{"head_dim_v", "3"}})).flops, 2.0 * 4 * 10);
  const double plain = cost(shape(2, 4, 4, 3, 1, 8)).bytes;
  EXPECT_EQ(cost(shape(2, 4, 4, 3, 1, 8, {{"score_bias", "additive"}})).bytes, plain + 2 * 3 * 10);
  EXPECT_EQ(cost(shape(2, 4, 4, 3, 1, 8, {{"score_bias", "additive"}, {"bias_shape", "batch_heads"}})).bytes,
            plain + 2 * 2 * 3 * 10);
  EXPECT_EQ(cost(shape(2, 4, 4, 3, 1, 8, {{"score_bias", "additive"}, {"bias_shape", "batch"}})).bytes,
            plain + 2 * 2 * 10);
  EXPECT_EQ(cost(shape(1, 4, 9, 1, 1, 1, {{"causal", "offset"}, {"diagonal", "-2"}})).flops,
            4.0 * (0 + 0 + 1 + 2));
  EXPECT_EQ(cost(shape(2, 4, 4, 3, 1, 8, {{"lse", "yes"}})).bytes, plain + 4 * 2 * 3 * 32);
  const auto products = [&](const char* precision) {
    return op.cost(op.problem(shape(1, 4, 4, 1, 1, 8, {{"precision", precision}}), DType::fp32))
        .tf32_products;
  };
  EXPECT_EQ(products("ieee"), 3);
  EXPECT_EQ(products("tf32"), 1);
}

/// Each query sees one key, which dropout keeps or drops: the output is the scaled value, or zero.
TEST(AttentionPrefillOp, DropoutFollowsPhilox) {
  const Op& op = find_op("attention_prefill").op;
  const Problem p = op.problem(
      shape(2, 40, 40, 2, 1, 2, {{"window", "1"}, {"dropout", "50"}, {"head_dim_v", "1"}}), DType::fp32);
  const auto specs = op.tensors(p, 5);
  const Inputs in(specs, 5);
  const auto word = [&](std::int64_t i) {
    return static_cast<std::uint32_t>(static_cast<std::int64_t>(in["philox"][i]));
  };
  const std::int64_t b = 1, head = 1, query = 29,
                     key = query;  // row 29 is row 13 of an m16 fragment: the upper half
  const auto words =
      philox4x32_10({29 / 2, 16 / 16 * 8 + 29 % 8, 3 | word(3) << 16, word(2)}, {word(0), word(1)});
  const bool dropped = words[2 * 1 + 1] < 0x80000000u;
  Expected out;
  op.reference(p, in, (b * 40 + query) * 2 + head, out);
  const double value = in["v_cache"][b * 48 + key];
  EXPECT_EQ(out.runs().at(0).values.at(0), dropped ? 0 : 2 * value);
}

}  // namespace
}  // namespace warptune::testing
