#include "harness/core/space.h"
#include "harness/device/device.h"
#include "kernels/softmax/args.h"
#include "tests/support.h"

namespace warptune::testing {
namespace {

class Softmax : public ::testing::TestWithParam<Dims> {};
class GpuSoftmax : public Softmax {};
class SoftmaxCompile : public Softmax {};

TEST_P(Softmax, HostVariantsMatchTheReference) { check_host_variants("softmax", GetParam(), kFloats); }
TEST_P(SoftmaxCompile, CudaVariantsCompile) { check_compiles("softmax", GetParam(), kFloats, 3); }
TEST_P(GpuSoftmax, CudaVariantsMatchTheReference) { check_cuda_variants("softmax", GetParam(), kFloats); }

const auto kSoftmaxShapes = ::testing::Values(
    Dims{{"batch", "1"}, {"q_heads", "1"}, {"q_len", "1"}, {"kv_len", "1"}, {"mask", "none"}},
    Dims{{"batch", "2"}, {"q_heads", "3"}, {"q_len", "5"}, {"kv_len", "7"}, {"mask", "given"}},
    Dims{{"batch", "1"}, {"q_heads", "2"}, {"q_len", "3"}, {"kv_len", "257"}, {"mask", "given"}},
    Dims{{"batch", "2"}, {"q_heads", "2"}, {"q_len", "4"}, {"kv_len", "64"}, {"mask", "none"}},
    Dims{{"batch", "2"}, {"q_heads", "2"}, {"q_len", "1"}, {"kv_len", "1000"}, {"mask", "given"}},
    Dims{{"batch", "1"}, {"q_heads", "1"}, {"q_len", "2"}, {"kv_len", "4096"}, {"mask", "none"}});
INSTANTIATE_TEST_SUITE_P(Shapes, Softmax, kSoftmaxShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuSoftmax, kSoftmaxShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(
    Shapes, SoftmaxCompile,
    ::testing::Values(
        Dims{{"batch", "1"}, {"q_heads", "2"}, {"q_len", "3"}, {"kv_len", "257"}, {"mask", "given"}},
        Dims{{"batch", "2"}, {"q_heads", "4"}, {"q_len", "8"}, {"kv_len", "2048"}, {"mask", "given"}}),
    shape_name);

/// With a maximum that begins at 0 all of these would underflow.
OpEntry logits_far_below_zero() {
  return with_input(find_op("softmax"), "x", [](const Problem&, std::int64_t i) {
    return -512.0f - 4.0f * static_cast<float>(i * 7 % 5);
  });
}
const Dims kNegative{{"batch", "1"}, {"q_heads", "2"}, {"q_len", "3"}, {"kv_len", "257"}, {"mask", "given"}};

TEST(SoftmaxBugs, HostRowsMayBeFarBelowZero) {
  check_host_variants(logits_far_below_zero(), kNegative, kFloats);
}
TEST(GpuSoftmaxBugs, RowsMayBeFarBelowZero) {
  check_cuda_variants(logits_far_below_zero(), kNegative, kFloats);
}

/// Two rows: one whose keys are all masked, one that sees only its last key.
void check_masked_rows(Device& device) {
  constexpr std::int64_t kKeys = 40;
  const OpEntry& entry = find_op("softmax");
  const Problem problem = entry.op.problem(
      Assignment{{"batch", 1}, {"q_heads", 1}, {"q_len", 2}, {"kv_len", kKeys}, {"mask", 1}}, DType::fp32);
  std::vector<float> scores(2 * kKeys, -3.0f), visible(2 * kKeys, 0.0f), want(2 * kKeys, 0.0f);
  visible.back() = want.back() = 1;
  const Buffer x = device.allocate(scores.size() * 4), mask = device.allocate(x.bytes()),
               y = device.allocate(x.bytes());
  device.upload(x.data(), scores.data(), x.bytes(), device.stream());
  device.upload(mask.data(), visible.data(), x.bytes(), device.stream());
  const SoftmaxArgs args{.x = x.data(), .mask = mask.data(), .y = y.data(), .batch = 1, .scale = 2};
  for (const Variant& variant : entry.variants) {
    if (variant.backend != device.facts().backend) continue;
    for (const Config& config : Space(variant, problem, device.facts()).configs()) {
      device.set_bytes(y.data(), 0xff, y.bytes(), device.stream());
      device.prepare(variant, problem, config)->launch(&args, device.stream());
      device.synchronize();
      std::vector<float> got(scores.size());
      device.download(got.data(), y.data(), y.bytes());
      EXPECT_EQ(got, want) << variant.name << " " << config.str();
    }
  }
}

TEST(SoftmaxMaskedRows, HostGivesZeros) { check_masked_rows(*open_device("host")); }
TEST(GpuSoftmaxMaskedRows, GiveZeros) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  check_masked_rows(*open_device("cuda:0"));
}

}  // namespace
}  // namespace warptune::testing
