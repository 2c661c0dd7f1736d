#include "harness/core/error.h"
#include "harness/core/philox.h"
#include "tests/support.h"

namespace warptune::testing {
namespace {

class TopK : public ::testing::TestWithParam<Dims> {};
class GpuTopK : public TopK {};

TEST_P(TopK, HostVariantsMatchTheReference) { check_host_variants("top_k", GetParam(), kFloats); }
TEST_P(TopK, CudaVariantsCompile) { check_compiles("top_k", GetParam(), kFloats, 2); }
TEST_P(GpuTopK, CudaVariantsMatchTheReference) { check_cuda_variants("top_k", GetParam(), kFloats, 48); }

Dims dims(const char* batch, const char* vocab, const char* k) {
  return {{"batch", batch}, {"vocab", vocab}, {"k", k}};
}

/// With a repetition penalty, min-p, or both.
Dims dims(const char* batch, const char* vocab, const char* k, const char* penalty, const char* min_p) {
  Dims all = dims(batch, vocab, k);
  all.emplace_back("repetition_penalty", penalty);
  all.emplace_back("min_p", min_p);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Features, TopK,
                         ::testing::Values(dims("2", "32000", "50", "yes", "no"),
                                           dims("3", "1009", "64", "no", "yes"),
                                           dims("7", "257", "100", "yes", "yes"),
                                           dims("2", "1", "1", "yes", "yes")),
                         shape_name);
INSTANTIATE_TEST_SUITE_P(
    Features, GpuTopK,
    ::testing::Values(dims("2", "32000", "50", "yes", "no"), dims("3", "1009", "64", "no", "yes"),
                      dims("7", "257", "100", "yes", "yes"), dims("2", "1", "1", "yes", "yes"),
                      dims("33", "128256", "50", "yes", "yes"), dims("1", "65537", "256", "yes", "no")),
    shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, TopK,
                         ::testing::Values(dims("1", "32000", "50"), dims("7", "1009", "256"),
                                           dims("33", "5", "5"), dims("2", "1", "1"), dims("3", "257", "1")),
                         shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuTopK,
                         ::testing::Values(dims("1", "32000", "50"), dims("3", "128256", "50"),
                                           dims("7", "1009", "256"), dims("33", "5", "5"),
                                           dims("2", "1", "1"), dims("64", "100", "33"),
                                           dims("5", "4096", "1"), dims("2", "65537", "100")),
                         shape_name);

/// Logits that are all below zero, in a falling and rising order.
OpEntry below_zero() {
  return with_input(find_op("top_k"), "logits", [](const Problem&, std::int64_t i) {
    return -300.0f - 2.0f * static_cast<float>(i * 37 % 101);
  });
}

TEST(TopKBugs, HostLogitsMayAllBeBelowZero) {
  check_host_variants(below_zero(), dims("3", "1009", "50"), kFloats);
}
TEST(GpuTopKBugs, LogitsMayAllBeBelowZero) {
  check_cuda_variants(below_zero(), dims("3", "1009", "50"), kFloats, 48);
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
  EXPECT_THROW(op.problem(dims("1", "10", "11"), DType::fp32), InputError);
  EXPECT_THROW(op.problem(dims("1", "1000", "257"), DType::fp32), InputError);
  EXPECT_NO_THROW(op.problem(dims("1", "256", "256"), DType::fp32));
}

/// A sample closer to the edge between two tokens than rounding can tell may be either; the others are exact.
TEST(TopKOp, ASampleOnAnEdgeMayBeEither) {
  constexpr std::int64_t kRows = 50'000;
  const Op& op = find_op("top_k").op;
  const Problem p = op.problem(dims(std::to_string(kRows).c_str(), "2", "2"), DType::fp32);
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
