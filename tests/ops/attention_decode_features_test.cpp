// The features of attention_decode: each alone, random combinations, and properties beyond the reference.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <set>

#include "harness/core/error.h"
#include "harness/core/space.h"
#include "harness/device/device.h"
#include "harness/tune/schedule.h"
#include "harness/verify/tensor_set.h"
#include "kernels/attention_decode/args.h"
#include "tests/attention_dims.h"
#include "tests/support.h"

namespace warptune::testing {
namespace {

const OpEntry& decode() { return find_op("attention_decode"); }

Dims with(Dims features) {
  features.push_back({"uneven", "yes"});
  return dims(5, 8, 2, 64, 150, features);
}

std::optional<Problem> legal(Dims dims, const Dims& more, DType dtype) {
  dims.insert(dims.end(), more.begin(), more.end());
  try {
    return decode().op.problem(dims, dtype);
  } catch (const InputError&) {
    return {};
  }
}

/// One configuration of each variant that accepts the first problem, on all problems that accept it and need
/// the same kernels: compilation dominates the time of such tests.
std::vector<ChosenConfig> one_of_each(std::span<const Problem> problems, const DeviceFacts& facts,
                                      std::mt19937& random) {
  std::vector<ChosenConfig> chosen;
  for (const Variant& variant : decode().variants) {
    if (variant.backend != facts.backend || !takes(variant, problems[0].dtype)) continue;
    const auto configs = Space(variant, problems[0], facts).configs();
    const unsigned any = random();
    if (configs.empty()) continue;
    const Config& config = configs[any % configs.size()];
    const auto kernels = kernels_of({&variant, problems[0], config});
    for (const Problem& problem : problems)
      if (!Space(variant, problem, facts).broken_constraint(config) &&
          kernels_of({&variant, problem, config}) == kernels)
        chosen.push_back({&variant, problem, config});
  }
  return chosen;
}

/// A set of features with bf16, on three sizes.
std::vector<ChosenConfig> feature_cases(const Dims& features, const DeviceFacts& facts) {
  std::vector<Problem> problems;
  for (const auto& [batch, context] : {std::pair(5, 150), {1, 160}, {3, 129}}) {
    Dims d = dims(batch, 8, 2, 128, context, features);
    d.push_back({"uneven", "yes"});
    problems.push_back(decode().op.problem(d, DType::bf16));
  }
  std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(problems[0].key())));
  return one_of_each(problems, facts, random);
}

class DecodeFeature : public ::testing::TestWithParam<Dims> {};
class GpuDecodeFeature : public ::testing::TestWithParam<Dims> {};
TEST_P(DecodeFeature, HostVariantsMatchTheReference) {
  check_host_variants("attention_decode", with(GetParam()), kFloats);
}
class DecodeFeaturesCompile : public ::testing::TestWithParam<Dims> {};
TEST_P(DecodeFeaturesCompile, CudaVariants) {
  const DType dtypes[] = {DType::bf16};
  check_compiles("attention_decode", with(GetParam()), dtypes, 2);
}
TEST_P(GpuDecodeFeature, CudaVariantsMatchTheReference) {
  check_on_gpu(decode(), [](const DeviceFacts& facts) { return feature_cases(GetParam(), facts); });
}

const std::pair<std::string, std::string> kInt8{"kv_dtype", "int8"}, kFp8{"kv_dtype", "fp8"},
    kToken{"kv_scale", "token"}, kPages{"page_size", "16"}, kWindow{"window", "40"},
    kAlibi{"score_bias", "alibi"}, kAdditive{"score_bias", "additive"}, kLse{"lse", "yes"},
    kSmooth{"epilogue", "smooth"}, kQuantize{"epilogue", "quantize"}, kHidden{"hidden", "64"},
    kDeterministic{"deterministic", "yes"};

using Sets = std::vector<Dims>;
const Sets kAlone = {{kInt8},         {kFp8},
                     {kInt8, kToken}, {kFp8, kToken},
                     {kPages},        {{"page_size", "256"}},
                     {kWindow},       {{"window", "1"}},
                     {kAlibi},        {kAdditive},
                     {kLse},          {kSmooth},
                     {kQuantize},     {kDeterministic}};
