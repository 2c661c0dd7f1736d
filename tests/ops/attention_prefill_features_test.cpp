// Optional features of attention_prefill: each one by itself, some combined, and random legal combinations.
#include <algorithm>
#include <iterator>
#include <random>
#include <set>

#include "harness/core/space.h"
#include "tests/attention_dims.h"
#include "tests/support.h"

namespace warptune::testing {
namespace {

/// Each feature by itself, on sequences of uneven lengths, some of them odd or empty.
std::vector<Dims> single_features() {
  std::vector<Dims> all;
  const std::vector<Dims> features = {{{"causal", "top_left"}},
                                      {{"window", "1"}},
                                      {{"window", "23"}},
                                      {{"window", "40"}, {"causal", "top_left"}},
                                      {{"score_bias", "additive"}},
                                      {{"score_bias", "alibi"}},
                                      {{"score_bias", "alibi"}, {"causal", "no"}},
                                      {{"score_bias", "alibi"}, {"causal", "top_left"}},
                                      {{"dropout", "30"}},
                                      {{"dropout", "99"}},
                                      {{"kv_layout", "packed"}},
                                      {{"page_size", "16"}},
                                      {{"page_size", "64"}},
                                      {{"head_dim_v", "32"}},
                                      {{"head_dim_v", "128"}},
                                      {{"q_stride", "512"}},
                                      {{"lse", "yes"}},
                                      {{"lse", "yes"}, {"causal", "no"}},
                                      {{"causal", "offset"}},
                                      {{"causal", "offset"}, {"diagonal", "50"}},
                                      {{"causal", "offset"}, {"diagonal", "-21"}, {"lse", "yes"}},
                                      {{"causal", "offset"}, {"diagonal", "17"}, {"window", "23"}},
                                      {{"causal", "offset"}, {"diagonal", "9"}, {"score_bias", "alibi"}},
                                      {{"k_layout", "dsx"}},
                                      {{"k_layout", "dsx"}, {"page_size", "16"}},
                                      {{"k_layout", "dsx"}, {"page_size", "64"}},
                                      {{"kv_layout", "bshd"}},
                                      {{"kv_layout", "bshd"}, {"head_dim_v", "32"}},
                                      {{"score_bias", "additive"}, {"bias_shape", "batch_heads"}},
                                      {{"score_bias", "additive"}, {"bias_shape", "batch"}}};
  for (Dims feature : features) {
    feature.emplace_back("uneven", "yes");
    all.push_back(shape(6, 45, 83, 4, 2, 64, feature));
  }
  all.push_back(shape(6, 45, 45, 4, 2, 64, {{"kv_layout", "qkv"}, {"uneven", "yes"}}));
  for (const char* causal : {"yes", "top_left"})
    all.push_back(shape(1, 77, 35, 2, 1, 64, {{"causal", causal}, {"lse", "yes"}, {"window", "9"}}));
  return all;
}

/// Combinations of features that share code: KV layouts, and the registers between Q.K^T and P.V.
std::vector<Dims> combined_features() {
  std::vector<Dims> all;
  const std::vector<Dims> features = {
      {{"score_bias", "additive"}, {"dropout", "20"}, {"page_size", "16"}, {"window", "40"}, {"lse", "yes"}},
      {{"score_bias", "alibi"}, {"dropout", "20"}, {"kv_layout", "packed"}, {"causal", "no"}},
      {{"score_bias", "additive"}, {"kv_layout", "packed"}, {"causal", "top_left"}, {"head_dim_v", "128"}},
      {{"page_size", "32"}, {"head_dim_v", "32"}, {"window", "23"}},
      {{"kv_layout", "bshd"}, {"score_bias", "additive"}, {"bias_shape", "batch"}, {"dropout", "20"}},
      {{"causal", "offset"}, {"diagonal", "-9"}, {"head_dim_v", "32"}, {"dropout", "20"}, {"lse", "yes"}}};
  for (const Dims& feature : features)
    for (const int head_dim : {64, 128}) {
      all.push_back(shape(6, 145, 283, 4, 2, head_dim, feature));
      all.back().emplace_back("uneven", "yes");
    }
  all.push_back(shape(6, 145, 145, 4, 2, 128,
                      {{"kv_layout", "qkv"}, {"uneven", "yes"}, {"window", "40"}, {"lse", "yes"}}));
  for (const Dims& feature : {Dims{{"score_bias", "additive"}, {"page_size", "64"}}, Dims{{"dropout", "20"}}})
    all.push_back(shape(2, 70, 150, 2, 1, 256, feature));
  return all;
}

/// K as [D/x, S, x], which cp.async reads but TMA does not.
std::vector<Dims> dsx_features() {
  std::vector<Dims> all;
  for (const Dims& feature : {Dims{{"k_layout", "dsx"}, {"score_bias", "alibi"}, {"head_dim_v", "32"}},
                              Dims{{"k_layout", "dsx"}, {"page_size", "32"}, {"dropout", "20"}}})
    for (const int head_dim : {64, 80}) {
      all.push_back(shape(6, 145, 283, 4, 2, head_dim, feature));
      all.back().emplace_back("uneven", "yes");
    }
  return all;
}

/// Few queries over a long cache, where split-KV applies.
std::vector<Dims> long_caches() {
  return {shape(1, 1, 4099, 8, 2, 128),
          shape(1, 16, 8192, 4, 4, 128, {{"lse", "yes"}}),
          shape(2, 5, 3001, 6, 2, 64, {{"uneven", "yes"}, {"page_size", "16"}, {"lse", "yes"}}),
          shape(1, 9, 4000, 4, 1, 64, {{"window", "700"}, {"dropout", "20"}, {"head_dim_v", "128"}}),
          shape(3, 7, 2500, 2, 1, 128,
                {{"score_bias", "alibi"}, {"kv_layout", "packed"}, {"causal", "top_left"}}),
          shape(1, 16, 4096, 2, 2, 128, {{"score_bias", "additive"}, {"causal", "no"}}),
          shape(2, 9, 3000, 8, 2, 128, {{"kv_layout", "bshd"}, {"causal", "offset"}, {"diagonal", "2000"}})};
}

/// More query tiles than SMs: a persistent block gets several work tiles of different lengths.
std::vector<Dims> many_tiles() {
  return {shape(30, 70, 90, 6, 2, 64, {{"uneven", "yes"}, {"lse", "yes"}}),
          shape(30, 70, 150, 6, 2, 128, {{"uneven", "yes"}, {"causal", "no"}}),
          shape(30, 130, 90, 6, 3, 64, {{"uneven", "yes"}, {"causal", "top_left"}, {"lse", "yes"}}),
          shape(30, 70, 300, 6, 2, 96, {{"uneven", "yes"}, {"window", "40"}, {"q_stride", "768"}}),
          shape(1, 1000, 1000, 20, 20, 64, {{"lse", "yes"}})};
}

/// Rows of K, V and the output that are aligned to 16, 8, 4 and 2 bytes in 16-bit dtypes, and no multiple of
/// 16 elements: tensor cores read them from padded tiles.
std::vector<Dims> unaligned_heads() {
  std::vector<Dims> all;
  for (const int head_dim : {120, 100, 66, 33, 7})
    all.push_back(shape(6, 45, 83, 4, 2, head_dim, {{"uneven", "yes"}, {"lse", "yes"}}));
  all.push_back(shape(1, 130, 283, 4, 1, 72, {{"head_dim_v", "36"}, {"page_size", "16"}}));
  all.push_back(shape(1, 70, 150, 2, 1, 40, {{"head_dim_v", "250"}, {"kv_layout", "packed"}}));
  all.push_back(shape(2, 70, 150, 4, 2, 36, {{"head_dim_v", "104"}, {"q_stride", "292"}, {"dropout", "20"}}));
  all.push_back(shape(1, 9, 4000, 8, 2, 100, {{"lse", "yes"}}));  // split-KV, pack_gqa
  all.push_back(shape(2, 5, 3001, 6, 2, 24, {{"head_dim_v", "17"}, {"uneven", "yes"}}));  // likewise
  return all;
}

/// fp32 whose products may be TF32.
std::vector<Dims> tf32_shapes() {
  return {shape(6, 45, 83, 4, 2, 64, {{"precision", "tf32"}, {"uneven", "yes"}, {"lse", "yes"}}),
          shape(1, 200, 333, 2, 1, 128, {{"precision", "tf32"}, {"dropout", "20"}, {"page_size", "16"}}),
          shape(1, 70, 150, 2, 1, 36, {{"precision", "tf32"}, {"head_dim_v", "256"}})};
}

struct Random {
  std::mt19937_64 bits;
  int below(int n) { return static_cast<int>(bits() % static_cast<std::uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<int>(values.size()))];
  }
};

/// Problems of random sizes, up to `longest` queries, with the same random features and therefore the same
/// kernels.
std::vector<Problem> random_problems(std::uint64_t seed, int count, int longest) {
  Random r{std::mt19937_64(seed)};
  const DType dtype = r.of({DType::fp32, DType::fp16, DType::bf16, DType::bf16});
  const int head_dim = r.of({64, 128, 64, 128, 80, 96, 32, 16, 256, 33, 120, 100, 34});
  const auto [q_heads, kv_heads] = r.of<std::pair<int, int>>({{2, 2}, {4, 1}, {4, 2}, {3, 1}, {1, 1}});
  Dims fixed;
  const auto feature = [&](int odds, const std::string& dim, const std::string& value) {
    if (r.one_in(odds)) fixed.emplace_back(dim, value);
  };
  const int causal = r.below(4);
  fixed.emplace_back("causal",
                     std::vector{"no", "yes", "top_left", "offset"}[static_cast<std::size_t>(causal)]);
  const int bias = r.below(6);
  if (bias < 3) fixed.emplace_back("score_bias", bias < 2 ? "additive" : "alibi");
  if (bias < 2) feature(2, "bias_shape", r.of({"batch_heads", "batch"}));
  feature(3, "lse", "yes");
  const bool qkv = r.one_in(8);
  if (qkv) {
    feature(1, "kv_layout", "qkv");
  } else {
    feature(4, "head_dim_v", std::to_string(r.of({64, 128, 32, 48, 256, 17})));
    feature(5, "q_stride", std::to_string((q_heads + 2 * kv_heads) * head_dim));
    const bool paged = r.one_in(3), rows = !paged && r.one_in(3);
    if (paged) feature(1, "page_size", std::to_string(r.of({16, 32, 64, 128, 256})));
    if (rows) feature(1, "kv_layout", r.of({"packed", "bshd"}));
    if (!rows && head_dim % 8 == 0) feature(4, "k_layout", "dsx");
  }
  const bool window = causal > 0 && r.one_in(3), dropout = r.one_in(4);
  std::vector<Problem> problems;
  for (int i = 0; i < count; ++i) {
    const int q_len = 1 + (r.one_in(3) ? r.below(8) : r.below(longest)),
              kv_len = qkv ? q_len : 1 + r.below(r.one_in(4) ? 3 * longest : longest);
    Dims dims = shape(1 + r.below(6), q_len, kv_len, q_heads, kv_heads, head_dim, fixed);
    if (r.one_in(2)) dims.emplace_back("uneven", "yes");
    if (window) dims.emplace_back("window", std::to_string(1 + r.below(kv_len)));
    if (causal == 3) dims.emplace_back("diagonal", std::to_string(r.below(kv_len + q_len) - q_len));
    if (dropout) dims.emplace_back("dropout", std::to_string(1 + r.below(60)));
    problems.push_back(find_op("attention_prefill").op.problem(dims, dtype));
  }
  return problems;
}

class AttentionPrefillFeature : public ::testing::TestWithParam<Dims> {};
class AttentionPrefillFeaturesCompile : public AttentionPrefillFeature {};
class GpuAttentionPrefillFeature : public AttentionPrefillFeature {};

TEST_P(AttentionPrefillFeature, HostVariantsMatchTheReference) {
  check_host_variants("attention_prefill", GetParam(), kFloats);
}
TEST_P(AttentionPrefillFeaturesCompile, CudaVariants) {
  const DType dtypes[] = {DType::bf16};
  check_compiles("attention_prefill", GetParam(), dtypes, 2);
}
TEST_P(GpuAttentionPrefillFeature, CudaVariantsMatchTheReference) {
  check_cuda_variants("attention_prefill", GetParam(), kFloats, 4);
}
INSTANTIATE_TEST_SUITE_P(Single, AttentionPrefillFeature, ::testing::ValuesIn(single_features()), shape_name);
INSTANTIATE_TEST_SUITE_P(Single, GpuAttentionPrefillFeature, ::testing::ValuesIn(single_features()),
                         shape_name);
INSTANTIATE_TEST_SUITE_P(Combined, GpuAttentionPrefillFeature, ::testing::ValuesIn(combined_features()),
                         shape_name);
INSTANTIATE_TEST_SUITE_P(Combined, AttentionPrefillFeaturesCompile, ::testing::ValuesIn(combined_features()),
                         shape_name);
INSTANTIATE_TEST_SUITE_P(Dsx, GpuAttentionPrefillFeature, ::testing::ValuesIn(dsx_features()), shape_name);
INSTANTIATE_TEST_SUITE_P(Dsx, AttentionPrefillFeaturesCompile, ::testing::ValuesIn(dsx_features()),
                         shape_name);
INSTANTIATE_TEST_SUITE_P(LongCaches, GpuAttentionPrefillFeature, ::testing::ValuesIn(long_caches()),
                         shape_name);
INSTANTIATE_TEST_SUITE_P(ManyTiles, GpuAttentionPrefillFeature, ::testing::ValuesIn(many_tiles()),
                         shape_name);

INSTANTIATE_TEST_SUITE_P(UnalignedHeads, AttentionPrefillFeature, ::testing::ValuesIn(unaligned_heads()),
                         shape_name);
INSTANTIATE_TEST_SUITE_P(UnalignedHeads, AttentionPrefillFeaturesCompile,
                         ::testing::ValuesIn(unaligned_heads()), shape_name);
INSTANTIATE_TEST_SUITE_P(UnalignedHeads, GpuAttentionPrefillFeature, ::testing::ValuesIn(unaligned_heads()),
                         shape_name);

class AttentionPrefillTf32 : public AttentionPrefillFeature {};
class GpuAttentionPrefillTf32 : public AttentionPrefillFeature {};

TEST_P(AttentionPrefillTf32, HostVariantsMatchTheReference) {
  check_host_variants("attention_prefill", GetParam(), kFp32);
}
TEST_P(AttentionPrefillTf32, CudaVariantsCompile) {
  check_compiles("attention_prefill", GetParam(), kFp32, 2);
}
TEST_P(GpuAttentionPrefillTf32, CudaVariantsMatchTheReference) {
  check_cuda_variants("attention_prefill", GetParam(), kFp32, 12);
}
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionPrefillTf32, ::testing::ValuesIn(tf32_shapes()), shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuAttentionPrefillTf32, ::testing::ValuesIn(tf32_shapes()), shape_name);

