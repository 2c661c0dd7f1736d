#include <algorithm>
#include <cstdlib>
#include <set>

#include "harness/core/error.h"
#include "harness/core/space.h"
#include "harness/device/device.h"
#include "tests/attention_dims.h"
#include "tests/support.h"

namespace warptune::testing {
namespace {

const std::pair<std::string, std::string> kUneven{"uneven", "yes"};

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
const auto kContexts = ::testing::Values(
    dims(1, 2, 2, 64, 1), dims(2, 2, 1, 64, 2), dims(1, 2, 1, 128, 17), dims(1, 4, 2, 128, 255),
    dims(3, 2, 2, 64, 256), dims(1, 4, 1, 64, 1000), dims(1, 2, 1, 128, 4097), dims(1, 1, 1, 64, 20000));
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
// Rotations of the append. With dynamic_ntk, theta grows in the longest sequence, not in those of one key.
const auto kRotations = ::testing::Values(
    dims(2, 4, 2, 64, 17, {kAppend, kInterleaved}), dims(1, 2, 2, 64, 1, {kAppend, kInterleaved}),
    dims(5, 4, 1, 128, 300, {kAppend, kBias, kUneven, kInterleaved}),
    dims(4, 4, 2, 64, 150, {kAppend, kUneven, kDynamicNtk}),
    dims(5, 8, 1, 80, 65, {kAppend, kUneven, kDsx, kDynamicNtk}),
    dims(2, 2, 2, 256, 1000, {kAppend, kInterleaved, kDynamicNtk}),
    dims(6, 8, 2, 128, 4000, {kAppend, kBias, kUneven, kInterleaved, kDynamicNtk}),
    dims(1, 2, 1, 128, 70, {kAppend, {"scaling", "linear"}}),
    dims(1, 2, 1, 128, 70, {kAppend, {"scaling", "llama3"}, kInterleaved}));
// Heads of q and k that are normalized first; groups and head sizes that lanes share evenly or not.
const auto kNorms = ::testing::Values(
    dims(1, 2, 2, 64, 1, {kAppend, kNorm}), dims(1, 16, 8, 128, 1000, {kAppend, kNorm}),
    dims(5, 4, 1, 128, 300, {kAppend, kBias, kUneven, kNorm}),
    dims(1, 7, 1, 96, 129, {kAppend, kBias, kNorm}), dims(4, 8, 1, 80, 65, {kAppend, kUneven, kDsx, kNorm}),
    dims(2, 2, 1, 192, 77, {kAppend, kNorm}),
    dims(2, 6, 2, 256, 1000, {kAppend, kInterleaved, kDynamicNtk, kNorm}),
    dims(80, 4, 2, 128, 40, {kAppend, kUneven, kNorm}),
    dims(1, 12, 2, 64, 300, {kAppend, kNorm, kProject, {"hidden", "160"}}));
// The output projection; rows of 256, 768, 1024 and 2048 elements, which warps share evenly or not.
const auto kProjections =
    ::testing::Values(dims(1, 4, 2, 64, 1, {kAppend, kProject, {"hidden", "64"}}),
                      dims(1, 12, 2, 64, 300, {kAppend, kProject, {"hidden", "160"}}),
                      dims(1, 8, 1, 128, 77, {kAppend, kBias, kInterleaved, kProject, {"hidden", "96"}}),
                      dims(1, 32, 4, 64, 1000, {kAppend, kProject, {"hidden", "2048"}}),
                      dims(5, 4, 2, 64, 150, {kAppend, kUneven, kDsx, kProject, {"hidden", "41"}}));
// More work tiles than a GPU has SMs: persistent blocks fetch from the dynamic tile scheduler.
const auto kManyWorkTiles =
    ::testing::Values(dims(90, 4, 2, 64, 130, {kUneven}), dims(150, 2, 1, 128, 70, {kUneven}),
                      dims(80, 4, 2, 128, 40, {kAppend, kBias, kUneven}));
// Rows that are not a multiple of 16 bytes: only the scalar variants take them.
const auto kOddHeads = ::testing::Values(dims(2, 3, 1, 6, 40, {kUneven}), dims(1, 2, 2, 50, 100));

#define WARPTUNE_SHAPES(name)                                           \
  INSTANTIATE_TEST_SUITE_P(name, AttentionDecode, k##name, shape_name); \
  INSTANTIATE_TEST_SUITE_P(name, GpuAttentionDecode, k##name, shape_name)
WARPTUNE_SHAPES(Contexts);
WARPTUNE_SHAPES(HeadDims);
WARPTUNE_SHAPES(Groups);
WARPTUNE_SHAPES(UnevenLengths);
WARPTUNE_SHAPES(ManyWorkTiles);
WARPTUNE_SHAPES(Layouts);
WARPTUNE_SHAPES(Appends);
WARPTUNE_SHAPES(Rotations);
WARPTUNE_SHAPES(Norms);
WARPTUNE_SHAPES(Projections);
WARPTUNE_SHAPES(OddHeads);
#undef WARPTUNE_SHAPES
INSTANTIATE_TEST_SUITE_P(Norms, AttentionDecodeCompiles, kNorms, shape_name);
INSTANTIATE_TEST_SUITE_P(Projections, AttentionDecodeCompiles, kProjections, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionDecodeCompiles,
                         ::testing::Values(dims(1, 32, 8, 128, 4096), dims(2, 14, 2, 80, 150, {kDsx}),
                                           dims(2, 8, 1, 128, 300, {kAppend, kBias}),
                                           dims(2, 8, 1, 128, 300, {kAppend, kInterleaved, kDynamicNtk}),
                                           dims(2, 4, 4, 128, 300, {kAppend, kInterleaved, kDynamicNtk})),
                         shape_name);

/// Every score is near -300: with a maximum that begins at 0 all weights would underflow.
OpEntry far_below_zero() {
  OpEntry entry =
      with_input(find_op("attention_decode"), "q", [](const Problem&, std::int64_t) { return 4.0f; });
  entry = with_input(entry, "k_cache", [](const Problem&, std::int64_t i) {
    return -8.0f - 0.25f * static_cast<float>(i * 7 % 11);
  });
  return with_tolerance(entry, {.rel_l2 = 2e-2, .max_rel = 2e-2});
}
/// Scores are 512, 512.25 and 512.5, which are equal in 16 bits.
OpEntry close_scores() {
  OpEntry entry = with_input(find_op("attention_decode"), "q", [](const Problem& p, std::int64_t i) {
    return i % p["head_dim"] == 0 ? 64.0f : i % p["head_dim"] == 1 ? 1.0f : 0.0f;
  });
  entry = with_input(entry, "k_cache", [](const Problem& p, std::int64_t i) {
    const std::int64_t d = p["head_dim"];
    return i % d == 0 ? 64.0f : i % d == 1 ? 2.0f * static_cast<float>(i / d % 3) : 0.0f;
  });
  return with_tolerance(entry, {.rel_l2 = 2e-2, .max_rel = 2e-2});
}
/// One key has weight 1: any error in the sum of weights is visible.
OpEntry exact() { return with_tolerance(find_op("attention_decode"), {.rel_l2 = 4e-7, .max_rel = 8e-7}); }
OpEntry rest_kept() { return with_rest_kept(find_op("attention_decode"), {"k_cache", "v_cache"}); }

const Dims kShort = dims(2, 4, 2, 64, 77), kOneKey = dims(2, 4, 2, 64, 1);
const Dims kPartAppended = dims(6, 4, 2, 64, 40, {kAppend, kUneven}),
           kPartAppendedDsx = dims(6, 4, 2, 64, 40, {kAppend, kUneven, kDsx});

TEST(AttentionDecodeBugs, HostScoresMayAllBeFarBelowZero) {
  check_host_variants(far_below_zero(), kShort, kFloats);
}
TEST(AttentionDecodeBugs, HostScoresKeepFp32) { check_host_variants(close_scores(), kShort, kFloats); }
TEST(AttentionDecodeBugs, HostNothingIsAddedToTheSum) { check_host_variants(exact(), kOneKey, kFp32); }
TEST(AttentionDecodeBugs, HostAppendWritesOneRow) {
  check_host_variants(rest_kept(), kPartAppended, kFloats);
  check_host_variants(rest_kept(), kPartAppendedDsx, kFloats);
}
TEST(GpuAttentionDecodeBugs, ScoresMayAllBeFarBelowZero) {
  check_cuda_variants(far_below_zero(), kShort, kFloats);
}
TEST(GpuAttentionDecodeBugs, ScoresKeepFp32) { check_cuda_variants(close_scores(), kShort, kFloats); }
TEST(GpuAttentionDecodeBugs, NothingIsAddedToTheSum) { check_cuda_variants(exact(), kOneKey, kFp32); }
TEST(GpuAttentionDecodeBugs, AppendWritesOneRow) { check_cuda_variants(rest_kept(), kPartAppended, kFloats); }
TEST(GpuAttentionDecodeBugs, AppendWritesOneRowOfTheDsxLayout) {
  check_cuda_variants(rest_kept(), kPartAppendedDsx, kFloats);
}
TEST(GpuAttentionDecodeBugs, CachesMayHoldMoreThan2To31Elements) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto device = open_device("cuda:0");
  if (device->free_bytes() < (std::size_t{16} << 30)) GTEST_SKIP() << "less than 16 GiB free";
  if (std::getenv("WARPTUNE_TEST_CONFIGS")) GTEST_SKIP() << "too long under compute-sanitizer";
  const DType dtypes[] = {DType::bf16};
  check_cuda_variants("attention_decode", dims(70, 32, 32, 128, 8192, {kAppend}), dtypes, 2);
}

/// Variants with threads_per_value, and only configurations where it differs from threads_per_key.
OpEntry separate_value_threads() {
  OpEntry entry = find_op("attention_decode");
  std::erase_if(entry.variants, [](const Variant& v) {
    return std::ranges::find(v.parameters, "threads_per_value", &Parameter::name) == v.parameters.end();
  });
  for (Variant& v : entry.variants) v.constraints.push_back("threads_per_value != threads_per_key");
  return entry;
}
// Both layouts of K, several heads per block, lanes without a vector (80 and 96), one and two vectors per
// lane, uneven lengths, the appended key, and sequences shorter and longer than a warp's tile.
const auto kSeparateValueThreads = ::testing::Values(
    dims(9, 8, 2, 128, 301, {kUneven}), dims(1, 4, 4, 64, 1000), dims(1, 8, 1, 256, 77),
    dims(9, 4, 2, 128, 301, {kUneven, kDsx}), dims(2, 4, 2, 80, 150, {kDsx}), dims(2, 6, 2, 96, 150, {kDsx}),
    dims(1, 2, 2, 64, 1, {kDsx}), dims(6, 8, 2, 128, 200, {kAppend, kBias, kUneven}),
    dims(6, 4, 2, 96, 65, {kAppend, kUneven, kDsx}), dims(1, 2, 2, 64, 1, {kAppend}));
class GpuAttentionDecodeValueThreads : public ::testing::TestWithParam<Dims> {};
TEST_P(GpuAttentionDecodeValueThreads, MatchTheReference) {
  check_cuda_variants(separate_value_threads(), GetParam(), kFloats);
}
INSTANTIATE_TEST_SUITE_P(Shapes, GpuAttentionDecodeValueThreads, kSeparateValueThreads, shape_name);

/// Variants that have the parameter, and only configurations with this value of it.
OpEntry with_value(const std::string& parameter, int value) {
  OpEntry entry = find_op("attention_decode");
  std::erase_if(entry.variants, [&](const Variant& v) {
    return std::ranges::find(v.parameters, parameter, &Parameter::name) == v.parameters.end();
  });
  for (Variant& v : entry.variants) v.constraints.push_back(parameter + " == " + std::to_string(value));
  return entry;
}
// Both layouts of K, heads whose row is no multiple of the lanes of a key, 8-bit codes, uneven lengths,
// groups of query heads and the appended key.
const auto kKeyLoads = ::testing::Values(
    dims(1, 4, 4, 128, 1000), dims(1, 4, 4, 128, 1000, {kDsx}), dims(9, 8, 2, 64, 301, {kUneven}),
    dims(9, 8, 2, 64, 301, {kUneven, kDsx}), dims(2, 4, 2, 80, 150, {kDsx}), dims(2, 6, 2, 96, 150),
    dims(6, 4, 2, 128, 200, {kAppend, kBias, kUneven, kDsx}),
    dims(3, 4, 2, 128, 200, {kDsx, {"kv_dtype", "int8"}, {"kv_scale", "token"}}));
class AttentionDecodeKeyLoads : public ::testing::TestWithParam<Dims> {};
class GpuAttentionDecodeKeyLoads : public AttentionDecodeKeyLoads {};
TEST_P(AttentionDecodeKeyLoads, OfFourBytesCompile) {
  check_compiles(with_value("key_load_bytes", 4), GetParam(), kFloats, 2);
}
TEST_P(GpuAttentionDecodeKeyLoads, OfFourBytesMatchTheReference) {
  check_cuda_variants(with_value("key_load_bytes", 4), GetParam(), kFloats);
}
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionDecodeKeyLoads, kKeyLoads, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuAttentionDecodeKeyLoads, kKeyLoads, shape_name);

const auto kAppendStores = ::testing::Values(
    dims(6, 4, 2, 64, 40, {kAppend, kUneven}), dims(6, 4, 2, 64, 40, {kAppend, kUneven, kDsx}),
    dims(2, 4, 4, 80, 150, {kAppend, kBias}),
    dims(3, 4, 2, 128, 200, {kAppend, {"kv_dtype", "fp8"}, {"kv_scale", "token"}, {"page_size", "16"}}),
    dims(3, 4, 2, 128, 200, {kAppend, kDsx, {"kv_dtype", "int8"}}));
class AttentionDecodeAppendStores : public ::testing::TestWithParam<Dims> {};
class GpuAttentionDecodeAppendStores : public AttentionDecodeAppendStores {};
TEST_P(AttentionDecodeAppendStores, OfVectorsCompile) {
  check_compiles(with_value("append_store", 1), GetParam(), kFloats, 2);
}
TEST_P(GpuAttentionDecodeAppendStores, OfVectorsWriteOneRow) {
  const OpEntry entry = with_rest_kept(with_value("append_store", 1), {"k_cache", "v_cache"});
  check_cuda_variants(entry, GetParam(), kFloats);
}
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionDecodeAppendStores, kAppendStores, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuAttentionDecodeAppendStores, kAppendStores, shape_name);

TEST(AttentionDecodeOp, RejectsContradictoryDims) {
  const Op& op = find_op("attention_decode").op;
  EXPECT_THROW(op.problem(dims(1, 3, 2, 64, 1), DType::bf16), InputError);
  EXPECT_THROW(op.problem(dims(1, 2, 2, 63, 1), DType::bf16), InputError);
  EXPECT_THROW(op.problem(dims(1, 2, 2, 12, 1, {kDsx}), DType::bf16), InputError);
  EXPECT_THROW(op.problem(dims(1, 2, 2, 64, 1, {kBias}), DType::bf16), InputError);
  EXPECT_THROW(op.problem(dims(1, 2, 2, 64, 1, {kInterleaved}), DType::bf16), InputError);
  EXPECT_THROW(op.problem(dims(1, 2, 2, 64, 1, {kDynamicNtk}), DType::bf16), InputError);
  EXPECT_THROW(op.problem(dims(1, 2, 2, 64, 1, {kNorm}), DType::bf16), InputError);
  EXPECT_THROW(op.problem(dims(1, 2, 2, 2, 1, {kAppend, kDynamicNtk}), DType::bf16), InputError);
  EXPECT_THROW(op.problem(dims(1, 2, 2, 64, 1, {kAppend, kProject}), DType::bf16), InputError);
  EXPECT_THROW(op.problem(dims(1, 2, 2, 64, 1, {kAppend, {"hidden", "64"}}), DType::bf16), InputError);
  EXPECT_THROW(op.problem(dims(1, 2, 2, 64, 1, {kProject, {"hidden", "64"}}), DType::bf16), InputError);
}

TEST(AttentionDecodeOp, UnevenLengthsIncludeAllKindsForEverySeed) {
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
      if (v.name == "mma_project") continue;                               // of projections only, below
      const bool fits = v.name != "short_context" || p["context"] <= 256;  // in shared memory
      EXPECT_GE(n, fits ? 2u : 0u) << p.key() << " " << v.name;
      EXPECT_LE(n, 420u) << p.key() << " " << v.name;
    }
  }
  const Problem projection =
      entry.op.problem(dims(1, 32, 8, 64, 512, {kAppend, kProject, {"hidden", "2048"}}), DType::bf16);
  for (const Variant& v : entry.variants) {
    if (v.backend == Backend::host) continue;
    const bool projects = Space(v, projection, facts).configs().size() >= 2;
    EXPECT_EQ(projects, v.name == "mma_project" || v.name == "vectorized") << v.name;
  }
}

}  // namespace
}  // namespace warptune::testing
