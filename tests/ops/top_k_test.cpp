#include <array>
#include <cmath>

#include "harness/core/error.h"
#include "harness/core/philox.h"
#include "harness/device/device.h"
#include "kernels/top_k/args.h"
#include "tests/support.h"

namespace warptune::testing {
namespace {

class TopK : public ::testing::TestWithParam<Dims> {};
class GpuTopK : public TopK {};

TEST_P(TopK, HostVariantsMatchTheReference) { check_host_variants("top_k", GetParam(), kFloats); }
TEST_P(TopK, CudaVariantsCompile) { check_compiles("top_k", GetParam(), kFloats, 2); }
TEST_P(GpuTopK, CudaVariantsMatchTheReference) { check_cuda_variants("top_k", GetParam(), kFloats, 48); }

Dims logits_dims(const char* batch, const char* vocab, const char* k) {
  return {{"batch", batch}, {"vocab", vocab}, {"k", k}};
}

/// With a repetition penalty, min-p, or both.
Dims logits_dims(const char* batch, const char* vocab, const char* k, const char* penalty,
                 const char* min_p) {
  Dims all = logits_dims(batch, vocab, k);
  all.emplace_back("repetition_penalty", penalty);
  all.emplace_back("min_p", min_p);
  return all;
}

// More candidates than a block holds, up to all logits.
INSTANTIATE_TEST_SUITE_P(ManyCandidates, TopK,
                         ::testing::Values(logits_dims("2", "1009", "257"), logits_dims("3", "1009", "1009"),
                                           logits_dims("2", "1009", "1009", "yes", "yes")),
                         shape_name);
INSTANTIATE_TEST_SUITE_P(ManyCandidates, GpuTopK,
                         ::testing::Values(logits_dims("2", "1009", "257"), logits_dims("33", "1009", "1009"),
                                           logits_dims("2", "32000", "1000"),
                                           logits_dims("2", "32000", "32000", "no", "yes"),
                                           logits_dims("2", "1009", "1009", "yes", "yes")),
                         shape_name);
INSTANTIATE_TEST_SUITE_P(Features, TopK,
                         ::testing::Values(logits_dims("2", "32000", "50", "yes", "no"),
                                           logits_dims("3", "1009", "64", "no", "yes"),
                                           logits_dims("7", "257", "100", "yes", "yes"),
                                           logits_dims("2", "1", "1", "yes", "yes")),
                         shape_name);
INSTANTIATE_TEST_SUITE_P(Features, GpuTopK,
                         ::testing::Values(logits_dims("2", "32000", "50", "yes", "no"),
                                           logits_dims("3", "1009", "64", "no", "yes"),
                                           logits_dims("7", "257", "100", "yes", "yes"),
                                           logits_dims("2", "1", "1", "yes", "yes"),
                                           logits_dims("33", "128256", "50", "yes", "yes"),
                                           logits_dims("1", "65537", "256", "yes", "no")),
                         shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, TopK,
                         ::testing::Values(logits_dims("1", "32000", "50"), logits_dims("7", "1009", "256"),
                                           logits_dims("33", "5", "5"), logits_dims("2", "1", "1"),
                                           logits_dims("3", "257", "1")),
                         shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuTopK,
                         ::testing::Values(logits_dims("1", "32000", "50"), logits_dims("3", "128256", "50"),
                                           logits_dims("7", "1009", "256"), logits_dims("33", "5", "5"),
                                           logits_dims("2", "1", "1"), logits_dims("64", "100", "33"),
                                           logits_dims("5", "4096", "1"), logits_dims("2", "65537", "100")),
                         shape_name);

/// Logits that are all below zero, in a falling and rising order.
OpEntry logits_below_zero() {
  return with_input(find_op("top_k"), "logits", [](const Problem&, std::int64_t i) {
    return -300.0f - 2.0f * static_cast<float>(i * 37 % 101);
  });
}

TEST(TopKBugs, HostLogitsMayAllBeBelowZero) {
  check_host_variants(logits_below_zero(), logits_dims("3", "1009", "50"), kFloats);
}
TEST(GpuTopKBugs, LogitsMayAllBeBelowZero) {
  check_cuda_variants(logits_below_zero(), logits_dims("3", "1009", "50"), kFloats, 48);
}

/// Every second row holds NaN, infinities or both among its logits; the others only -infinity.
OpEntry logits_not_finite() {
  return with_input(find_op("top_k"), "logits", [](const Problem& p, std::int64_t i) {
    const std::int64_t row = i / p["vocab"], column = i % p["vocab"];
    if (column % 50 == 7) return -INFINITY;
    if (row % 4 == 1 && column % 40 == 33) return INFINITY;
    if (row % 4 == 2 && column % 40 == 35) return NAN;
    if (row % 4 == 3 && column >= 400) return column % 2 ? NAN : INFINITY;
    return static_cast<float>(i * 37 % 101) / 16;
  });
}
OpEntry all_below_every_number() {
  return with_input(find_op("top_k"), "logits", [](const Problem&, std::int64_t) { return -INFINITY; });
}

TEST(TopKBugs, HostLogitsMayBeInfiniteOrNaN) {
  for (const char* k : {"1", "50", "1009"}) {
    check_host_variants(logits_not_finite(), logits_dims("8", "1009", k), kFloats);
    check_host_variants(logits_not_finite(), logits_dims("8", "1009", k, "yes", "yes"), kFloats);
    check_host_variants(all_below_every_number(), logits_dims("2", "1009", k), kFloats);
  }
}
TEST(GpuTopKBugs, LogitsMayBeInfiniteOrNaN) {
  for (const char* k : {"1", "50", "1009"}) {
    check_cuda_variants(logits_not_finite(), logits_dims("8", "1009", k), kFloats, 48);
    check_cuda_variants(logits_not_finite(), logits_dims("8", "1009", k, "yes", "yes"), kFloats, 48);
    check_cuda_variants(all_below_every_number(), logits_dims("2", "1009", k), kFloats, 48);
  }
}

/// What is taken where no probability is defined, without the reference of the op.
TEST(TopKBugs, TheFirstOfTheLargestIsTakenWhereItIsNotFinite) {
  const auto device = open_device("host");
  const Op& op = find_op("top_k").op;
  const auto sampled = [&](std::vector<float> logits) {
    const Problem p = op.problem(
        Assignment{{"batch", 1}, {"vocab", std::ssize(logits)}, {"k", std::ssize(logits)}}, DType::fp32);
    std::array<std::uint64_t, 2> rng = {1, 2};
    int id = -1;
    const TopKArgs args{.logits = logits.data(),
                        .rng = reinterpret_cast<const unsigned long long*>(rng.data()),
                        .ids = &id,
                        .batch = 1,
                        .temperature = 1,
                        .p = 0.9f};
    device->prepare(find_op("top_k").variant("host_naive"), p, {})->launch(&args, device->stream());
    return id;
  };
  EXPECT_EQ(sampled({1, INFINITY, 3, INFINITY}), 1);
  EXPECT_EQ(sampled({1, INFINITY, NAN, NAN}), 2);
  EXPECT_EQ(sampled({-INFINITY, -INFINITY, -INFINITY}), 0);
  EXPECT_EQ(sampled({-INFINITY, -INFINITY, 5}), 2);
}

// The known answers published with Random123 (kat_vectors: philox4x32, 10 rounds).
TEST(Philox, MatchesTheKnownAnswers) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32_10({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(TopKDims, RefuseMoreCandidatesThanThereAre) {
  const Op& op = find_op("top_k").op;
  EXPECT_THROW(op.problem(logits_dims("1", "10", "11"), DType::fp32), InputError);
  EXPECT_NO_THROW(op.problem(logits_dims("1", "1000", "1000"), DType::fp32));
}

/// A sample closer to the edge between two tokens than rounding can tell may be either; the others are exact.
TEST(TopKOp, ASampleOnAnEdgeMayBeEither) {
  constexpr std::int64_t kRows = 50'000;
  const Op& op = find_op("top_k").op;
  const Problem p = op.problem(logits_dims(std::to_string(kRows).c_str(), "2", "2"), DType::fp32);
  const auto specs = op.tensors(p, 1);
  const Inputs in(specs, 1);
  int on_an_edge = 0;
  for (std::int64_t row = 0; row < kRows; ++row) {
    Expected out;
    op.reference(p, in, row, out);
    const auto& run = out.runs().at(0);
    if (run.also.empty()) continue;
    ++on_an_edge;
    EXPECT_EQ(run.also, std::vector<double>{1 - run.values.at(0)}) << row;
  }
  EXPECT_GE(on_an_edge, 1);
  EXPECT_LE(on_an_edge, 100);
}

}  // namespace
}  // namespace warptune::testing
