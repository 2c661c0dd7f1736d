// The errors of TF32 and 3xTF32 attention, emulated on the host: mem_efficient.cu does the same on tensor
// cores.
#include <bit>
#include <cmath>

#include "tests/attention_dims.h"
#include "tests/support.h"

namespace warptune::testing {
namespace {

/// Rounds to TF32, to nearest, ties away from zero: cvt.rna.tf32.f32.
float round_to_tf32(float x) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000u) & 0xffffe000u);
}

/// The nearest fp32 towards zero: tensor cores truncate their sums.
float truncated(double x) {
  const auto nearest = static_cast<float>(x);
  return std::abs(static_cast<double>(nearest)) > std::abs(x) ? std::nextafter(nearest, 0.0f) : nearest;
}

enum class Math { tf32, tf32x3 };

/// sum + a . b, eight products per mma.
float multiply(Math math, float sum, const std::vector<float>& a, const std::vector<float>& b) {
  const auto big = [](float x) { return round_to_tf32(x); };
  const auto small = [](float x) { return round_to_tf32(x - round_to_tf32(x)); };
  const auto mma = [&](std::size_t first, auto from_a, auto from_b) {
    double products = 0;
    for (std::size_t i = first; i < std::min(first + 8, a.size()); ++i)
      products += static_cast<double>(from_a(a[i])) * static_cast<double>(from_b(b[i]));
    sum = truncated(static_cast<double>(sum) + products);
  };
  for (std::size_t first = 0; first < a.size(); first += 8) {
    if (math == Math::tf32x3) {
      mma(first, small, big);
      mma(first, big, small);
    }
    mma(first, big, big);
  }
  return sum;
}

struct Errors {
  double rel_l2, max_rel;
};

/// Attention of eight queries, with fp32 sums per tile of `tile` keys.
Errors errors_of(Math math, std::int64_t keys, std::int64_t tile) {
  constexpr std::int64_t kDim = 64, kQueries = 8;
  const Op& op = find_op("attention_prefill").op;
  const Problem p =
      op.problem(shape(1, kQueries, static_cast<int>(keys), 1, 1, kDim, {{"causal", "no"}}), DType::fp32);
  const auto specs = op.tensors(p, 3);
  const Inputs in(specs, 3);
  const auto run = [&](const char* name, std::int64_t first, std::int64_t count, std::int64_t step) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(static_cast<float>(static_cast<double>(in[name][first + i * step])));
    return values;
  };
  double squares = 0, error_squares = 0, largest = 0, largest_error = 0;
  for (std::int64_t query = 0; query < kQueries; ++query) {
    const auto q = run("q", query * kDim, kDim, 1);
    std::vector<float> weights;
    for (std::int64_t key = 0; key < keys; ++key)
      weights.push_back(multiply(math, 0, q, run("k_cache", key * kDim, kDim, 1)) / 8.0f);
    const float row_max = *std::ranges::max_element(weights);
    double row_sum = 0;
    for (float& w : weights) row_sum += static_cast<double>(w = std::exp(w - row_max));
    Expected expected;
    op.reference(p, in, query, expected);
    for (std::int64_t d = 0; d < kDim; ++d) {
      float out = 0;
      for (std::int64_t key = 0; key < keys; key += tile)
        out += multiply(math, 0, {weights.begin() + key, weights.begin() + key + tile},
                        run("v_cache", key * kDim + d, tile, kDim));
      const double right = expected.runs().at(0).values.at(static_cast<std::size_t>(d));
      const double error = std::abs(static_cast<double>(out) / row_sum - right);
      squares += right * right, error_squares += error * error;
      largest = std::max(largest, std::abs(right)), largest_error = std::max(largest_error, error);
    }
  }
  return {std::sqrt(error_squares / squares), largest_error / largest};
}

Tolerance tolerance_of(const char* precision) {
  const Op& op = find_op("attention_prefill").op;
  return op.tolerance(op.problem(shape(1, 8, 8, 1, 1, 64, {{"precision", precision}}), DType::fp32));
}

TEST(AttentionPrefillTf32Errors, Of3xTf32AreThoseOfFp32) {
  const Errors e = errors_of(Math::tf32x3, 2048, 64);
  EXPECT_LT(e.rel_l2, tolerance_of("ieee").rel_l2 / 2);
  EXPECT_LT(e.max_rel, tolerance_of("ieee").max_rel / 2);
}

TEST(AttentionPrefillTf32Errors, OfTf32AreFarFromFp32) {
  const Errors e = errors_of(Math::tf32, 2048, 64);
  EXPECT_GT(e.rel_l2, 20 * tolerance_of("ieee").rel_l2) << "TF32 would pass as fp32";
  EXPECT_LT(e.rel_l2, tolerance_of("tf32").rel_l2);
  EXPECT_LT(e.max_rel, tolerance_of("tf32").max_rel);
}

/// Why add_columns() of mem_efficient_multiply.cuh sums each tile by itself.
TEST(AttentionPrefillTf32Errors, GrowWithTheSumsOfTensorCores) {
  EXPECT_GT(errors_of(Math::tf32x3, 4096, 4096).rel_l2, 3 * errors_of(Math::tf32x3, 4096, 64).rel_l2);
}

}  // namespace
}  // namespace warptune::testing
