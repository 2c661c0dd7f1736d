#include "harness/core/space.h"
#include "harness/device/device.h"
#include "kernels/embedding/args.h"
#include "tests/support.h"

namespace warptune::testing {
namespace {

class Embedding : public ::testing::TestWithParam<Dims> {};
class GpuEmbedding : public Embedding {};
class EmbeddingCompile : public Embedding {};

TEST_P(Embedding, HostVariantsMatchTheReference) { check_host_variants("embedding", GetParam(), kFloats); }
TEST_P(EmbeddingCompile, CudaVariantsCompile) { check_compiles("embedding", GetParam(), kFloats, 3); }
TEST_P(GpuEmbedding, CudaVariantsMatchTheReference) { check_cuda_variants("embedding", GetParam(), kFloats); }

const auto kEmbeddingShapes = ::testing::Values(Dims{{"tokens", "1"}, {"vocab", "100"}, {"hidden", "4096"}},
                                                Dims{{"tokens", "7"}, {"vocab", "13"}, {"hidden", "257"}},
                                                Dims{{"tokens", "33"}, {"vocab", "5"}, {"hidden", "1"}},
                                                Dims{{"tokens", "2"}, {"vocab", "1"}, {"hidden", "100"}},
                                                Dims{{"tokens", "300"}, {"vocab", "50"}, {"hidden", "64"}});
INSTANTIATE_TEST_SUITE_P(Shapes, Embedding, kEmbeddingShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuEmbedding, kEmbeddingShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, EmbeddingCompile,
                         ::testing::Values(Dims{{"tokens", "300"}, {"vocab", "50"}, {"hidden", "4096"}},
                                           Dims{{"tokens", "7"}, {"vocab", "13"}, {"hidden", "257"}}),
                         shape_name);

/// Runs every configuration of every variant of a device on legal, negative and too large ids.
void check_bad_ids(Device& device) {
  constexpr int kVocab = 11, kHidden = 24;
  const OpEntry& entry = find_op("embedding");
  const std::vector<std::vector<int>> cases = {
      {3, -1, 10, 11, 0}, {0, 1, 2, 3, 10}, {2, 5, 9, 1, -2147483648}};
  const int last_bad[] = {4, 0, 5};
  std::vector<float> table(kVocab * kHidden);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i + 1);
  for (std::size_t c = 0; c < cases.size(); ++c) {
    const std::vector<int>& ids = cases[c];
    const Problem problem = entry.op.problem(
        Assignment{{"tokens", static_cast<std::int64_t>(ids.size())}, {"vocab", kVocab}, {"hidden", kHidden}},
        DType::fp32);
    const Buffer device_ids = device.allocate(ids.size() * 4),
                 device_table = device.allocate(table.size() * 4),
                 y = device.allocate(ids.size() * kHidden * 4), bad = device.allocate(4);
    device.upload(device_ids.data(), ids.data(), device_ids.bytes(), device.stream());
    device.upload(device_table.data(), table.data(), device_table.bytes(), device.stream());
    for (const Variant& variant : entry.variants) {
      if (variant.backend != device.facts().backend) continue;
      for (const Config& config : Space(variant, problem, device.facts()).configs()) {
        SCOPED_TRACE(variant.name + " " + config.str());
        device.set_bytes(bad.data(), 0, 4, device.stream());
        device.set_bytes(y.data(), 0xff, y.bytes(), device.stream());
        const EmbeddingArgs args{.ids = device_ids.as<int>(),
                                 .table = device_table.data(),
                                 .y = y.data(),
                                 .bad_token = bad.as<int>(),
                                 .tokens = static_cast<int>(ids.size())};
        device.prepare(variant, problem, config)->launch(&args, device.stream());
        device.synchronize();
        int bad_token = -1;
        std::vector<float> got(ids.size() * kHidden);
        device.download(&bad_token, bad.data(), 4);
        device.download(got.data(), y.data(), y.bytes());
        EXPECT_EQ(bad_token, last_bad[c]);
        for (std::size_t t = 0; t < ids.size(); ++t)
          for (int i = 0; i < kHidden; ++i) {
            const bool legal = ids[t] >= 0 && ids[t] < kVocab;
            ASSERT_EQ(got[t * kHidden + static_cast<std::size_t>(i)],
                      legal ? static_cast<float>(ids[t] * kHidden + i + 1) : 0.0f)
                << "token " << t;
          }
      }
    }
  }
}

TEST(EmbeddingBadIds, HostGivesZerosAndTheToken) { check_bad_ids(*open_device("host")); }
TEST(GpuEmbeddingBadIds, GivesZerosAndTheToken) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  check_bad_ids(*open_device("cuda:0"));
}

}  // namespace
}  // namespace warptune::testing