/// All configurations of mem_efficient in fp32: CUDA cores and 3xTF32, each number of stages. Thousands of
/// keys show whether the sums of tensor cores drift.
TEST(GpuAttentionPrefillConfigs, AllOfMemEfficientInFp32MatchTheReference) {
  OpEntry entry = find_op("attention_prefill");
  std::erase_if(entry.variants, [](const Variant& v) { return v.name != "mem_efficient"; });
  check_cuda_variants(entry, shape(1, 257, 641, 4, 1, 64), kFp32, 1000);
  check_cuda_variants(entry, shape(1, 70, 8192, 2, 1, 128, {{"causal", "no"}}), kFp32, 1000);
}

/// Guards the kernel tests: they would pass if no configuration were legal.
TEST(AttentionPrefillSpaces, EveryCudaVariantTakesEveryFeature) {
  const OpEntry& entry = find_op("attention_prefill");
  std::vector<Dims> all = single_features();
  std::ranges::copy(long_caches(), std::back_inserter(all));
  for (const Dims& dims : all)
    for (const DType dtype : kFloats)
      for (const char* name : {"unfused", "tiled", "mem_efficient", "flash_mma", "flash_wgmma"})
        for (const char* arch : {"sm_80", "sm_90a"}) {
          const Variant& variant = entry.variant(name);
          if (dtype == DType::fp32 && !variant.dtypes.empty()) continue;
          if (variant.name == "flash_wgmma" && std::string(arch) == "sm_80") continue;
          const Problem problem = entry.op.problem(dims, dtype);
          // TMA reads rows, which K as [D/x, S, x] does not have.
          const bool expected = variant.name != "flash_wgmma" || problem["k_layout"] == 0;
          EXPECT_EQ(!Space(variant, problem, known_device(arch)).configs().empty(), expected)
              << problem.key() << " " << name << " " << arch;
        }
}

