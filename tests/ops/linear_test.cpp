#include <fmt/format.h>

#include <cstring>
#include <span>
#include <utility>

#include "harness/core/error.h"
#include "harness/core/space.h"
#include "kernels/linear/args.h"
#include "kernels/linear/packed_weights.h"
#include "tests/linear_dims.h"

namespace warptune::testing {
namespace {

class Linear : public ::testing::TestWithParam<Dims> {};
class GpuLinear : public Linear {};

TEST_P(Linear, HostVariantsMatchTheReference) {
  check_host_variants("linear", GetParam(), dtypes_of(GetParam()));
}
TEST_P(Linear, CudaVariantsCompile) { check_compiles("linear", GetParam(), dtypes_of(GetParam()), 2); }
TEST_P(GpuLinear, CudaVariantsMatchTheReference) {
  check_cuda_variants("linear", GetParam(), dtypes_of(GetParam()), 48);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Linear,
    ::testing::Values(
        dims("1", "512", "96"), dims("3", "257", "33", "yes"), dims("17", "104", "7", "yes"),
        dims("1", "1", "1"), fused("1", "512", "96", "rms_norm", "swiglu"),
        fused("3", "257", "33", "none", "add", "yes"), fused("2", "64", "40", "rms_norm", "add"),
        fused("4", "128", "17", "rms_norm", "none", "yes"), fused("9", "72", "8", "none", "swiglu"),
        fused("20", "192", "52", "rms_norm", "swiglu"), fused("64", "128", "24", "rms_norm", "add"),
        dims("257", "72", "24", "yes"), fused("129", "64", "136", "none", "swiglu"),
        fused("130", "200", "8", "none", "add", "yes"), fused("1", "64", "97", "none", "argmax"),
        fused("2", "40", "33", "rms_norm", "argmax"), fused("3", "257", "7", "none", "argmax", "yes"),
        fused("8", "128", "130", "rms_norm", "argmax"), fused("17", "64", "1003", "none", "argmax"),
        fused("1", "2816", "24", "rms_norm", "swiglu"), dims("3", "1600", "40", "yes"),
        fused("8", "1056", "32", "rms_scale", "add_rms"), fused("3", "208", "33", "rms_scale", "none", "yes"),
        fused("2", "64", "40", "rms_scale", "swiglu"), fused("5", "32", "7", "rms_scale", "argmax"),
        fused("1", "257", "48", "none", "add_rms", "yes"), fused("9", "48", "64", "rms_scale", "add_rms")),
    shape_name);
INSTANTIATE_TEST_SUITE_P(
    Shapes, GpuLinear,
    ::testing::Values(
        dims("1", "4096", "512"), dims("1", "11008", "100", "yes"), dims("1", "1", "1"),
        dims("1", "257", "33"), dims("1", "2050", "19", "yes"), dims("1", "520", "1031"),
        dims("2", "4096", "300"), dims("3", "100", "7", "yes"), dims("5", "1000", "129"),
        dims("8", "512", "96", "yes"), dims("8", "77", "13"), dims("17", "100", "67", "yes"),
        dims("64", "1024", "192"), dims("129", "264", "131", "yes"), dims("200", "333", "77"),
        dims("33", "8", "8"), fused("1", "4096", "512", "rms_norm", "swiglu"),
        fused("1", "2048", "768", "rms_norm", "none"), fused("1", "5632", "2048", "none", "add"),
        fused("1", "5120", "136", "rms_norm", "none", "yes"),
        fused("1", "2304", "1032", "rms_norm", "argmax"), fused("2", "1408", "40", "rms_norm", "add"),
        fused("3", "1984", "48", "none", "add", "yes"), fused("4", "2624", "96", "rms_norm", "swiglu"),
        fused("1", "14336", "272", "none", "swiglu"), fused("5", "1024", "48", "none", "add_rms", "yes"),
        fused("8", "1056", "32", "rms_scale", "add_rms"), fused("8", "2048", "64", "rms_scale", "swiglu"),
        fused("7", "2112", "304", "rms_scale", "argmax"), fused("8", "1088", "48", "rms_scale", "add_rms"),
        fused("1", "257", "33", "rms_norm", "add", "yes"), fused("2", "1024", "96", "rms_norm", "swiglu"),
        fused("3", "520", "130", "none", "add", "yes"), fused("4", "512", "1031", "rms_norm", "add"),
        fused("8", "4096", "256", "rms_norm", "swiglu"), fused("16", "2048", "96", "none", "add"),
        fused("33", "256", "64", "rms_norm", "none", "yes"), fused("64", "1024", "192", "rms_norm", "swiglu"),
        fused("64", "4096", "2064", "none", "add_rms", "yes"), fused("40", "1024", "4112", "none", "add_rms"),
        fused("64", "8192", "136", "rms_scale", "none", "yes"),
        fused("20", "1088", "304", "rms_scale", "swiglu"),
        // Tensor-core streams: several groups of rows per block, ragged ends, K split by clusters.
        dims("2", "512", "5000"), dims("7", "2048", "1000", "yes"), dims("16", "4096", "1544"),
        dims("48", "11008", "264"), fused("5", "320", "9001", "rms_norm", "add"),
        fused("24", "4096", "2100", "rms_norm", "none"), fused("40", "128", "6404", "rms_norm", "swiglu"),
        fused("64", "4096", "384", "none", "add"), fused("64", "2048", "1100", "rms_norm", "swiglu"),
        // wgmma streams: K split by clusters, x by multicast, several work tiles per block, padded tokens.
        dims("64", "4096", "4096"), dims("33", "4104", "3080", "yes"), dims("20", "512", "40008", "yes"),
        fused("64", "2048", "2048", "none", "add"), fused("50", "1032", "16392", "none", "add", "yes"),
        fused("16", "4096", "14336", "none", "swiglu"), fused("64", "1024", "8200", "none", "swiglu"),
        // Argmax: blocks without rows, ragged ends, a token's outputs in one block or in all.
        fused("1", "4096", "1031", "none", "argmax"), fused("1", "2048", "128256", "rms_norm", "argmax"),
        fused("1", "512", "7", "none", "argmax", "yes"), fused("1", "264", "1", "none", "argmax"),
        fused("2", "520", "1030", "rms_norm", "argmax"), fused("3", "100", "7", "none", "argmax", "yes"),
        fused("4", "512", "1032", "rms_norm", "argmax"), fused("8", "1000", "129", "none", "argmax"),
        fused("8", "512", "5000", "none", "argmax"), fused("17", "2048", "1003", "rms_norm", "argmax"),
        fused("40", "1024", "6404", "none", "argmax"), fused("64", "1024", "1100", "none", "argmax"),
        // RMSNorm split between two GEMMs: more tokens than scale warps, K split by clusters whose blocks
        // have odd parts, x by multicast, several work tiles per block.
        fused("1", "512", "112", "rms_scale", "none"), fused("3", "208", "48", "none", "add_rms", "yes"),
        fused("5", "4096", "6144", "rms_scale", "none"), fused("3", "4096", "4096", "none", "add_rms"),
        fused("8", "4096", "1032", "rms_scale", "swiglu"), fused("64", "4096", "4096", "none", "add_rms"),
        fused("33", "1040", "3088", "rms_scale", "none", "yes"),
        fused("20", "528", "16400", "none", "add_rms", "yes"),
        fused("64", "1024", "8200", "rms_scale", "swiglu"),
        fused("17", "2048", "1008", "rms_scale", "argmax"),
        fused("64", "1024", "32008", "rms_scale", "argmax"), fused("2", "112", "64", "rms_scale", "add_rms"),
        // Prompts: token tiles and weight tiles that end in padding, more work tiles than SMs, a single one.
        dims("65", "64", "8"), dims("300", "520", "1032", "yes"), dims("1025", "256", "12288"),
        dims("128", "4096", "256"), fused("257", "328", "264", "none", "add"),
        fused("129", "200", "136", "none", "add", "yes"), fused("500", "1024", "2056", "none", "swiglu"),
        fused("640", "2048", "5504", "none", "swiglu")),
    shape_name);

/// Epilogue argmax on chosen weights w(row, column); x is 1, so y is the sum of a row in each token.
struct ArgmaxCase {
  const char* name;
  float (*w)(std::int64_t o, std::int64_t i);
};
constexpr ArgmaxCase kArgmaxCases[] = {
    {"AllEqual", [](std::int64_t, std::int64_t) { return 0.5f; }},
    {"AllZeroOfBothSigns", [](std::int64_t o, std::int64_t) { return o % 2 == 0 ? -0.0f : 0.0f; }},
    {"AllBelowZero",
     [](std::int64_t o, std::int64_t) { return -0.25f - static_cast<float>(o * 37 % 101) / 128; }},
    {"MaximaEverywhere",
     [](std::int64_t o, std::int64_t) { return o % 5 == 3 ? 1.0f : -static_cast<float>(o % 7); }},
    {"TheLast", [](std::int64_t o, std::int64_t) { return static_cast<float>(o) / 256; }},
    {"EqualOnlyAsRounded",
     [](std::int64_t o, std::int64_t i) { return i == 0 ? static_cast<float>(o) / 4096 : 1; }}};
class LinearArgmax : public ::testing::TestWithParam<ArgmaxCase> {
 protected:
  static OpEntry entry() {
    const auto one = with_input(find_op("linear"), "x", [](const Problem&, std::int64_t) { return 1.0f; });
    return with_input(one, "weight", [w = GetParam().w](const Problem& p, std::int64_t i) {
      return w(i / p["in"], i % p["in"]);
    });
  }
};
class GpuLinearArgmax : public LinearArgmax {};
TEST_P(LinearArgmax, HostVariantsMatchTheReference) {
  check_host_variants(entry(), fused("3", "64", "101", "none", "argmax"), kFloats);
}
TEST_P(GpuLinearArgmax, CudaVariantsMatchTheReference) {
  for (const char* tokens : {"1", "3", "8", "20"})
    check_cuda_variants(entry(), fused(tokens, "128", "1004", "none", "argmax"), kFloats, 32);
}
const auto kArgmaxName = [](const auto& shown) { return std::string(shown.param.name); };
INSTANTIATE_TEST_SUITE_P(Weights, LinearArgmax, ::testing::ValuesIn(kArgmaxCases), kArgmaxName);
INSTANTIATE_TEST_SUITE_P(Weights, GpuLinearArgmax, ::testing::ValuesIn(kArgmaxCases), kArgmaxName);

/// The weights of this GEMM serve as those of the next one.
template <class T>
Args with_next(const Args& bound, std::int64_t rows, std::int64_t row_bytes) {
  T args;
  EXPECT_EQ(bound.size(), sizeof args);
  std::memcpy(&args, bound.data(), sizeof args);
  args.next_weight = args.weight;
  args.next_rows = static_cast<int>(rows);
  args.next_row_bytes = static_cast<int>(row_bytes);
  return Args(args);
}
Args with_next_weight(const Problem& problem, const Args& bound) {
  const std::int64_t in = problem["in"], out = problem["out"];
  if (problem["weights"] == kWeightsSame) return with_next<PrefetchLinearArgs>(bound, out, in * 2);
  return with_next<QuantizedLinearArgs>(bound, out / kBlockRows, in / 2 * kBlockRows);  // int4
}

TEST(LinearArgs, HoldTheNextWeightsInEveryProblem) {
  const Op& op = find_op("linear").op;
  for (const char* epilogue : {"none", "add"})
    EXPECT_EQ(op.args_bytes(op.problem(fused("1", "64", "64", "none", epilogue), DType::bf16)),
              sizeof(PrefetchLinearArgs))
        << "a kernel that prefetches reads them";
}

TEST(GpuLinearPrefetch, ChangesNoResult) {
  const OpEntry& linear = find_op("linear");
  struct Case {
    const char *variant, *tokens, *in, *out, *epilogue;
    std::string shape;
  };
  const Case cases[] = {
      {"gemv_vectorized", "1", "4096", "4096", "add", "warps=4,warps_per_row=4,rows=4,unroll=1"},
      {"gemv_vectorized", "3", "520", "1336", "none", "warps=8,warps_per_row=1,rows=4,unroll=1"},
      {"gemv_bulk_copy", "1", "4096", "4096", "add",
       "blocks_per_sm=1,warps=8,rows=4,tile_k=512,stages=6,register_tiles=1,stagger=1"},
      {"gemv_bulk_copy", "3", "520", "136", "add",
       "blocks_per_sm=2,warps=16,rows=2,tile_k=512,stages=3,register_tiles=0,stagger=0"},
      {"gemv_mma", "1", "4096", "4096", "add", "blocks_per_sm=1,rows=4,tile_k=2048,stages=12"},
      {"gemv_mma", "3", "5632", "136", "add", "blocks_per_sm=1,rows=8,tile_k=2048,stages=4"},
      {"gemv_mma", "8", "4096", "4096", "add_rms", "blocks_per_sm=1,rows=16,tile_k=1024,stages=6"},
      {"wgmma_streaming", "8", "4096", "4096", "add_rms",
       "rows=64,tile_k=128,stages=10,warpgroups=1,cluster_k=2,cluster_m=1,evict_first=1,persistent=1,"
       "early_stages=6"},
      {"wgmma_streaming", "33", "1024", "520", "add",
       "rows=64,tile_k=128,stages=6,warpgroups=1,cluster_k=1,cluster_m=1,evict_first=1,persistent=1,"
       "early_stages=0"},
      {"gemv_packed_cp_async", "1", "4096", "4096", "add", "blocks_per_sm=1,warps=16,tiles=2,stages=4"},
      {"gemv_packed_bulk_copy", "1", "4096", "4096", "add",
       "blocks_per_sm=1,warps=16,tiles=2,stages=4,cluster_k=1"}};
  const auto choose = [&](const DeviceFacts& facts) {
    std::vector<ChosenConfig> chosen;
    for (const Case& c : cases) {
      const Variant& variant = linear.variant(c.variant);
      const bool has_pdl = variant.name != "gemv_vectorized";
      if (!takes(variant, DType::bf16) || (has_pdl && !facts.has_bulk_copy())) continue;
      Dims dims = fused(c.tokens, c.in, c.out, "none", c.epilogue);
      if (variant.name.starts_with("gemv_packed"))
        dims.insert(dims.end(), {{"weights", "int4"}, {"group", "128"}});
      const Problem problem = linear.op.problem(dims, DType::bf16);
      for (const int mib : {4, 8}) {
        std::string values = c.shape + (has_pdl ? ",pdl=1" : ",pdl=0");
        for (const Parameter& p : variant.parameters)
          if (p.name.ends_with("prefetch")) values += fmt::format(",{}={}", p.name, mib);
        const Config config = parse_config(variant, values);
        EXPECT_EQ(Space(variant, problem, facts).why_excluded(config), "") << config.str();
        chosen.push_back({&variant, problem, config});
      }
    }
    return chosen;
  };
  check_on_gpu(choose, [&](Device& device, std::span<const ChosenConfig> chosen) {
    check_configs(device, linear, chosen, with_next_weight);
  });
}

TEST(LinearTolerance, GrowsWithTheRootOfTheLengthInFp32) {
  const Op& op = find_op("linear").op;
  const auto bound = [&](const char* in, DType dtype) {
    return op.tolerance(op.problem(Dims{{"tokens", "1"}, {"in", in}, {"out", "1"}}, dtype)).rel_l2;
  };
  EXPECT_DOUBLE_EQ(bound("64", DType::fp32), 2e-6) << "the default";
  EXPECT_DOUBLE_EQ(bound("65536", DType::fp32), 256 * 0x1p-24);
  EXPECT_EQ(bound("65536", DType::bf16), bound("64", DType::bf16));
}

TEST(LinearDims, SquaresAreOfWholeGroups) {
  const Op& op = find_op("linear").op;
  EXPECT_THROW(
      op.problem(Dims{{"tokens", "2"}, {"in", "40"}, {"out", "32"}, {"prologue", "rms_scale"}}, DType::bf16),
      InputError);
  EXPECT_THROW(
      op.problem(Dims{{"tokens", "2"}, {"in", "32"}, {"out", "40"}, {"epilogue", "add_rms"}}, DType::bf16),
      InputError);
}

// x times the norm's weight is stored before it is scaled.
TEST(LinearDims, Fp16HasNoSplitNorm) {
  for (const auto& [prologue, epilogue] : {std::pair("rms_scale", "none"), std::pair("none", "add_rms")}) {
    const Dims dims = fused("2", "32", "32", prologue, epilogue);
    EXPECT_THROW(find_op("linear").op.problem(dims, DType::fp16), InputError);
    EXPECT_NO_THROW(find_op("linear").op.problem(dims, DType::bf16));
  }
}

TEST(LinearDims, SwigluTakesNoBias) {
  EXPECT_THROW(find_op("linear").op.problem(fused("1", "8", "8", "none", "swiglu", "yes"), DType::bf16),
               InputError);
}
TEST(LinearDims, APlainProblemKeepsItsKey) {
  const Problem p = find_op("linear").op.problem(fused("1", "8", "8", "none", "none"), DType::bf16);
  EXPECT_EQ(p.key(), "linear[tokens=1,in=8,out=8,bias=no,dtype=bf16]");
  EXPECT_EQ(find_op("linear").op.problem(fused("1", "8", "8", "none", "argmax"), DType::bf16).key(),
            "linear[tokens=1,in=8,out=8,bias=no,epilogue=argmax,dtype=bf16]");
}

}  // namespace
}  // namespace warptune::testing
