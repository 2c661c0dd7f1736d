#include "support.h"

namespace warptune::testing {
namespace {

class Argmax : public ::testing::TestWithParam<Dims> {};
class GpuArgmax : public Argmax {};

// 16-bit logits hold many equal maxima: the lowest index must win.
TEST_P(Argmax, HostVariantsMatchTheReference) { check_host_variants("argmax", GetParam(), kFloats); }
TEST_P(Argmax, CudaVariantsCompile) { check_compiles("argmax", GetParam(), kFloats, 2); }
TEST_P(GpuArgmax, CudaVariantsMatchTheReference) { check_cuda_variants("argmax", GetParam(), kFloats, 64); }

const auto kShapes =
    ::testing::Values(Dims{{"batch", "1"}, {"vocab", "32000"}}, Dims{{"batch", "3"}, {"vocab", "128256"}},
                      Dims{{"batch", "5"}, {"vocab", "1009"}}, Dims{{"batch", "65"}, {"vocab", "1"}},
                      Dims{{"batch", "2"}, {"vocab", "65537"}});
INSTANTIATE_TEST_SUITE_P(Shapes, Argmax, kShapes, shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuArgmax, kShapes, shape_name);

}  // namespace
}  // namespace warptune::testing
