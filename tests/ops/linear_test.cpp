#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "harness/core/error.h"
#include "harness/core/space.h"
#include "kernels/linear/args.h"
#include "kernels/linear/packed_weights.h"
#include "tests/support.h"

namespace warptune::testing {
namespace {

class Linear : public ::testing::TestWithParam<Dims> {};
class GpuLinear : public Linear {};

/// fp16 has no split norm.
std::span<const DType> dtypes_of(const Dims& dims) {
  static constexpr DType kWide[] = {DType::fp32, DType::bf16};
  const bool splits = std::ranges::any_of(
      dims, [](const auto& dim) { return dim.second == "rms_scale" || dim.second == "add_rms"; });
  return splits ? std::span<const DType>(kWide) : std::span<const DType>(kFloats);
}

TEST_P(Linear, HostVariantsMatchTheReference) {
  check_host_variants("linear", GetParam(), dtypes_of(GetParam()));
}
TEST_P(Linear, CudaVariantsCompile) { check_compiles("linear", GetParam(), dtypes_of(GetParam()), 2); }
TEST_P(GpuLinear, CudaVariantsMatchTheReference) {
  check_cuda_variants("linear", GetParam(), dtypes_of(GetParam()), 48);
}

Dims dims(const char* tokens, const char* in, const char* out, const char* bias = "no") {
  return {{"tokens", tokens}, {"in", in}, {"out", out}, {"bias", bias}};
}
Dims fused(const char* tokens, const char* in, const char* out, const char* prologue, const char* epilogue,
           const char* bias = "no") {
  Dims d = dims(tokens, in, out, bias);
  d.emplace_back("prologue", prologue);
  d.emplace_back("epilogue", epilogue);
  return d;
}

/// With quantized weights; `extra`: more dims.
Dims quantized(const char* tokens, const char* in, const char* out, const char* weights, const char* group,
               const Dims& extra = {}) {
  Dims d = dims(tokens, in, out);
  d.emplace_back("weights", weights);
  d.emplace_back("group", group);
  d.insert(d.end(), extra.begin(), extra.end());
  return d;
}

INSTANTIATE_TEST_SUITE_P(
    Quantized, Linear,
    ::testing::Values(
        quantized("1", "128", "48", "int4", "0"), quantized("3", "160", "33", "int4", "32"),
        quantized("2", "384", "40", "int4", "128", {{"zeros", "yes"}}),
        quantized("5", "64", "7", "int4", "64", {{"zeros", "yes"}, {"act_order", "yes"}}),
        quantized("24", "128", "136", "int4", "32",
                  {{"act_order", "yes"}, {"prologue", "rms_scale"}, {"epilogue", "swiglu"}}),
        quantized("1", "256", "24", "int4", "64", {{"epilogue", "swiglu"}}),
        quantized("17", "96", "19", "int8", "0"),
        quantized("2", "128", "64", "int8", "32", {{"act_order", "yes"}}),
        quantized("3", "77", "40", "fp8", "0", {{"prologue", "rms_norm"}}),
        quantized("1", "256", "300", "fp8", "128", {{"epilogue", "argmax"}}),
        quantized("3", "256", "33", "fp8", "0", {{"activations", "fp8"}}),
        quantized("2", "128", "24", "fp8", "128", {{"activations", "fp8"}, {"epilogue", "swiglu"}}),
        quantized("1", "256", "24", "nvfp4", "16", {{"epilogue", "swiglu"}}),
        quantized("3", "176", "33", "nvfp4", "16", {{"prologue", "rms_norm"}}),
        quantized("17", "16", "7", "nvfp4", "16"), quantized("2", "384", "19", "mxfp4", "32"),
        quantized("5", "96", "40", "mxfp4", "32", {{"epilogue", "argmax"}}),
        quantized("1", "512", "33", "q4_k", "32"),
        quantized("3", "256", "24", "q4_k", "32", {{"prologue", "rms_norm"}, {"epilogue", "swiglu"}}),
        quantized("17", "768", "7", "q4_k", "32", {{"epilogue", "add"}}),
        quantized("3", "512", "33", "q5_k", "32"),
        quantized("1", "512", "33", "q6_k", "16", {{"epilogue", "argmax"}}),
        quantized("3", "256", "24", "q6_k", "16", {{"prologue", "rms_norm"}, {"epilogue", "swiglu"}}),
        quantized("17", "768", "7", "q6_k", "16", {{"epilogue", "add"}})),
    shape_name);
INSTANTIATE_TEST_SUITE_P(
    Quantized, GpuLinear,
    ::testing::Values(
        quantized("1", "4096", "512", "int4", "128"), quantized("1", "512", "40", "int4", "0"),
        quantized("1", "11008", "96", "int4", "128", {{"epilogue", "add"}}),
        quantized("1", "1024", "264", "int4", "64", {{"prologue", "rms_norm"}, {"epilogue", "swiglu"}}),
        quantized("1", "1408", "72", "int4", "32", {{"prologue", "rms_norm"}, {"epilogue", "swiglu"}}),
        quantized("1", "384", "41", "int4", "32", {{"act_order", "yes"}, {"epilogue", "argmax"}}),
        quantized("1", "4096", "104", "int4", "128", {{"zeros", "yes"}, {"epilogue", "add"}}),
        quantized("1", "1408", "72", "int4", "64",
                  {{"zeros", "yes"}, {"prologue", "rms_norm"}, {"epilogue", "swiglu"}}),
        quantized("1", "1024", "40", "int4", "32", {{"zeros", "yes"}, {"act_order", "yes"}}),
        quantized("2", "2048", "104", "int4", "32", {{"zeros", "yes"}}),
        quantized("3", "384", "33", "int4", "128", {{"act_order", "yes"}}),
        quantized("5", "1024", "72", "int4", "64", {{"zeros", "yes"}, {"act_order", "yes"}}),
        quantized("8", "2048", "100", "int4", "128", {{"prologue", "rms_norm"}}),
        quantized("4", "160", "24", "int4", "32"), quantized("17", "1024", "130", "int4", "128"),
        quantized("64", "512", "1032", "int4", "32", {{"zeros", "yes"}}),
        quantized("130", "256", "72", "int4", "64", {{"act_order", "yes"}}),
        quantized("2", "12288", "72", "int8", "128", {{"act_order", "yes"}}),
        quantized("16", "640", "264", "int4", "128", {{"act_order", "yes"}, {"epilogue", "add"}}),
        quantized("16", "4096", "520", "int4", "128", {{"epilogue", "add"}}),
        quantized("9", "4096", "521", "int8", "64"), quantized("11", "2048", "264", "q4_k", "32"),
        quantized("24", "1024", "136", "int4", "32",
                  {{"act_order", "yes"}, {"prologue", "rms_scale"}, {"epilogue", "swiglu"}}),
        quantized("300", "4096", "264", "int4", "128",
                  {{"zeros", "yes"}, {"act_order", "yes"}, {"epilogue", "swiglu"}}),
        quantized("1", "4096", "264", "int8", "0"), quantized("2", "1088", "40", "int8", "0"),
        quantized("7", "640", "33", "int8", "128", {{"epilogue", "argmax"}}),
        quantized("33", "512", "264", "int8", "0"), quantized("200", "384", "65", "int8", "32"),
        quantized("1", "2048", "136", "fp8", "0", {{"prologue", "rms_norm"}, {"epilogue", "swiglu"}}),
        quantized("3", "1024", "300", "fp8", "128", {{"epilogue", "add"}}),
        quantized("6", "576", "17", "fp8", "0"), quantized("40", "512", "200", "fp8", "128"),
        quantized("257", "448", "24", "fp8", "0"),
        quantized("16", "1024", "144", "int4", "128", {{"prologue", "rms_scale"}, {"epilogue", "add_rms"}}),
        quantized("8", "1024", "144", "int4", "128", {{"prologue", "rms_scale"}, {"epilogue", "add_rms"}}),
        quantized("5", "4096", "1032", "int8", "0", {{"prologue", "rms_scale"}, {"epilogue", "swiglu"}}),
        quantized("7", "8192", "2064", "fp8", "0", {{"epilogue", "add_rms"}}),
        quantized("6", "1280", "2448", "q4_k", "32", {{"prologue", "rms_scale"}}),
        quantized("24", "1024", "264", "int4", "128", {{"prologue", "rms_scale"}, {"epilogue", "swiglu"}}),
        quantized("64", "512", "208", "int8", "0", {{"epilogue", "add_rms"}}),
        quantized("48", "2048", "4112", "int4", "128", {{"prologue", "rms_scale"}, {"epilogue", "add_rms"}}),
        quantized("50", "512", "1000", "fp8", "128", {{"epilogue", "swiglu"}}),
        quantized("12", "512", "328", "int4", "64", {{"zeros", "yes"}, {"epilogue", "argmax"}}),
        quantized("200", "512", "328", "int4", "32", {{"zeros", "yes"}, {"epilogue", "add"}}),
        quantized("300", "512", "264", "int4", "128", {{"epilogue", "swiglu"}}),
        quantized("270", "256", "136", "fp8", "128", {{"epilogue", "swiglu"}}),
        quantized("129", "384", "520", "int8", "0"),
        quantized("1", "128", "24", "fp8", "0", {{"activations", "fp8"}}),
        quantized("300", "4096", "520", "fp8", "0", {{"activations", "fp8"}}),
        quantized("130", "1152", "264", "fp8", "128", {{"activations", "fp8"}, {"epilogue", "swiglu"}}),
        quantized("513", "256", "136", "fp8", "128", {{"activations", "fp8"}, {"epilogue", "add"}}),
        quantized("257", "1152", "776", "fp8", "0", {{"activations", "fp8"}, {"bias", "yes"}}),
        quantized("140", "512", "264", "fp8", "0", {{"activations", "fp8"}, {"epilogue", "swiglu"}}),
        quantized("385", "2048", "392", "fp8", "128", {{"activations", "fp8"}}),
        quantized("70", "384", "33", "fp8", "0", {{"activations", "fp8"}, {"epilogue", "argmax"}}),
        quantized("20", "512", "264", "int4", "0", {{"zeros", "yes"}}),
        quantized("1", "1024", "264", "int4", "0", {{"zeros", "yes"}}),
        quantized("3", "640", "43", "int4", "0", {{"zeros", "yes"}}),
        quantized("2", "512", "72", "int4", "0",
                  {{"zeros", "yes"}, {"prologue", "rms_norm"}, {"epilogue", "swiglu"}}),
        quantized("1", "4096", "264", "nvfp4", "16"),
        quantized("1", "11008", "96", "nvfp4", "16", {{"epilogue", "add"}}),
        quantized("2", "1024", "136", "nvfp4", "16", {{"prologue", "rms_norm"}, {"epilogue", "swiglu"}}),
        quantized("7", "640", "33", "nvfp4", "16", {{"epilogue", "argmax"}}),
        quantized("3", "176", "33", "nvfp4", "16"), quantized("17", "1152", "130", "nvfp4", "16"),
        quantized("64", "512", "1032", "nvfp4", "16"), quantized("200", "384", "65", "nvfp4", "16"),
        quantized("1", "2048", "520", "mxfp4", "32"), quantized("8", "1024", "19", "mxfp4", "32"),
        quantized("1", "1024", "264", "mxfp4", "32", {{"prologue", "rms_norm"}, {"epilogue", "swiglu"}}),
        quantized("33", "640", "72", "mxfp4", "32"), quantized("130", "256", "264", "mxfp4", "32"),
        quantized("1", "4096", "512", "q4_k", "32"),
        quantized("1", "11008", "96", "q4_k", "32", {{"epilogue", "add"}}),
        quantized("1", "1024", "264", "q4_k", "32", {{"prologue", "rms_norm"}, {"epilogue", "swiglu"}}),
        quantized("2", "2048", "104", "q4_k", "32"),
        quantized("7", "768", "33", "q4_k", "32", {{"epilogue", "argmax"}}),
        quantized("8", "2048", "100", "q4_k", "32", {{"prologue", "rms_norm"}}),
        quantized("17", "1024", "130", "q4_k", "32"), quantized("64", "512", "1032", "q4_k", "32"),
        quantized("16", "1024", "144", "q4_k", "32", {{"prologue", "rms_scale"}, {"epilogue", "add_rms"}}),
        quantized("20", "512", "264", "q4_k", "32", {{"epilogue", "swiglu"}}),
        quantized("200", "768", "328", "q4_k", "32", {{"epilogue", "add"}}),
        quantized("130", "256", "72", "q4_k", "32"), quantized("1", "4096", "512", "q5_k", "32"),
        quantized("1", "11008", "96", "q5_k", "32", {{"epilogue", "add"}}),
        quantized("1", "1024", "264", "q5_k", "32", {{"prologue", "rms_norm"}, {"epilogue", "swiglu"}}),
        quantized("7", "768", "33", "q5_k", "32", {{"epilogue", "argmax"}}),
        quantized("8", "2048", "100", "q5_k", "32", {{"prologue", "rms_norm"}}),
        quantized("17", "1024", "130", "q5_k", "32"), quantized("64", "512", "1032", "q5_k", "32"),
        quantized("16", "1024", "144", "q5_k", "32", {{"prologue", "rms_scale"}, {"epilogue", "add_rms"}}),
        quantized("200", "768", "328", "q5_k", "32", {{"epilogue", "add"}}),
        quantized("1", "4096", "1032", "q6_k", "16", {{"epilogue", "argmax"}}),
        quantized("1", "11008", "96", "q6_k", "16", {{"epilogue", "add"}}),
        quantized("1", "1024", "264", "q6_k", "16", {{"prologue", "rms_norm"}, {"epilogue", "swiglu"}}),
        quantized("2", "2048", "104", "q6_k", "16"),
        quantized("7", "768", "33", "q6_k", "16", {{"epilogue", "argmax"}}),
        quantized("8", "2048", "100", "q6_k", "16", {{"prologue", "rms_norm"}}),
        quantized("17", "1024", "130", "q6_k", "16"), quantized("64", "512", "1032", "q6_k", "16"),
        quantized("16", "1024", "144", "q6_k", "16", {{"prologue", "rms_scale"}, {"epilogue", "add_rms"}}),
        quantized("20", "512", "264", "q6_k", "16", {{"epilogue", "swiglu"}}),
        quantized("200", "768", "328", "q6_k", "16", {{"epilogue", "add"}}),
        quantized("130", "256", "72", "q6_k", "16"), quantized("200", "512", "264", "nvfp4", "16"),
        quantized("20", "512", "264", "nvfp4", "16", {{"epilogue", "swiglu"}}),
        // Rows for all SMs: mma_packed_cp_async beyond 16 tokens, several groups of rows, a last slot in
        // part.
        quantized("17", "1024", "3001", "int4", "128"),
        quantized("20", "512", "4096", "int4", "64", {{"zeros", "yes"}, {"epilogue", "add"}}),
        quantized("64", "640", "9000", "int8", "0"), quantized("40", "512", "3048", "fp8", "128"),
        quantized("33", "640", "2904", "mxfp4", "32"),
        quantized("50", "1152", "2900", "nvfp4", "16", {{"epilogue", "argmax"}}),
        quantized("20", "512", "1504", "q4_k", "32", {{"epilogue", "swiglu"}}),
        quantized("24", "768", "2904", "q6_k", "16", {{"bias", "yes"}})),
    shape_name);

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

/// Scales of groups, and zero points, of many sizes. Some scales are 0, all of every eighth row: a kernel
/// that keeps sums in units of a scale divides by it.
class LinearScales : public Linear {
 protected:
  static OpEntry entry() {
    return with_input(find_op("linear"), "scales", [](const Problem&, std::int64_t i) {
      static constexpr float kScales[] = {0.0625f, -0.25f, 0, 0x1p-24f, 0.01f, 0, -0.002f, 0x1p-14f, 0.125f};
      return i % 8 == 3 ? 0 : kScales[i % std::ssize(kScales)];
    });
  }
};
class GpuLinearScales : public LinearScales {};
TEST_P(LinearScales, HostVariantsMatchTheReference) { check_host_variants(entry(), GetParam(), kFloats); }
TEST_P(GpuLinearScales, CudaVariantsMatchTheReference) {
  check_cuda_variants(entry(), GetParam(), kFloats, 32);
}
const auto kScaledProblems = ::testing::Values(
    quantized("1", "512", "40", "int4", "32"), quantized("2", "768", "24", "int4", "128", {{"zeros", "yes"}}),
    quantized("11", "1024", "72", "int4", "32", {{"zeros", "yes"}}),
    quantized("17", "1024", "72", "int4", "32", {{"zeros", "yes"}}),
    quantized("3", "512", "300", "fp8", "128"),
    quantized("40", "512", "264", "int4", "128", {{"epilogue", "add"}}),
    quantized("12", "512", "136", "int8", "64"), quantized("20", "512", "300", "fp8", "128"));
INSTANTIATE_TEST_SUITE_P(Quantized, LinearScales, kScaledProblems, shape_name);
INSTANTIATE_TEST_SUITE_P(Quantized, GpuLinearScales, kScaledProblems, shape_name);

/// x of unlike magnitudes, for kernels that round it relative to its largest value.
struct MagnitudeCase {
  const char* name;
  float (*x)(std::int64_t i);
};
constexpr MagnitudeCase kMagnitudeCases[] = {
    {"Zeros", [](std::int64_t) { return 0.0f; }},
    {"OneIsLarge", [](std::int64_t i) { return i % 997 == 5 ? 3000.0f : i % 7 * 0.25f - 0.75f; }},
    {"PowersOfTwo", [](std::int64_t i) { return std::ldexp(i % 2 == 0 ? 1.0f : -1.0f, -(i * 7 % 20)); }},
    {"Small", [](std::int64_t i) { return (i % 7 - 3) * 1e-6f; }},
    {"OneIsNan", [](std::int64_t i) { return i == 5 ? NAN : i % 7 * 0.25f; }}};
class LinearMagnitudes : public ::testing::TestWithParam<MagnitudeCase> {
 protected:
  static OpEntry entry() {
    return with_input(find_op("linear"), "x",
                      [x = GetParam().x](const Problem&, std::int64_t i) { return x(i); });
  }
  static std::vector<Dims> problems() {
    return {quantized("1", "1024", "40", "int4", "128"), quantized("1", "512", "40", "int4", "32"),
            quantized("1", "512", "40", "int4", "0"),    quantized("1", "512", "40", "q4_k", "32"),
            quantized("1", "512", "40", "q6_k", "16"),   quantized("1", "512", "40", "int8", "0"),
            quantized("3", "512", "40", "int4", "128")};
  }
};
class GpuLinearMagnitudes : public LinearMagnitudes {};
TEST_P(LinearMagnitudes, HostVariantsMatchTheReference) {
  for (const Dims& dims : problems()) check_host_variants(entry(), dims, kFloats);
}
TEST_P(GpuLinearMagnitudes, CudaVariantsMatchTheReference) {
  for (const Dims& dims : problems()) check_cuda_variants(entry(), dims, kFloats, 8);
}
const auto kMagnitudeName = [](const auto& shown) { return std::string(shown.param.name); };
INSTANTIATE_TEST_SUITE_P(Inputs, LinearMagnitudes, ::testing::ValuesIn(kMagnitudeCases), kMagnitudeName);
INSTANTIATE_TEST_SUITE_P(Inputs, GpuLinearMagnitudes, ::testing::ValuesIn(kMagnitudeCases), kMagnitudeName);

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

TEST(LinearQuantized, WgmmaTakesAnOrderOfColumns) {
  const OpEntry& linear = find_op("linear");
  const Variant& variant = linear.variant("wgmma_packed");
  const DeviceFacts facts = known_device("sm_90a");
  for (const char* tokens : {"2", "64", "2048"})
    for (const char* act_order : {"no", "yes"}) {
      const Problem problem = linear.op.problem(
          quantized(tokens, "4096", "4096", "int4", "128", {{"act_order", act_order}}), DType::bf16);
      const auto configs = Space(variant, problem, facts).configs();
      ASSERT_FALSE(configs.empty()) << problem.key();
      EXPECT_EQ(active_kernels(variant, problem, configs[0]).size(), problem["act_order"] == 1 ? 2u : 1u);
    }
}

// In a step early SMs would take two blocks, and others none.
TEST(LinearQuantized, ABlockThatHasAnSmLeavesNoRoomForAnother) {
  const OpEntry& linear = find_op("linear");
  const DeviceFacts facts = known_device("sm_90a");
  for (const auto& [name, alone] :
       {std::pair("gemv_packed_bulk_copy", "blocks_per_sm"),
        std::pair("mma_packed_cp_async", "blocks_per_sm"), std::pair("wgmma_packed", "persistent")}) {
    const Variant& variant = linear.variant(name);
    const Problem problem = linear.op.problem(quantized("8", "4096", "4096", "int8", "0"), DType::bf16);
    int count = 0;
    for (const Config& config : Space(variant, problem, facts).configs()) {
      if (config[alone] != 1 || config["pdl"] == 0) continue;
      const Launch launch = launch_of(variant, variant.stages.back(), problem, config, facts);
      EXPECT_GT(2 * (launch.shared_bytes + 1024), facts.shared_per_sm) << name << ' ' << config.str();
      EXPECT_LE(launch.shared_bytes, facts.shared_per_block) << name << ' ' << config.str();
      ++count;
    }
    EXPECT_GT(count, 10) << name;
  }
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

// A row of zeros and tiny values keeps zeros at 0: 0 times an infinite 1 / scale would be NaN.
TEST(LinearActivations, EveryScaleHasAFiniteInverse) {
  for (const float largest : {0.0f, 1e-45f, 1e-38f, 1e-36f, 1e-30f, 1e-20f, 1.0f, 448.0f, 3e38f}) {
    const float inverse = 1 / activation_scale(largest);
    EXPECT_TRUE(std::isfinite(inverse)) << largest;
    EXPECT_LE(largest * inverse, 448.001f) << largest;
  }
}

}  // namespace
}  // namespace warptune::testing