TEST(AttentionPrefillSpaces, TensorCoresTakeEveryHeadDim) {
  const OpEntry& entry = find_op("attention_prefill");
  for (int head_dim = 1; head_dim <= 256; head_dim += head_dim < 20 ? 1 : 13)
    for (const char* name : {"mem_efficient", "flash_mma"})
      for (const char* arch : {"sm_80", "sm_90a"}) {
        const Problem problem = entry.op.problem(shape(1, 2048, 2048, 32, 8, head_dim), DType::bf16);
        EXPECT_FALSE(Space(entry.variant(name), problem, known_device(arch)).configs().empty())
            << problem.key() << " " << name << " " << arch;
      }
}

/// Rounded operands must not pass as fp32.
TEST(AttentionPrefillSpaces, Tf32NeedsAProblemThatAllowsIt) {
  const OpEntry& entry = find_op("attention_prefill");
  const auto maths = [&](const Dims& more, DType dtype) {
    std::set<std::int64_t> values;
    const Problem problem = entry.op.problem(shape(1, 512, 512, 4, 4, 64, more), dtype);
    for (const Config& c : Space(entry.variant("mem_efficient"), problem, known_device("sm_90a")).configs())
      values.insert(c["math"]);
    return values;
  };
  EXPECT_EQ(maths({}, DType::bf16), std::set<std::int64_t>{0});
  EXPECT_EQ(maths({}, DType::fp32), (std::set<std::int64_t>{0, 2}));
  EXPECT_EQ(maths({{"precision", "tf32"}}, DType::fp32), std::set<std::int64_t>{1});
}

