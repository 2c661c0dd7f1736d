#include <set>

#include "core/error.h"
#include "core/space.h"
#include "support.h"

namespace warptune::testing {
namespace {

Dims dims(int batch, int q_heads, int kv_heads, int head_dim, int context, Dims more = {}) {
  Dims d{{"batch", std::to_string(batch)},
         {"q_heads", std::to_string(q_heads)},
         {"kv_heads", std::to_string(kv_heads)},
         {"head_dim", std::to_string(head_dim)},
         {"context", std::to_string(context)}};
  d.insert(d.end(), more.begin(), more.end());
  return d;
}
const std::pair<std::string, std::string> kUneven{"uneven", "yes"}, kDsx{"k_layout", "dsx"},
    kAppend{"append", "yes"}, kBias{"bias", "yes"};

class AttentionDecode : public ::testing::TestWithParam<Dims> {};
class AttentionDecodeCompiles : public ::testing::TestWithParam<Dims> {};
class GpuAttentionDecode : public ::testing::TestWithParam<Dims> {};

TEST_P(AttentionDecode, HostVariantsMatchTheReference) {
  check_host_variants("attention_decode", GetParam(), kFloats);
}
TEST_P(AttentionDecodeCompiles, CudaVariantsCompile) {
  check_compiles("attention_decode", GetParam(), kFloats, 2);
}
TEST_P(GpuAttentionDecode, CudaVariantsMatchTheReference) {
  check_cuda_variants("attention_decode", GetParam(), kFloats);
}

// Contexts around and beyond block and tile sizes, and shorter than the number of splits.
const auto kContexts = ::testing::Values(dims(1, 2, 2, 64, 1), dims(2, 2, 1, 64, 2), dims(1, 2, 1, 128, 17),
                                         dims(1, 4, 2, 128, 255), dims(3, 2, 2, 64, 256),
                                         dims(1, 4, 1, 64, 1000), dims(1, 2, 1, 128, 4097));
const auto kHeadDims = ::testing::Values(dims(1, 4, 2, 64, 77), dims(1, 4, 2, 80, 77), dims(1, 4, 2, 96, 77),
                                         dims(1, 4, 2, 128, 77), dims(1, 4, 2, 256, 77));
const auto kGroups =
    ::testing::Values(dims(2, 2, 2, 64, 150), dims(2, 4, 2, 64, 150), dims(2, 6, 2, 64, 150),
                      dims(2, 8, 2, 64, 150), dims(2, 10, 2, 64, 150), dims(2, 12, 2, 64, 150),
                      dims(2, 14, 2, 128, 150), dims(2, 16, 2, 64, 150), dims(1, 16, 1, 64, 150));
const auto kUnevenLengths =
    ::testing::Values(dims(9, 4, 2, 64, 301, {kUneven}), dims(1, 8, 1, 128, 50, {kUneven}),
                      dims(5, 2, 2, 128, 40, {kUneven, kDsx}));
const auto kLayouts = ::testing::Values(dims(2, 4, 2, 64, 150, {kDsx}), dims(1, 4, 1, 128, 1000, {kDsx}),
                                        dims(1, 2, 2, 80, 33, {kDsx}));
const auto kAppends = ::testing::Values(
    dims(1, 4, 2, 64, 1, {kAppend}), dims(2, 4, 2, 64, 17, {kAppend, kBias}),
    dims(5, 4, 1, 128, 300, {kAppend, kBias, kUneven}), dims(4, 8, 1, 80, 65, {kAppend, kUneven, kDsx}),
    dims(1, 7, 1, 96, 129, {kAppend, kBias, kDsx}), dims(1, 2, 2, 256, 1000, {kAppend}));
// Rows that are not whole 16 bytes: only the scalar variants take them.
const auto kOddHeads = ::testing::Values(dims(2, 3, 1, 6, 40, {kUneven}), dims(1, 2, 2, 50, 100));

#define WARPTUNE_SHAPES(name)                                           \
  INSTANTIATE_TEST_SUITE_P(name, AttentionDecode, k##name, shape_name); \
  INSTANTIATE_TEST_SUITE_P(name, GpuAttentionDecode, k##name, shape_name)
WARPTUNE_SHAPES(Contexts);
WARPTUNE_SHAPES(HeadDims);
WARPTUNE_SHAPES(Groups);
WARPTUNE_SHAPES(UnevenLengths);
WARPTUNE_SHAPES(Layouts);
WARPTUNE_SHAPES(Appends);
WARPTUNE_SHAPES(OddHeads);
#undef WARPTUNE_SHAPES
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionDecodeCompiles,
                         ::testing::Values(dims(1, 32, 8, 128, 4096), dims(2, 14, 2, 80, 150, {kDsx}),
                                           dims(2, 8, 1, 128, 300, {kAppend, kBias})),
                         shape_name);

TEST(AttentionDecodeOp, RejectsContradictoryDims) {
  const Op& op = find_op("attention_decode").op;
  EXPECT_THROW(op.problem(dims(1, 3, 2, 64, 1), DType::bf16), InputError);
  EXPECT_THROW(op.problem(dims(1, 2, 2, 63, 1), DType::bf16), InputError);
  EXPECT_THROW(op.problem(dims(1, 2, 2, 12, 1, {kDsx}), DType::bf16), InputError);
  EXPECT_THROW(op.problem(dims(1, 2, 2, 64, 1, {kBias}), DType::bf16), InputError);
}

TEST(AttentionDecodeOp, UnevenLengthsHoldAllKindsForEverySeed) {
  const Op& op = find_op("attention_decode").op;
  const Problem p = op.problem(dims(8, 2, 2, 64, 100, {kUneven}), DType::bf16);
  for (const std::uint64_t seed : {0u, 1u, 7u}) {
    const std::vector<std::int32_t> lengths = op.tensors(p, seed)[3].values;
    const std::set<int> kinds(lengths.begin(), lengths.end());
    EXPECT_TRUE(kinds.contains(0) && kinds.contains(1) && kinds.contains(100));
    EXPECT_EQ(*kinds.rbegin(), 100);
  }
}

TEST(AttentionDecodeOp, SpacesAreOfAReasonableSize) {
  const OpEntry& entry = find_op("attention_decode");
  const DeviceFacts facts = known_device("sm_90a");
  for (const Dims& d : {dims(1, 32, 32, 128, 256), dims(1, 32, 32, 128, 4096), dims(1, 32, 8, 128, 32768),
                        dims(1, 64, 8, 128, 131072), dims(64, 32, 8, 128, 4096), dims(1, 14, 2, 64, 1000)}) {
    const Problem p = entry.op.problem(d, DType::bf16);
    for (const Variant& v : entry.variants) {
      if (v.backend == Backend::host) continue;
      const auto n = Space(v, p, facts).configs().size();
      EXPECT_GE(n, 2u) << p.key() << " " << v.name;
      EXPECT_LE(n, 300u) << p.key() << " " << v.name;
    }
  }
}

}  // namespace
}  // namespace warptune::testing
