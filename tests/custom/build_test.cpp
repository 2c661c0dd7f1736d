// Kernels from a file, compiled or taken from machine code: no GPU is needed.
#include <gtest/gtest.h>

#include <cstdlib>

#include "harness/device/cubin_file.h"
#include "harness/device/source_closure.h"
#include "tests/custom/kernel_file.h"
#include "tests/files.h"

namespace warptune {
namespace {

using testing::Definition;
using testing::kernel_folder;
using testing::table_of;
using testing::write;
namespace fs = std::filesystem;

#if WARPTUNE_HAS_CUDA
class KernelBuild : public ::testing::Test {
 protected:
  const Config config_{{"block", 64}};
  const Compiler compiler_{KernelSources(), {}};

  Problem problem(DType dtype = DType::fp32) const {
    return find_op("rms_norm").op.problem(Assignment{{"tokens", 3}, {"hidden", 64}}, dtype);
  }
  Cubin build(const fs::path& file, const std::string& arch = "sm_90a") const {
    const auto table = table_of(file);
    const Variant& variant = table->find("rms_norm").variant("scale");
    return compiler_.compile(variant, variant.stages[0], problem(), config_, arch);
  }
  std::string error_of(const fs::path& folder, const Definition& definition,
                       const std::string& arch = "sm_90a") const {
    return testing::message_of<CompileError>(
        folder, [&] { build(write(folder / "kernels.yaml", definition.text()), arch); });
  }
};

TEST_F(KernelBuild, CompilesPlainKernelsAndTemplates) {
  const fs::path folder = kernel_folder("compiles");
  const fs::path file = write(folder / "kernels.yaml", Definition().text());
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const Cubin cubin = build(file, arch);
    EXPECT_EQ(cubin.entry, "plain");
    EXPECT_GT(cubin.registers, 0);
    EXPECT_EQ(arch_of_cubin(cubin.code), std::string(arch) == "sm_80" ? 80 : 90);
  }
  Definition typed{.kernel = "kernel: \"typed<{dtype}, {block}>\"", .arguments = "arguments: [x, y]"};
  const Cubin cubin = build(write(folder / "typed.yaml", typed.text()));
  EXPECT_EQ(cubin.static_shared_bytes, 256);
  EXPECT_NE(cubin.entry, "typed");  // mangled
}

/// $WARPTUNE_CUTLASS_INCLUDE is the folder with cute/ and cutlass/.
TEST_F(KernelBuild, CuteCompilesByItsFolder) {
  const char* headers = std::getenv("WARPTUNE_CUTLASS_INCLUDE");
  if (!headers) GTEST_SKIP() << "WARPTUNE_CUTLASS_INCLUDE names no folder";
  const fs::path folder = kernel_folder("cute");
  write(folder / "cute.cu", R"(#include <cute/tensor.hpp>
using namespace cute;
template <int kThreads>
__global__ void scaled(const float* x, float* y) {
  auto shape = make_shape(Int<4 * kThreads>{});
  auto threads = make_layout(Int<kThreads>{});
  auto from = local_partition(make_tensor(make_gmem_ptr(x), shape), threads, threadIdx.x);
  auto to = local_partition(make_tensor(make_gmem_ptr(y), shape), threads, threadIdx.x);
  copy(from, to);
}
)");
  const Definition cute{
      .source = "source: cute.cu",
      .kernel = "kernel: \"scaled<{block}>\"",
      .arguments = "arguments: [x, y]",
      .more = "include: [\"" + std::string(headers) + "\"]\n    options: [-default-device]"};
  const fs::path file = write(folder / "kernels.yaml", cute.text());
  for (const char* arch : {"sm_80", "sm_90a"}) EXPECT_GT(build(file, arch).registers, 0) << arch;
}

TEST_F(KernelBuild, ComparesTheArgumentsWithTheParameters) {
  EXPECT_EQ(
      error_of(kernel_folder("count"), {.arguments = "arguments: [x, y, hidden]"}),
      "kernels.yaml:2: kernel 'plain' takes other parameters (4 of 8, 8, 4, 4 bytes) than 'arguments' passes "
      "(3 of 8, 8, 4 bytes)");
  EXPECT_EQ(
      error_of(kernel_folder("struct"), {.arguments = "arguments: args"}),
      "kernels.yaml:2: kernel 'plain' takes other parameters (4 of 8, 8, 4, 4 bytes) than 'arguments' passes "
      "(1 of 32 bytes)");
}

TEST_F(KernelBuild, NamesTheKernelsOfASource) {
  EXPECT_EQ(error_of(kernel_folder("symbol"), {.kernel = "kernel: plane"}),
            "kernels.yaml:2: 'scale.cu' has no kernel 'plane'; did you mean 'plain'?");
  EXPECT_EQ(error_of(kernel_folder("symbols"), {.kernel = "kernel: \"rms_norm<{block}>\""}),
            "kernels.yaml:2: 'scale.cu' has no kernel 'rms_norm'; it has plain, typed");
}

TEST_F(KernelBuild, ALaunchThatIsNotWholeIsTold) {
  const fs::path file = write(kernel_folder("whole") / "kernels.yaml",
                              Definition{.launch = "launch: {grid: tokens / 2, block: block}"}.text());
  const auto table = table_of(file);
  try {
    table->find("rms_norm").variant("scale").stages[0].launch(problem(), config_);
    FAIL();
  } catch (const CompileError& e) {
    EXPECT_EQ(std::string(e.what()).substr(file.parent_path().string().size() + 1),
              "kernels.yaml:9: 'grid' 'tokens / 2' is 1.5 for rms_norm[tokens=3,hidden=64,dtype=fp32] with "
              "block=64; "
              "it must be a whole number; ceil_div(a, b) rounds a / b up");
  }
}

TEST_F(KernelBuild, TakesKernelsFromMachineCode) {
  const fs::path folder = kernel_folder("machine_code");
  const fs::path source = write(folder / "kernels.yaml", Definition().text());
  const Cubin compiled = build(source, "sm_80");
  write(folder / "scale.80.cubin", compiled.code);
  write(folder / "scale.90.cubin", build(source, "sm_90a").code);
  Definition one{.source = "cubin: scale.80.cubin", .define = ""};
  const Cubin taken = build(write(folder / "one.yaml", one.text()), "sm_80");
  EXPECT_EQ(taken.entry, compiled.entry);
  EXPECT_EQ(taken.registers, compiled.registers);
  EXPECT_EQ(error_of(folder, one, "sm_90a"),
            "kernels.yaml:2: 'scale.80.cubin': it holds machine code for sm_80, not for sm_90");
  const Definition both{.source = "cubin: {sm_80: scale.80.cubin, sm_90a: scale.90.cubin}", .define = ""};
  EXPECT_EQ(arch_of_cubin(build(write(folder / "both.yaml", both.text()), "sm_90a").code), 90);
  EXPECT_EQ(
      error_of(folder, {.source = "cubin: scale.80.cubin", .kernel = "kernel: plane", .define = ""}, "sm_80"),
      "kernels.yaml:2: 'scale.80.cubin': it has no kernel 'plane'; did you mean 'plain'?");
  write(folder / "cut.cubin", compiled.code.substr(0, 200));
  EXPECT_NE(error_of(folder, {.source = "cubin: cut.cubin", .define = ""}, "sm_80").find("truncated"),
            std::string::npos);
  EXPECT_EQ(testing::error_of(folder, {.source = "cubin: scale.80.cubin"}),
            "kernels.yaml:7: machine code is not compiled: it takes no 'define', 'options' or 'include'");
}

/// A fatbin: a header of 16 bytes, then for each cubin a header of 64 bytes and the code.
TEST_F(KernelBuild, TakesTheBestCubinOfAFatbin) {
  const fs::path folder = kernel_folder("fatbin");
  const fs::path source = write(folder / "kernels.yaml", Definition().text());
  std::string fatbin("\x50\xed\x55\xba\x01\x00\x10\x00", 8);
  fatbin += std::string(8, '\0');
  for (const auto& [arch, number] : {std::pair("sm_80", 80), std::pair("sm_90a", 90)}) {
    const std::string code = build(source, arch).code;
    std::string header(64, '\0');
    const auto put = [&](std::size_t at, std::uint32_t value) { std::memcpy(header.data() + at, &value, 4); };
    put(0, 2 | 0x101 << 16);
    put(4, 64);
    put(8, static_cast<std::uint32_t>(code.size()));
    put(28, static_cast<std::uint32_t>(number));
    fatbin += header + code;
  }
  write(folder / "scale.fatbin", fatbin);
  const Definition d{.source = "fatbin: scale.fatbin", .define = ""};
  const fs::path file = write(folder / "fat.yaml", d.text());
  EXPECT_EQ(arch_of_cubin(build(file, "sm_80").code), 80);
  EXPECT_EQ(arch_of_cubin(build(file, "sm_90a").code), 90);
  EXPECT_EQ(arch_of_cubin(cubin_for(fatbin, 86)), 80);  // of the same major number
  EXPECT_THROW(cubin_for(fatbin, 100), CompileError);
  EXPECT_THROW(cubin_for(std::string_view(fatbin).substr(0, 500), 80), CompileError);
}

TEST_F(KernelBuild, FindsTheHeadersOfTheToolkitAndOfFolders) {
  const fs::path folder = kernel_folder("headers");
  write(folder / "lib" / "lib" / "twice.h", "#pragma once\n#include \"lib/one.h\"\n");
  write(folder / "lib" / "lib" / "one.h", "constexpr int kOne = 1;\n");
  write(folder / "scale.cu", R"(#include <cub/block/block_reduce.cuh>
#include <cuda/std/type_traits>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <lib/twice.h>
#include <mma.h>
#include "kernels/common/numeric.cuh"
extern "C" __global__ void plain(const void* x, void* y, int hidden, float eps) {
  using Reduce = cub::BlockReduce<float, BLOCK>;
  __shared__ typename Reduce::TempStorage storage;
  const float sum = Reduce(storage).Sum(warptune::to_float(eps) * kOne);
  if (threadIdx.x == 0) static_cast<__nv_bfloat16*>(y)[0] = __float2bfloat16(sum + hidden);
}
)");
  const fs::path file = write(folder / "kernels.yaml", Definition{.more = "include: [lib]"}.text());
  EXPECT_EQ(build(file).entry, "plain");
  const auto table = table_of(file);
  const CustomKernel& kernel = *table->find("rms_norm").variant("scale").stages[0].custom;
  std::vector<std::string> names;
  for (const auto& [name, text] : kernel.files) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"scale.cu", "lib/lib/twice.h", "lib/lib/one.h"}));
  ASSERT_EQ(kernel.headers.size(), 1u);
  EXPECT_EQ(kernel.headers[0].first, "kernels/common/numeric.cuh");
}