TEST(AttentionPrefillSpaces, WgmmaTakesCombinedFeatures) {
  const OpEntry& entry = find_op("attention_prefill");
  for (const Dims& dims : combined_features()) {
    const Problem problem = entry.op.problem(dims, DType::bf16);
    EXPECT_FALSE(Space(entry.variant("flash_wgmma"), problem, known_device("sm_90a")).configs().empty())
        << problem.key();
  }
}

TEST(AttentionPrefillSpaces, AreOfASaneSize) {
  const OpEntry& entry = find_op("attention_prefill");
  for (const int head_dim : {64, 128})
    for (const int q_len : {1, 32, 64, 8192})
      for (const Dims& more : {Dims{}, Dims{{"page_size", "16"}}})
        for (const char* arch : {"sm_80", "sm_90a"})
          for (const Variant& variant : entry.variants) {
            if (variant.backend != Backend::cuda) continue;
            const Problem problem =
                entry.op.problem(shape(1, q_len, 8192, 32, 8, head_dim, more), DType::bf16);
            EXPECT_LE(Space(variant, problem, known_device(arch)).configs().size(), 250)
                << problem.key() << " " << variant.name << " " << arch;
          }
}

/// 300 combinations on the host, 1000 problems on the GPU.
class AttentionPrefillRandom : public ::testing::TestWithParam<int> {};
class GpuAttentionPrefillRandom : public AttentionPrefillRandom {};