// Features that interact: they share the row of a key, its scale, or the layout of K.
const Sets kInteracting = {{kInt8, kDsx},
                           {kPages, kDsx},
                           {kPages, kInt8, kToken},
                           {kPages, kWindow},
                           {kAppend, kInt8},
                           {kAppend, kBias, kInt8, kToken},
                           {kAppend, kFp8, kToken},
                           {kAppend, kPages, kInt8, kToken, kDsx},
                           {kAppend, kWindow, kAlibi},
                           {kAppend, kAdditive, kLse},
                           {kAppend, kBias, kInt8, kToken, kInterleaved, kDynamicNtk},
                           {kAppend, kNorm, kPages, kFp8, kToken},
                           {kAppend, kNorm, kInt8, kToken, kProject, kHidden},
                           {kWindow, kAdditive, kLse, kQuantize},
                           {kAppend, kPages, kInt8, kToken, kAlibi, kProject, kHidden}};
INSTANTIATE_TEST_SUITE_P(Alone, DecodeFeature, ::testing::ValuesIn(kAlone), shape_name);
INSTANTIATE_TEST_SUITE_P(Alone, GpuDecodeFeature, ::testing::ValuesIn(kAlone), shape_name);
INSTANTIATE_TEST_SUITE_P(Together, DecodeFeature, ::testing::ValuesIn(kInteracting), shape_name);
INSTANTIATE_TEST_SUITE_P(Together, DecodeFeaturesCompile, ::testing::ValuesIn(kInteracting), shape_name);
INSTANTIATE_TEST_SUITE_P(Together, GpuDecodeFeature, ::testing::ValuesIn(kInteracting), shape_name);

/// The variants with packed GQA on tensor cores, which support all features but one.
OpEntry packed_gqa_variants() {
  OpEntry entry = decode();
  std::erase_if(entry.variants,
                [](const Variant& v) { return v.name != "mma_pipelined" && v.name != "mma_direct"; });
  return entry;
}
const Sets kPackedGqa = {{kAppend, kBias, kInt8, kToken, kPages},
                         {kAppend, kFp8, kWindow, kAlibi, kLse},
                         {kAppend, kBias, kNorm, kAdditive, kSmooth},
                         {kFp8, kToken, kAdditive, kQuantize}};
class DecodePackedGqaCompiles : public ::testing::TestWithParam<Dims> {};
TEST_P(DecodePackedGqaCompiles, OnTensorCores) {
  const DType dtypes[] = {DType::fp16, DType::bf16};
  for (const int q_heads : {8, 24})
    check_compiles(packed_gqa_variants(), dims(5, q_heads, 2, 128, 150, GetParam()), dtypes, 2);
}
INSTANTIATE_TEST_SUITE_P(Together, DecodePackedGqaCompiles, ::testing::ValuesIn(kPackedGqa), shape_name);
INSTANTIATE_TEST_SUITE_P(Groups, GpuDecodeFeature, ::testing::ValuesIn(kPackedGqa), shape_name);

// Rows of 64, 192 and 320 bytes, whose values are loaded in vectors of 8 bytes.
const std::vector<Dims> kNarrowVectors = {
    dims(5, 8, 2, 64, 150, {{"uneven", "yes"}, kAppend, kFp8, kToken}),
    dims(5, 24, 2, 64, 150, {{"uneven", "yes"}, kInt8, kAlibi}),
    dims(2, 2, 2, 64, 301, {{"uneven", "yes"}, kAppend, kBias, kInt8, kPages}),
    dims(3, 8, 2, 32, 77, {{"uneven", "yes"}, kAppend, kNorm}),
    dims(3, 4, 2, 96, 150, {{"uneven", "yes"}, kAppend, kBias, kInterleaved}),
    dims(3, 8, 2, 160, 150, {{"uneven", "yes"}, kWindow}),
    dims(3, 8, 2, 192, 150, {{"uneven", "yes"}, kAppend, kFp8})};
class DecodeNarrowVectors : public ::testing::TestWithParam<Dims> {};
class GpuDecodeNarrowVectors : public DecodeNarrowVectors {};
TEST_P(DecodeNarrowVectors, CompileOnTensorCores) {
  const DType dtypes[] = {DType::fp16, DType::bf16};
  check_compiles(packed_gqa_variants(), GetParam(), dtypes, 2);
  const Problem problem = decode().op.problem(GetParam(), DType::bf16);
  for (const Variant& v : packed_gqa_variants().variants)
    EXPECT_FALSE(Space(v, problem, known_device("sm_90a")).configs().empty()) << v.name;
}
TEST_P(GpuDecodeNarrowVectors, MatchTheReference) {
  const DType dtypes[] = {DType::fp16, DType::bf16};
  check_cuda_variants(packed_gqa_variants(), GetParam(), dtypes);
}
INSTANTIATE_TEST_SUITE_P(Rows, DecodeNarrowVectors, ::testing::ValuesIn(kNarrowVectors), shape_name);
INSTANTIATE_TEST_SUITE_P(Rows, GpuDecodeNarrowVectors, ::testing::ValuesIn(kNarrowVectors), shape_name);