/// The code hash holds what a launch does: code, geometry and arguments.
TEST_F(KernelBuild, TheCodeHashCoversArguments) {
  const fs::path folder = kernel_folder("code_hash");
  const auto hash = [&](const Definition& d) {
    const auto table = table_of(write(folder / "kernels.yaml", d.text()));
    return code_hash(compiler_, table->find("rms_norm").variant("scale"), problem(), config_, "sm_90a");
  };
  const std::string first = hash({});
  EXPECT_EQ(first.size(), 16u);
  EXPECT_EQ(hash({.more = "idea: other words"}), first);
  EXPECT_NE(hash({.arguments = "arguments: [weight, y, hidden, eps]"}), first);
  EXPECT_NE(hash({.launch = "launch: {grid: 2 * tokens, block: block}"}), first);
}

TEST_F(KernelBuild, TheExampleCompiles) {
  const auto table = table_of(fs::path(SOURCE_ROOT) / "examples" / "my_rms" / "my_rms.yaml");
  const Variant& variant = table->find("rms_norm").variant("my_rms");
  for (const char* arch : {"sm_80", "sm_90a"})
    for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
      const Cubin cubin = compiler_.compile(variant, variant.stages[0], problem(dtype),
                                            Config{{"block", 128}, {"vec", 4}}, arch);
      EXPECT_EQ(cubin.spill_bytes, 0);
    }
}
#endif

TEST(SourceClosure, ReadsIncludes) {
  const auto includes = includes_in(
      "#include <a.h>\n  #  include \"b/c.h\" // x\n// #include \"d\"\n#include MACRO\n#pragma once");
  ASSERT_EQ(includes.size(), 3u);
  EXPECT_EQ(includes[2].name, "");
  EXPECT_EQ(includes[0].name, "a.h");
  EXPECT_FALSE(includes[0].quoted);
  EXPECT_EQ(includes[1].name, "b/c.h");
  EXPECT_TRUE(includes[1].quoted);
}

TEST(SourceClosure, FindsKernels) {
  EXPECT_EQ(kernels_in("extern \"C\" __global__ void a(int x);\n"
                       "template <class T> __global__ void __launch_bounds__(max(kA, (kB)), 2) b(T* x) {}\n"
                       "__global__ void a(int x) {}"),
            (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace warptune