TEST_P(AttentionPrefillRandom, HostVariantsMatchTheReference) {
  for (int seed = 10 * GetParam(); seed < 10 * (GetParam() + 1); ++seed)
    for (const Problem& p : random_problems(static_cast<std::uint64_t>(seed), 1, 40))
      check_host_variants(find_op("attention_prefill"), p, 2);
}
TEST_P(GpuAttentionPrefillRandom, CudaVariantsMatchTheReference) {
  const auto seed = static_cast<std::uint64_t>(1000 + GetParam());
  check_random_configs(find_op("attention_prefill"), random_problems(seed, 8, 100), 2, seed);
}
INSTANTIATE_TEST_SUITE_P(Combinations, AttentionPrefillRandom, ::testing::Range(0, 30));
INSTANTIATE_TEST_SUITE_P(Combinations, GpuAttentionPrefillRandom, ::testing::Range(0, 125));

/// A bias of -infinity for whole K/V tiles, the first ones included, and for all keys of every fifth query.
OpEntry hiding_bias() {
  return with_input(find_op("attention_prefill"), "score_bias", [](const Problem& p, std::int64_t i) {
    const std::int64_t key = i % p["kv_len"], query = i / p["kv_len"] % p["q_len"];
    return query % 5 == 0 || key < 70 || key % 7 == query % 7 ? -INFINITY : 0.0f;
  });
}
const Dims kHiding =
    shape(2, 40, 150, 2, 1, 64, {{"score_bias", "additive"}, {"lse", "yes"}, {"causal", "no"}});
