#include <algorithm>

#include "harness/core/space.h"
#include "harness/device/device.h"
#include "kernels/causal_mask/args.h"
#include "tests/support.h"

namespace warptune::testing {
namespace {

class CausalMask : public ::testing::TestWithParam<Dims> {};
class GpuCausalMask : public CausalMask {};
class CausalMaskCompile : public CausalMask {};

TEST_P(CausalMask, HostVariantsMatchTheReference) { check_host_variants("causal_mask", GetParam(), kFloats); }
TEST_P(CausalMaskCompile, CudaVariantsCompile) { check_compiles("causal_mask", GetParam(), kFloats, 3); }
TEST_P(GpuCausalMask, CudaVariantsMatchTheReference) {
  check_cuda_variants("causal_mask", GetParam(), kFloats);
}

const auto kCausalMaskShapes =
    ::testing::Values(Dims{{"batch", "1"}, {"max_q_len", "1"}, {"max_k_len", "1"}},
                      Dims{{"batch", "3"}, {"max_q_len", "5"}, {"max_k_len", "16"}},
                      Dims{{"batch", "2"}, {"max_q_len", "7"}, {"max_k_len", "7"}},
                      Dims{{"batch", "5"}, {"max_q_len", "13"}, {"max_k_len", "129"}},
                      Dims{{"batch", "2"}, {"max_q_len", "64"}, {"max_k_len", "192"}});
INSTANTIATE_TEST_SUITE_P(Shapes, CausalMask, kCausalMaskShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuCausalMask, kCausalMaskShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, CausalMaskCompile,
                         ::testing::Values(Dims{{"batch", "2"}, {"max_q_len", "64"}, {"max_k_len", "192"}},
                                           Dims{{"batch", "5"}, {"max_q_len", "13"}, {"max_k_len", "129"}}),
                         shape_name);

/// The visible keys of every query, written as rows of 0 and 1.
struct Example {
  std::vector<int> q_lens, k_lens;
  std::vector<std::string> rows;  // [batch * max_q_len] of max_k_len characters
};

// Source notes, "BuildCausalMask": queries 3, 5, 4 behind contexts of 10, 8, 12.
const Example kFirst{
    {3, 5, 4},
    {13, 13, 16},
    {"1111111111100000", "1111111111110000", "1111111111111000", "0000000000000000", "0000000000000000",
     "1111111110000000", "1111111111000000", "1111111111100000", "1111111111110000", "1111111111111000",
     "1111111111111000", "1111111111111100", "1111111111111110", "1111111111111111", "0000000000000000"}};
// The same notes: queries 3 and 5, keys 7 and 9; the context is 4 in both.
const Example kSecond{{3, 5},
                      {7, 9},
                      {"111110000", "111111000", "111111100", "000000000", "000000000", "111110000",
                       "111111000", "111111100", "111111110", "111111111"}};

void check_example(Device& device, const Example& example) {
  const OpEntry& entry = find_op("causal_mask");
  const auto batch = static_cast<std::int64_t>(example.q_lens.size());
  const auto keys = static_cast<std::int64_t>(example.rows[0].size());
  const Problem problem = entry.op.problem(
      Assignment{{"batch", batch}, {"max_q_len", std::ranges::max(example.q_lens)}, {"max_k_len", keys}},
      DType::fp32);
  const Buffer q_lens = device.allocate(example.q_lens.size() * 4),
               k_lens = device.allocate(example.k_lens.size() * 4),
               mask = device.allocate(example.rows.size() * static_cast<std::size_t>(keys) * 4);
  device.upload(q_lens.data(), example.q_lens.data(), q_lens.bytes(), device.stream());
  device.upload(k_lens.data(), example.k_lens.data(), k_lens.bytes(), device.stream());
  const CausalMaskArgs args{.q_lens = q_lens.as<int>(),
                            .k_lens = k_lens.as<int>(),
                            .mask = mask.data(),
                            .batch = static_cast<int>(batch)};
  for (const Variant& variant : entry.variants) {
    if (variant.backend != device.facts().backend) continue;
    for (const Config& config : Space(variant, problem, device.facts()).configs()) {
      device.set_bytes(mask.data(), 0xff, mask.bytes(), device.stream());
      device.prepare(variant, problem, config)->launch(&args, device.stream());
      device.synchronize();
      std::vector<float> got(mask.bytes() / 4);
      device.download(got.data(), mask.data(), mask.bytes());
      std::string want, text;
      for (const std::string& row : example.rows) want += row;
      for (const float x : got) text += x == 1.0f ? '1' : x == 0.0f ? '0' : '?';
      EXPECT_EQ(text, want) << variant.name << " " << config.str();
    }
  }
}

TEST(CausalMaskExamples, HostMatchesTheNotes) {
  const auto device = open_device("host");
  check_example(*device, kFirst);
  check_example(*device, kSecond);
}
TEST(GpuCausalMaskExamples, MatchTheNotes) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto device = open_device("cuda:0");
  check_example(*device, kFirst);
  check_example(*device, kSecond);
}

TEST(CausalMaskOp, TheFirstSequenceHasAllKeys) {
  const Op& op = find_op("causal_mask").op;
  for (const char* batch : {"1", "5"}) {
    const Problem p =
        op.problem(Dims{{"batch", batch}, {"max_q_len", "2"}, {"max_k_len", "90"}}, DType::fp32);
    for (const std::uint64_t seed : {1, 2, 3}) {
      const auto k_lens = op.tensors(p, seed).at(1).values;
      EXPECT_EQ(k_lens.at(0), 90);
      EXPECT_LE(std::ranges::max(k_lens), 90);
    }
  }
}

}  // namespace
}  // namespace warptune::testing