/// Without this test, the tests of a feature would pass if no variant took the feature.
/// docs/lessons/attention_decode.md lists which variant takes which feature.
TEST(DecodeFeatures, EveryCudaVariantTakesItsFeatures) {
  const auto takes_all = [](const std::string& name, const Dims& features, const char* arch) {
    const Problem problem = decode().op.problem(dims(5, 8, 2, 128, 150, features), DType::bf16);
    EXPECT_FALSE(Space(decode().variant(name), problem, known_device(arch)).configs().empty())
        << name << ' ' << arch << ' ' << problem.key();
  };
  Sets alone = kAlone;
  std::erase(alone, Dims{kDeterministic});
  alone.insert(alone.end(), {{kDsx},
                             {kAppend},
                             {kAppend, kBias},
                             {kAppend, kInterleaved},
                             {kAppend, kDynamicNtk},
                             {kAppend, kNorm}});
  for (const Dims& features : alone)
    for (const char* name :
         {"naive", "vectorized", "split_kv", "fixed_split", "short_context", "mma_direct", "mma_pipelined"}) {
      const std::string variant = name;
      if (variant == "naive" && features[0] == kAppend) continue;
      if (variant.starts_with("mma") && features[0] == kDsx) continue;
      if (variant != "mma_pipelined") takes_all(variant, features, "sm_80");
      takes_all(variant, features, "sm_90a");
    }
  for (const Dims& features : kPackedGqa)
    for (const char* name : {"mma_direct", "mma_pipelined"}) takes_all(name, features, "sm_90a");
  for (const char* arch : {"sm_80", "sm_90a"}) takes_all("fixed_split", {kDeterministic}, arch);
}

/// cp.async pipelines that wrap around several times, and partial tiles.
const Sets kLong = {{kPages, kWindow}, {kAppend, kInt8, kToken}, {kAppend, kBias, kAlibi}, {kFp8, kDsx}};
std::vector<ChosenConfig> pipeline_cases(const Dims& features, const DeviceFacts& facts) {
  std::vector<ChosenConfig> chosen;
  const std::vector<Expression> pipelined = {"stages > 1", "block <= 128", "splits <= 2"};
  for (const DType dtype : kFloats) {
    Dims d = dims(2, 8, 4, 128, 1601, features);
    d.push_back({"uneven", "yes"});
    const Problem problem = decode().op.problem(d, dtype);
    const Variant& variant = decode().variant("split_kv");
    if (!takes(variant, dtype)) continue;
    for (const Config& config : spread(Space(variant, problem, facts, {}, pipelined).configs(), 2))
      chosen.push_back({&variant, problem, config});
  }
  return chosen;
}
class GpuDecodeCpAsync : public ::testing::TestWithParam<Dims> {};
TEST_P(GpuDecodeCpAsync, MatchTheReference) {
  check_on_gpu(decode(), [](const DeviceFacts& facts) { return pipeline_cases(GetParam(), facts); });
}
INSTANTIATE_TEST_SUITE_P(Long, GpuDecodeCpAsync, ::testing::ValuesIn(kLong), shape_name);
TEST(DecodeFeatures, CpAsyncPipelinesAreTested) {
  for (const Dims& features : kLong)
    for (const char* arch : {"sm_80", "sm_90a"})
      EXPECT_EQ(pipeline_cases(features, known_device(arch)).size(), 6u) << arch << ' ' << features[0].second;
}

/// Random dims that kernels are compiled for, then random sizes that they read at run time.
class Draw {
 public:
  explicit Draw(unsigned seed) : random(seed) {}