TEST(AttentionPrefillBugs, HostABiasMayHideEverything) {
  check_host_variants(hiding_bias(), kHiding, kFloats);
}
TEST(GpuAttentionPrefillBugs, ABiasMayHideEverything) {
  check_cuda_variants(hiding_bias(), kHiding, kFloats, 5);
}

/// Rows of K and V beyond the keys of a sequence may hold anything: a weight of 0 times infinity is NaN.
OpEntry infinite_beyond_keys() {
  const auto beyond = [](const Problem& p, std::int64_t i) {
    const std::int64_t capacity = p["kv_len"] + 8, row = i / p["head_dim"],
                       b = row / (p["kv_heads"] * capacity),
                       keys = b == 0 ? p["kv_len"] : p["kv_len"] - p["q_len"] + 1;  // uneven
    return row % capacity < keys ? 0.25f * static_cast<float>(i * 7 % 11) : INFINITY;
  };
  return with_input(with_input(find_op("attention_prefill"), "k_cache", beyond), "v_cache", beyond);
}
std::vector<Dims> two_lengths() {
  return {shape(2, 37, 77, 4, 2, 64, {{"uneven", "yes"}}),
          shape(2, 37, 77, 4, 2, 64, {{"uneven", "yes"}, {"causal", "no"}})};
}
TEST(AttentionPrefillBugs, HostReadsNoRowBeyondTheKeys) {
  for (const Dims& dims : two_lengths()) check_host_variants(infinite_beyond_keys(), dims, kFloats);
}
TEST(GpuAttentionPrefillBugs, RowsBeyondTheKeysMayBeInfinite) {
  for (const Dims& dims : two_lengths()) check_cuda_variants(infinite_beyond_keys(), dims, kFloats, 4);
}

/// Padded GEMMs serve uneven lengths, and the offset mask, whose softmax is ours.
TEST(AttentionPrefillSpaces, CublasltPadsUnevenLengths) {
  const OpEntry& entry = find_op("attention_prefill");
  const Variant* const cublaslt = entry.find_variant("cublaslt");
  if (!cublaslt) GTEST_SKIP() << "this program was built without cuBLASLt";
  const auto configs = [&](const Dims& more) {
    const Problem p = entry.op.problem(shape(6, 45, 83, 4, 2, 64, more), DType::bf16);
    return Space(*cublaslt, p, known_device("sm_90a")).configs().size();
  };
  EXPECT_EQ(configs({{"uneven", "yes"}}), configs({}));
  EXPECT_EQ(configs({{"causal", "offset"}, {"diagonal", "-3"}}), configs({}));
  EXPECT_EQ(configs({{"kv_layout", "packed"}}), 0);
}

}  // namespace
}  // namespace warptune::testing
