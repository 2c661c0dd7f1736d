#include "tests/support.h"

namespace warptune::testing {
namespace {

class Linear : public ::testing::TestWithParam<Dims> {};
class GpuLinear : public Linear {};

TEST_P(Linear, HostVariantsMatchTheReference) { check_host_variants("linear", GetParam(), kFloats); }
TEST_P(Linear, CudaVariantsCompile) { check_compiles("linear", GetParam(), kFloats, 2); }
TEST_P(GpuLinear, CudaVariantsMatchTheReference) { check_cuda_variants("linear", GetParam(), kFloats, 48); }

Dims dims(const char* tokens, const char* in, const char* out, const char* bias = "no") {
  return {{"tokens", tokens}, {"in", in}, {"out", out}, {"bias", bias}};
}

INSTANTIATE_TEST_SUITE_P(Shapes, Linear,
                         ::testing::Values(dims("1", "512", "96"), dims("3", "257", "33", "yes"),
                                           dims("17", "104", "7", "yes"), dims("1", "1", "1")),
                         shape_name);
INSTANTIATE_TEST_SUITE_P(Shapes, GpuLinear,
                         ::testing::Values(dims("1", "4096", "512"), dims("1", "11008", "100", "yes"),
                                           dims("1", "1", "1"), dims("1", "257", "33"),
                                           dims("1", "2050", "19", "yes"), dims("1", "520", "1031"),
                                           dims("2", "4096", "300"), dims("3", "100", "7", "yes"),
                                           dims("5", "1000", "129"), dims("8", "512", "96", "yes"),
                                           dims("8", "77", "13"), dims("17", "100", "67", "yes"),
                                           dims("64", "1024", "192"), dims("129", "264", "131", "yes"),
                                           dims("200", "333", "77"), dims("33", "8", "8")),
                         shape_name);

}  // namespace
}  // namespace warptune::testing