  Dims features(const std::vector<int>& head_dims) {
    const int kv_heads = pick<int>({1, 2, 3}), group = pick<int>({4, 1, 2, 3, 5, 8, 12});
    return {{"q_heads", std::to_string(kv_heads * group)},
            {"kv_heads", std::to_string(kv_heads)},
            {"head_dim", std::to_string(head_dims[random() % head_dims.size()])},
            {"k_layout", pick<std::string>({"sd", "dsx"})},
            {"append", pick<std::string>({"no", "yes"})},
            {"bias", pick<std::string>({"no", "yes"})},
            {"kv_dtype", pick<std::string>({"same", "int8", "fp8"})},
            {"kv_scale", pick<std::string>({"head", "token"})},
            {"page_size", pick<std::string>({"0", "16", "32", "64", "128", "256"})},
            {"window", pick<std::string>({"0", "1", "17", "64", "200"})},
            {"score_bias", pick<std::string>({"none", "alibi", "additive"})},
            {"lse", pick<std::string>({"no", "yes"})},
            {"epilogue", pick<std::string>({"none", "smooth", "quantize", "project"})},
            {"hidden", pick<std::string>({"0", "64"})},
            {"deterministic", pick<std::string>({"no", "yes"})},
            {"style", pick<std::string>({"half_split", "interleaved"})},
            {"scaling", pick<std::string>({"none", "dynamic_ntk"})},
            {"qk_norm", pick<std::string>({"no", "yes"})}};
  }
  /// Contexts within 32 keys of each other, so that the number of splits does not change.
  Dims sizes(int context) {
    return {{"batch", std::to_string(pick<int>({4, 1, 2, 3, 6}))},
            {"context", std::to_string(context + 1 + static_cast<int>(random() % 32))},
            {"uneven", pick<std::string>({"yes", "no"})}};
  }
  /// A random choice; the first has probability 1/2, so that most features of a combination are off.
  template <class T>
  T pick(const std::vector<T>& from) {
    return random() % 2 == 0 ? from.front() : from[random() % from.size()];
  }

  std::mt19937 random;
};

/// Random features with a configuration of each variant, on `sizes` sizes; empty if no variant accepts them.
std::vector<ChosenConfig> random_cases(unsigned seed, const DeviceFacts& facts,
                                       const std::vector<int>& head_dims, int sizes) {
  Draw draw(seed);
  for (int tries = 0; tries < 1000; ++tries) {
    const Dims features = draw.features(head_dims);
    const DType dtype = kFloats[draw.random() % 3];
    const int context = draw.pick<int>({128, 0, 32, 64, 256, 288});
    std::vector<Problem> problems;
    for (int i = 0; i < sizes; ++i)
      if (const auto problem = legal(features, draw.sizes(context), dtype)) problems.push_back(*problem);
    if (problems.empty()) continue;
    if (auto chosen = one_of_each(problems, facts, draw.random); !chosen.empty()) return chosen;
  }
  return {};
}
constexpr unsigned kGpuSeeds = 60;
std::vector<ChosenConfig> gpu_cases(unsigned seed, const DeviceFacts& facts) {
  return random_cases(1000 + seed, facts, {128, 64, 80, 96, 128, 256, 72, 50}, 15);
}

/// 300 combinations on the host.
class DecodeCombinations : public ::testing::TestWithParam<unsigned> {};
class GpuDecodeCombinations : public ::testing::TestWithParam<unsigned> {};
TEST_P(DecodeCombinations, HostVariantsMatchTheReference) {
  const auto device = open_device("host");
  for (unsigned seed = 15 * GetParam(); seed < 15 * (GetParam() + 1); ++seed)
    check_configs(*device, decode(), random_cases(seed, device->facts(), {64, 80, 16, 6, 50, 96}, 1));
}
TEST_P(GpuDecodeCombinations, CudaVariantsMatchTheReference) {
  check_on_gpu(decode(), [](const DeviceFacts& facts) { return gpu_cases(GetParam(), facts); });
}
INSTANTIATE_TEST_SUITE_P(Random, DecodeCombinations, ::testing::Range(0u, 20u));
INSTANTIATE_TEST_SUITE_P(Random, GpuDecodeCombinations, ::testing::Range(0u, kGpuSeeds));

/// A bias of -inf for all keys of the first sequence and for every third key of the others.
OpEntry masked() {
  return with_input(decode(), "score_bias", [](const Problem& p, std::int64_t i) {
    const std::int64_t first = p["q_heads"] * ceil_div(p["context"], 16) * 16;
    return i < first || i % 3 == 0 ? -std::numeric_limits<float>::infinity() : 0.25f;
  });
}
const Dims kMasked = dims(2, 4, 2, 64, 150, {kAdditive, kLse}),
           kMaskedAppend = dims(2, 4, 2, 64, 150, {kAdditive, kLse, kAppend, kQuantize});
