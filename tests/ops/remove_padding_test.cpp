#include "tests/support.h"

namespace warptune::testing {
namespace {

class RemovePadding : public ::testing::TestWithParam<Dims> {};
class GpuRemovePadding : public RemovePadding {};
class RemovePaddingCompile : public RemovePadding {};

TEST_P(RemovePadding, HostVariantsMatchTheReference) {
  check_host_variants("remove_padding", GetParam(), kFloats);
}
TEST_P(RemovePaddingCompile, CudaVariantsCompile) {
  check_compiles("remove_padding", GetParam(), kFloats, 3);
}
TEST_P(GpuRemovePadding, CudaVariantsMatchTheReference) {
  check_cuda_variants("remove_padding", GetParam(), kFloats);
}

const auto kShapes = ::testing::Values(Dims{{"batch", "1"}, {"max_q_len", "1"}, {"hidden", "1"}},
                                       Dims{{"batch", "1"}, {"max_q_len", "17"}, {"hidden", "64"}},
                                       Dims{{"batch", "3"}, {"max_q_len", "5"}, {"hidden", "257"}},
                                       Dims{{"batch", "5"}, {"max_q_len", "11"}, {"hidden", "100"}},
                                       Dims{{"batch", "9"}, {"max_q_len", "31"}, {"hidden", "8"}});
INSTANTIATE_TEST_SUITE_P(Shapes, RemovePadding, kShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuRemovePadding, kShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, RemovePaddingCompile,
                         ::testing::Values(Dims{{"batch", "9"}, {"max_q_len", "31"}, {"hidden", "4096"}},
                                           Dims{{"batch", "3"}, {"max_q_len", "5"}, {"hidden", "257"}}),
                         shape_name);

}  // namespace
}  // namespace warptune::testing
