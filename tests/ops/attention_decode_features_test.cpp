// The features of attention_decode: each alone, random combinations, and what no reference can tell.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "core/error.h"
#include "core/space.h"
#include "device/device.h"
#include "support.h"
#include "verify/tensor_set.h"

namespace warptune::testing {
namespace {

const OpEntry& decode() { return find_op("attention_decode"); }

Dims dims(int batch, int q_heads, int kv_heads, int head_dim, int context, Dims more = {}) {
  Dims d{{"batch", std::to_string(batch)},
         {"q_heads", std::to_string(q_heads)},
         {"kv_heads", std::to_string(kv_heads)},
         {"head_dim", std::to_string(head_dim)},
         {"context", std::to_string(context)}};
  d.insert(d.end(), more.begin(), more.end());
  return d;
}
Dims with(Dims features) {
  features.push_back({"uneven", "yes"});
  return dims(5, 8, 2, 64, 150, features);
}

class DecodeFeature : public ::testing::TestWithParam<Dims> {};
class GpuDecodeFeature : public ::testing::TestWithParam<Dims> {};
TEST_P(DecodeFeature, HostVariantsMatchTheReference) {
  check_host_variants("attention_decode", GetParam(), kFloats);
}
class DecodeFeaturesCompile : public ::testing::TestWithParam<Dims> {};
TEST_P(DecodeFeaturesCompile, CudaVariants) {
  const DType dtypes[] = {DType::bf16};
  check_compiles("attention_decode", GetParam(), dtypes, 2);
}
TEST_P(GpuDecodeFeature, CudaVariantsMatchTheReference) {
  check_cuda_variants("attention_decode", GetParam(), kFloats, 12);
}

const std::pair<std::string, std::string> kInt8{"kv_dtype", "int8"}, kFp8{"kv_dtype", "fp8"},
    kToken{"kv_scale", "token"}, kDsx{"k_layout", "dsx"}, kAppend{"append", "yes"}, kBias{"bias", "yes"},
    kPages{"page_size", "16"}, kWindow{"window", "40"}, kAlibi{"score_bias", "alibi"},
    kAdditive{"score_bias", "additive"}, kLse{"lse", "yes"}, kSmooth{"epilogue", "smooth"},
    kQuantize{"epilogue", "quantize"}, kDeterministic{"deterministic", "yes"};

const auto kFeatures = ::testing::Values(
    with({kInt8}), with({kFp8}), with({kInt8, kToken}), with({kFp8, kToken}), with({kPages}),
    with({{"page_size", "256"}}), with({kWindow}), with({{"window", "1"}}), with({kAlibi}), with({kAdditive}),
    with({kLse}), with({kSmooth}), with({kQuantize}), with({kDeterministic}));
// What features share: the row of a key, its scale, and the layout of K.
const auto kPairs = ::testing::Values(
    with({kInt8, kDsx}), with({kPages, kDsx}), with({kPages, kInt8, kToken}), with({kPages, kWindow}),
    with({kAppend, kInt8}), with({kAppend, kBias, kInt8, kToken}), with({kAppend, kFp8, kToken}),
    with({kAppend, kPages, kInt8, kToken, kDsx}), with({kAppend, kWindow, kAlibi}),
    with({kAppend, kAdditive, kLse}), with({kWindow, kAdditive, kLse, kQuantize}));
INSTANTIATE_TEST_SUITE_P(Alone, DecodeFeature, kFeatures, shape_name);
INSTANTIATE_TEST_SUITE_P(Alone, GpuDecodeFeature, kFeatures, shape_name);
INSTANTIATE_TEST_SUITE_P(Together, DecodeFeature, kPairs, shape_name);
INSTANTIATE_TEST_SUITE_P(Together, DecodeFeaturesCompile, kPairs, shape_name);
INSTANTIATE_TEST_SUITE_P(Together, GpuDecodeFeature, kPairs, shape_name);

/// Draws legal problems: what a kernel is specialised for once, then sizes that it takes at run time.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  /// One of them; the first half of the time, so that most features of a combination are off.
  template <class T>
  T pick(std::vector<T> from) {
    if (random_() % 2 == 0) return from.front();
    return from[random_() % from.size()];
  }
  DType dtype() { return kFloats[random_() % 3]; }
  Dims features(const std::vector<int>& head_dims) {
    const int kv_heads = pick<int>({1, 2, 3}), group = pick<int>({4, 1, 2, 3, 5, 8, 12});
    return {{"q_heads", std::to_string(kv_heads * group)},
            {"kv_heads", std::to_string(kv_heads)},
            {"head_dim", std::to_string(head_dims[random_() % head_dims.size()])},
            {"k_layout", pick<std::string>({"sd", "dsx"})},
            {"append", pick<std::string>({"no", "yes"})},
            {"bias", pick<std::string>({"no", "yes"})},
            {"kv_dtype", pick<std::string>({"same", "int8", "fp8"})},
            {"kv_scale", pick<std::string>({"head", "token"})},
            {"page_size", pick<std::string>({"0", "16", "32", "64", "128", "256"})},
            {"window", pick<std::string>({"0", "1", "17", "64", "200"})},
            {"score_bias", pick<std::string>({"none", "alibi", "additive"})},
            {"lse", pick<std::string>({"no", "yes"})},
            {"epilogue", pick<std::string>({"none", "smooth", "quantize"})},
            {"deterministic", pick<std::string>({"no", "yes"})}};
  }
  Dims sizes() {
    const int context = pick<int>({1, 2, 16, 17, 31, 63, 64, 65, 129, 257, 300});
    return {{"batch", std::to_string(pick<int>({4, 1, 2, 3, 6}))},
            {"context", std::to_string(context)},
            {"uneven", pick<std::string>({"yes", "no"})}};
  }
  const Config& config(const std::vector<Config>& from) { return from[random_() % from.size()]; }