TEST(DecodeFeatures, HostBiasMayMaskEveryKey) {
  check_host_variants(masked(), kMasked, kFloats);
  check_host_variants(masked(), kMaskedAppend, kFloats);
}
TEST(GpuDecodeFeatures, BiasMayMaskEveryKey) {
  for (const Dims& d : {kMasked, kMaskedAppend})
    check_on_gpu(masked(), [&](const DeviceFacts& facts) {
      std::mt19937 random(7);
      const Problem problem = decode().op.problem(d, DType::bf16);
      return one_of_each({&problem, 1}, facts, random);
    });
}

/// Problems with the same first sequence, with every configuration of a device.
std::vector<ChosenConfig> deterministic_cases(const Dims& features, DType dtype, const DeviceFacts& facts) {
  std::vector<Problem> problems;
  for (const int batch : {1, 3, 8}) {
    Dims d = dims(batch, 8, 2, 128, 700, features);
    d.push_back(kDeterministic);
    problems.push_back(decode().op.problem(d, dtype));
  }
  std::vector<ChosenConfig> chosen;
  for (const Variant& variant : decode().variants) {
    if (variant.backend != facts.backend || !takes(variant, dtype)) continue;
    for (const Config& config : Space(variant, problems[0], facts).configs())
      for (const Problem& problem : problems)
        if (!Space(variant, problem, facts).broken_constraint(config))
          chosen.push_back({&variant, problem, config});
  }
  return chosen;
}

/// The bytes of the first sequence's output.
std::vector<std::byte> first_sequence(Device& device, const ChosenConfig& c) {
  const auto& [variant, p, config] = c;
  const auto specs = decode().op.tensors(p, 7);
  const auto plan = device.prepare(*variant, p, config);
  TensorSet set(device, specs);
  set.fill(specs, 7);
  Buffer workspace;
  if (const auto bytes = plan->workspace_bytes()) {
    workspace = device.allocate(static_cast<std::size_t>(bytes));
    device.set_bytes(workspace.data(), 0, static_cast<std::size_t>(bytes), device.stream());
  }
  const Args args = decode().op.bind(p, set.addresses(), workspace.data());
  plan->launch(args.data(), device.stream());
  device.synchronize();
  std::vector<std::byte> bytes(static_cast<std::size_t>(p["q_heads"] * p["head_dim"]) * size_of(p.dtype));
  device.download(bytes.data(), set.addresses()[4], bytes.size());
  return bytes;
}

/// A deterministic result is the same for every batch size, configuration and cache capacity.
void check_deterministic(Device& device, std::span<const ChosenConfig> cases) {
  if (cases.empty() && std::getenv("WARPTUNE_TEST_VARIANT"))
    GTEST_SKIP() << "the variant has no deterministic mode";
  ASSERT_FALSE(cases.empty());
  const auto first = first_sequence(device, cases[0]);
  for (const ChosenConfig& c : cases)
    EXPECT_EQ(first_sequence(device, c), first) << c.problem.key() << ' ' << c.config.str();
}
const Sets kDeterministicFeatures = {
    {{"kv_dtype", "same"}}, {kInt8}, {kFp8, kToken}, {kWindow, kAlibi}, {kAppend}};

class DecodeDeterminism : public ::testing::TestWithParam<Dims> {};
class GpuDecodeDeterminism : public ::testing::TestWithParam<Dims> {};
TEST_P(DecodeDeterminism, HostIsBitwiseReproducible) {
  const auto device = open_device("host");
  for (const DType dtype : kFloats)
    check_deterministic(*device, deterministic_cases(GetParam(), dtype, device->facts()));
}
TEST_P(GpuDecodeDeterminism, IsBitwiseReproducible) {
  for (const DType dtype : kFloats)
    check_on_gpu([&](const DeviceFacts& facts) { return deterministic_cases(GetParam(), dtype, facts); },
                 check_deterministic);
}
INSTANTIATE_TEST_SUITE_P(All, DecodeDeterminism, ::testing::ValuesIn(kDeterministicFeatures), shape_name);
INSTANTIATE_TEST_SUITE_P(All, GpuDecodeDeterminism, ::testing::ValuesIn(kDeterministicFeatures), shape_name);

