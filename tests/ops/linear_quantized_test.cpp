// The op linear on quantized weights (kernels/linear/packed_weights.h).
#include <cmath>
#include <utility>

#include "harness/core/space.h"
#include "kernels/linear/packed_weights.h"
#include "tests/linear_dims.h"

namespace warptune::testing {
namespace {

class QuantizedLinear : public ::testing::TestWithParam<Dims> {};
class GpuQuantizedLinear : public QuantizedLinear {};

TEST_P(QuantizedLinear, HostVariantsMatchTheReference) {
  check_host_variants("linear", GetParam(), dtypes_of(GetParam()));
}
TEST_P(QuantizedLinear, CudaVariantsCompile) {
  check_compiles("linear", GetParam(), dtypes_of(GetParam()), 2);
}
TEST_P(GpuQuantizedLinear, CudaVariantsMatchTheReference) {
  check_cuda_variants("linear", GetParam(), dtypes_of(GetParam()), 48);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, QuantizedLinear,
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
    Shapes, GpuQuantizedLinear,
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
        quantized("1", "576", "40", "fp8", "0", {{"bias", "yes"}}),
        quantized("1", "1152", "264", "fp8", "128", {{"prologue", "rms_norm"}}),
        quantized("3", "1024", "300", "fp8", "128", {{"epilogue", "add"}}),
        quantized("6", "576", "17", "fp8", "0"), quantized("40", "512", "200", "fp8", "128"),
        quantized("257", "448", "24", "fp8", "0"),
        // Scales of blocks: more than 32 steps of a warp, several work tiles, ups that begin within a block.
        quantized("1", "9216", "2200", "fp8", "128", {{"epilogue", "swiglu"}}),
        quantized("2", "9216", "2200", "fp8", "128"), quantized("7", "1280", "4300", "fp8", "128"),
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
        quantized("257", "2048", "776", "fp8", "0", {{"activations", "fp8"}, {"epilogue", "add"}}),
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

/// Scales of groups, and zero points, of many sizes. Some scales are 0, all of every eighth row: a kernel
/// that keeps sums in units of a scale divides by it.
class LinearScales : public QuantizedLinear {
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
            quantized("3", "512", "40", "int4", "128"),  quantized("1", "1024", "40", "fp8", "0"),
            quantized("1", "512", "256", "fp8", "128")};
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
