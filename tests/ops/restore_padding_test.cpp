#include "tests/support.h"

namespace warptune::testing {
namespace {

class RestorePadding : public ::testing::TestWithParam<Dims> {};
class GpuRestorePadding : public RestorePadding {};
class RestorePaddingCompile : public RestorePadding {};

TEST_P(RestorePadding, HostVariantsMatchTheReference) {
  check_host_variants("restore_padding", GetParam(), kFloats);
}
TEST_P(RestorePaddingCompile, CudaVariantsCompile) {
  check_compiles("restore_padding", GetParam(), kFloats, 3);
}
TEST_P(GpuRestorePadding, CudaVariantsMatchTheReference) {
  check_cuda_variants("restore_padding", GetParam(), kFloats);
}

const auto kRestorePaddingShapes =
    ::testing::Values(Dims{{"batch", "1"}, {"max_q_len", "1"}, {"hidden", "1"}},
                      Dims{{"batch", "1"}, {"max_q_len", "17"}, {"hidden", "64"}},
                      Dims{{"batch", "3"}, {"max_q_len", "5"}, {"hidden", "257"}},
                      Dims{{"batch", "5"}, {"max_q_len", "11"}, {"hidden", "100"}},
                      Dims{{"batch", "9"}, {"max_q_len", "31"}, {"hidden", "8"}});
INSTANTIATE_TEST_SUITE_P(Shapes, RestorePadding, kRestorePaddingShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuRestorePadding, kRestorePaddingShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, RestorePaddingCompile,
                         ::testing::Values(Dims{{"batch", "9"}, {"max_q_len", "31"}, {"hidden", "4096"}},
                                           Dims{{"batch", "3"}, {"max_q_len", "5"}, {"hidden", "257"}}),
                         shape_name);

}  // namespace
}  // namespace warptune::testing