/// Many cases on few kernels: compilation dominates the time of GPU tests.
TEST(DecodeFeatures, GpuTestsHaveManyCasesAndFewKernels) {
  if (std::getenv("WARPTUNE_TEST_VARIANT")) GTEST_SKIP() << "of one variant there are fewer";
  const DeviceFacts facts = known_device("sm_90a");
  std::set<std::string> kernels;
  std::size_t cases = 0;
  const auto count = [&](const std::vector<ChosenConfig>& chosen) {
    cases += chosen.size();
    for (const ChosenConfig& c : chosen) kernels.merge(kernels_of(c));
  };
  for (unsigned seed = 0; seed < kGpuSeeds; ++seed) count(gpu_cases(seed, facts));
  EXPECT_GE(cases, 2000u);
  for (const Sets& sets : {kAlone, kInteracting, kPackedGqa})
    for (const Dims& features : sets) count(feature_cases(features, facts));
  for (const Dims& features : kDeterministicFeatures)
    for (const DType dtype : kFloats) count(deterministic_cases(features, dtype, facts));
  for (const Dims& features : kLong) count(pipeline_cases(features, facts));
  EXPECT_LT(kernels.size(), 500u);
  RecordProperty("cases", static_cast<int>(cases));
  RecordProperty("kernels", static_cast<int>(kernels.size()));
}

TEST(DecodeVariants, OfferOnlyTheCombinesThatTheyRun) {
  const std::string config =
      "splits=8,warps=4,tile_kv=32,stages=2,loads_in_flight=1,l2_prefetch=0,pdl=1,combine=";
  const Variant& variant = decode().variant("mma_pipelined");
  EXPECT_EQ(parse_config(variant, config + "ll")["combine"], static_cast<std::int64_t>(Combine::ll));
  EXPECT_THROW(parse_config(variant, config + "cluster"), InputError);
}

std::string error_of(const Dims& d) {
  try {
    decode().op.problem(d, DType::bf16);
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}
TEST(DecodeOp, ContradictionsAreOneSentence) {
  EXPECT_EQ(error_of(with({kToken})), "attention_decode: kv_scale=token needs kv_dtype=int8 or kv_dtype=fp8");
  EXPECT_EQ(error_of(with({{"page_size", "48"}})),
            "attention_decode: page_size is 48; it must be 0 (contiguous), 16, 32, 64, 128 or 256");
  EXPECT_EQ(error_of(dims(1, 2, 2, 24, 1, {kDsx, kInt8})),
            "attention_decode: k_layout=dsx needs heads of whole 16 bytes, not 24 x int8");
  EXPECT_EQ(error_of(dims(1, 2, 2, 24, 1, {kDsx})), "no error");
}
TEST(DecodeOp, TheKeyOmitsFeaturesAtTheirDefaults) {
  EXPECT_EQ(decode().op.problem(dims(1, 2, 2, 64, 16, {{"window", "0"}, {"lse", "no"}}), DType::bf16).key(),
            "attention_decode[batch=1,q_heads=2,kv_heads=2,head_dim=64,context=16,uneven=no,k_layout=sd,"
            "append=no,bias=no,dtype=bf16]");
}

double bytes_of(const Dims& features) {
  return decode().op.cost(decode().op.problem(dims(2, 8, 2, 128, 1000, features), DType::bf16)).bytes;
}
TEST(DecodeOp, BytesFollowTheFeatures) {
  const double rows = 2.0 * 2 * 2 * 1000 * 128;  // K and V, sequences, heads, keys, elements
  const double rest = bytes_of({}) - 2 * rows;
  EXPECT_EQ(bytes_of({kInt8}) - rest, rows + 2 * 2 * 4);
  EXPECT_EQ(bytes_of({kInt8, kToken}) - rest, rows + rows / 128 * 4);
  EXPECT_EQ(bytes_of({kWindow}) - rest, 2 * rows * 40 / 1000);
  EXPECT_EQ(bytes_of({kPages}) - bytes_of({}), 2 * 63 * 4);                 // 1000 keys are on 63 pages
  EXPECT_EQ(bytes_of({kPages, kWindow}) - bytes_of({kWindow}), 2 * 3 * 4);  // keys 960 to 999
  EXPECT_EQ(bytes_of({kLse}) - bytes_of({}), 2 * 8 * 4);
  EXPECT_EQ(bytes_of({kAdditive}) - bytes_of({}), 2 * 8 * 1000 * 2);
  EXPECT_EQ(bytes_of({kSmooth}) - bytes_of({}), 2 * 8 * 128 * 2);
  EXPECT_EQ(bytes_of({kSmooth}) - bytes_of({kQuantize}), 2 * 8 * 128);
}

}  // namespace
}  // namespace warptune::testing
