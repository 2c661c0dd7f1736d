// Kernels from a file may include headers of the C++ library, which NVRTC lacks.
#include <gtest/gtest.h>

#include "tests/custom/kernel_file.h"

#if WARPTUNE_HAS_CUDA
namespace warptune {
namespace {

using testing::Definition;
using testing::table_of;
using testing::write;
namespace fs = std::filesystem;

struct Header {
  const char *name, *include, *use;
};

class StandardHeader : public ::testing::TestWithParam<Header> {};

TEST_P(StandardHeader, Compiles) {
  const fs::path folder = fs::path(::testing::TempDir()) / "standard_header" / GetParam().name;
  fs::remove_all(folder);
  write(folder / "scale.cu",
        std::string("#include <") + GetParam().include +
            ">\nextern \"C\" __global__ void plain(const float* x, float* y, int hidden, float eps) {\n" +
            GetParam().use + "\n}\n");
  const auto table = table_of(write(folder / "kernels.yaml", Definition().text()));
  const OpEntry& op = table->find("rms_norm");
  const Variant& variant = op.variant("scale");
  const Problem problem = op.op.problem(Assignment{{"tokens", 3}, {"hidden", 64}}, DType::fp32);
  const Compiler compiler(KernelSources(), {});
  for (const char* arch : {"sm_80", "sm_90a"})
    EXPECT_EQ(compiler.compile(variant, variant.stages[0], problem, Config{{"block", 128}}, arch).entry,
              "plain");
  // They are not files of the user.
  EXPECT_EQ(variant.stages[0].custom->files.size(), 1u);
  EXPECT_TRUE(variant.stages[0].custom->headers.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Names, StandardHeader,
    ::testing::Values(
        Header{"cstdint", "cstdint", "y[0] = std::uint8_t(hidden) + uint16_t(hidden) + INT32_MAX;"},
        Header{"stdint", "stdint.h", "y[0] = uint8_t(hidden);"},
        Header{"cstddef", "cstddef", "y[0] = std::size_t(hidden) + sizeof(std::nullptr_t);"},
        Header{"type_traits", "type_traits",
               "static_assert(std::is_same_v<std::remove_const_t<const float>, float>); using T = "
               "std::conditional_t<std::is_integral<int>::value, float, int>; y[0] = T(eps);"},
        Header{"limits", "limits",
               "y[0] = std::numeric_limits<float>::infinity() + std::numeric_limits<int>::max() + hidden;"},
        Header{"cmath", "cmath",
               "y[0] = std::sqrt(x[0]) + std::exp(x[1]) + std::fabs(x[2]) + std::fma(eps, 2.f, 1.f);"},
        Header{"math", "math.h", "y[0] = sqrtf(x[0]) + expf(x[1]);"},
        Header{"cassert", "cassert", "assert(hidden > 0); y[0] = eps;"},
        Header{"stdio", "stdio.h", "if (hidden < 0) printf(\"%d\\n\", hidden); y[0] = eps;"},
        Header{"cstdio", "cstdio", "if (hidden < 0) printf(\"%d\\n\", hidden); y[0] = eps;"},
        Header{"algorithm", "algorithm", "y[0] = std::min(x[0], x[1]) + std::max(x[2], eps);"},
        Header{"utility", "utility",
               "std::pair<int, float> p{1, x[0]}; y[0] = std::move(p.second) + p.first;"},
        Header{"tuple", "tuple", "y[0] = std::get<1>(std::make_tuple(1, x[0]));"},
        Header{"array", "array", "std::array<float, 4> a{1, 2, 3, eps}; y[0] = a[hidden % 4];"},
        Header{"cub", "cub/cub.cuh",
               "using Reduce = cub::BlockReduce<float, BLOCK>; using Sort = cub::WarpReduce<float>; "
               "__shared__ typename "
               "Reduce::TempStorage storage; const float sum = Reduce(storage).Sum(x[threadIdx.x]); if "
               "(threadIdx.x == "
               "0) y[0] = sum;"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace warptune
#endif