 private:
  std::mt19937 random_;
};

std::optional<Problem> legal(const Dims& features, const Dims& sizes, DType dtype) {
  Dims all = features;
  all.insert(all.end(), sizes.begin(), sizes.end());
  try {
    return decode().op.problem(all, dtype);
  } catch (const InputError&) {
    return {};
  }
}

/// At least `cases` of random features: a configuration of each variant, on several sizes that admit it.
std::vector<ChosenConfig> random_cases(unsigned seed, std::size_t cases, const DeviceFacts& facts,
                                       const std::vector<int>& head_dims) {
  Draw draw(seed);
  std::vector<ChosenConfig> chosen;
  while (chosen.size() < cases) {
    const Dims features = draw.features(head_dims);
    const DType dtype = draw.dtype();
    std::vector<Problem> problems;
    for (int i = 0; i < 5; ++i)
      if (const auto problem = legal(features, draw.sizes(), dtype)) problems.push_back(*problem);
    if (problems.empty()) continue;
    for (const Variant& variant : decode().variants) {
      if (variant.backend != facts.backend ||
          (!variant.dtypes.empty() && std::ranges::find(variant.dtypes, dtype) == variant.dtypes.end()))
        continue;
      const auto configs = Space(variant, problems[0], facts).configs();
      if (configs.empty()) continue;
      const Config config = draw.config(configs);
      for (const Problem& problem : problems)
        if (!Space(variant, problem, facts).broken_constraint(config))
          chosen.push_back({&variant, problem, config});
    }
  }
  return chosen;
}

class DecodeCombinations : public ::testing::TestWithParam<unsigned> {};
class GpuDecodeCombinations : public ::testing::TestWithParam<unsigned> {};
TEST_P(DecodeCombinations, HostVariantsMatchTheReference) {
  const auto device = open_device("host");
  check_configs(*device, decode(), random_cases(GetParam(), 40, device->facts(), {64, 80, 16, 6, 50, 96}));
}
TEST_P(GpuDecodeCombinations, CudaVariantsMatchTheReference) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto device = open_device("cuda:0");
  check_configs(*device, decode(),
                random_cases(1000 + GetParam(), 50, device->facts(), {128, 64, 80, 96, 128, 256, 50}));
}
INSTANTIATE_TEST_SUITE_P(Random, DecodeCombinations, ::testing::Range(0u, 10u));
INSTANTIATE_TEST_SUITE_P(Random, GpuDecodeCombinations, ::testing::Range(0u, 40u));

/// Biases of -inf: all keys of the first sequence's heads, and every third key of the others'.
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
  check_cuda_variants(masked(), kMasked, kFloats);
  check_cuda_variants(masked(), kMaskedAppend, kFloats);
}

/// The bytes of the first sequence's outputs for every configuration that a device has for a problem.
std::vector<std::vector<std::byte>> first_sequences(Device& device, const Problem& p) {
  std::vector<std::vector<std::byte>> results;
  const auto specs = decode().op.tensors(p, 7);
  for (const Variant& variant : decode().variants) {
    if (variant.backend != device.facts().backend ||
        (!variant.dtypes.empty() && std::ranges::find(variant.dtypes, p.dtype) == variant.dtypes.end()))
      continue;
    for (const Config& config : Space(variant, p, device.facts()).configs()) {
      const auto plan = device.prepare(variant, p, config);
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
      results.push_back(std::move(bytes));
    }
  }
  return results;
}

/// A deterministic result hangs neither on the batch nor on the configuration, nor on room in the cache that
/// its sequence does not use.
void check_deterministic(Device& device, std::span<const DType> dtypes) {
  for (const DType dtype : dtypes)
    for (const Dims& features : {Dims{}, Dims{kInt8}, Dims{kWindow, kAlibi}, Dims{kAppend}}) {
      std::vector<std::byte> first;
      for (const int batch : {1, 3, 8}) {
        Dims d = dims(batch, 8, 2, 128, 700, features);
        d.push_back(kDeterministic);
        const auto results = first_sequences(device, decode().op.problem(d, dtype));
        ASSERT_FALSE(results.empty());
        if (first.empty()) first = results.front();
        for (const auto& result : results) EXPECT_EQ(result, first) << "batch " << batch;
      }
    }
}
TEST(DecodeFeatures, HostDeterministicBitsHangNotOnTheBatch) {
  check_deterministic(*open_device("host"), kFloats);
}
TEST(GpuDecodeFeatures, DeterministicBitsHangNotOnTheBatch) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  check_deterministic(*open_device("cuda:0"), kFloats);
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
TEST(DecodeOp, FeaturesAtTheirDefaultsGoUnsaid) {
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
