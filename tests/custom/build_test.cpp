// Kernels from a file, compiled or taken from machine code: no GPU is needed.
#include <gtest/gtest.h>

#include <cstdlib>

#include "harness/core/kernel_reference.h"
#include "harness/core/space.h"
#include "harness/device/cubin_file.h"
#include "harness/device/source_closure.h"
#include "tests/custom/sample_kernels.h"
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
    const Variant& variant = table->find("rms_norm").variant("scale");
    launch_of(variant, variant.stages[0], problem(), config_);
    FAIL();
  } catch (const CompileError& e) {
    EXPECT_EQ(std::string(e.what()).substr(file.parent_path().string().size() + 1),
              "kernels.yaml:9: 'grid' 'tokens / 2' is 1.5 for rms_norm[tokens=3,hidden=64,dtype=fp32] with "
              "block=64; "
              "it must be an integer; ceil_div(a, b) rounds a / b up");
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

/// A kernel with everything that a definition can say: words, structures, constant memory, a cooperative
/// launch.
Definition rich(const fs::path& folder) {
  write(folder / "rich.cu", R"(#include <cooperative_groups.h>
#include <cuda_fp16.h>
enum class Mode { row, column };
struct Inner { int four; float eps; };
struct Outer { const float* x; __half two; float three; bool one; Inner inner; };
__constant__ float factors[2];
namespace ns { __constant__ float weights[64]; }
template <class V, Mode kMode, bool kFast>
__global__ void rich(Outer o, float* y, size_t n, unsigned u, bool b, __half h) {
  cooperative_groups::this_grid().sync();
  const size_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && kMode == Mode::row && b) y[i] = o.x[i] * factors[0] * ns::weights[i % 64] + float(h) * u + sizeof(V);
}
)");
  return {.source = "source: rich.cu",
          .kernel = "kernel: \"rich<{vector}, Mode::{mode}, {fast}>\"",
          .arguments =
              "arguments: [{struct: [x, {half: 2}, {float: 3}, {bool: 1}, {struct: [{int: 4}, eps]}]}, y, "
              "{size_t: tokens * hidden}, {unsigned: 7}, {bool: 1}, {half: 0.5}]",
          .define = "constant: {factors: {float: [1, 2]}, \"ns::weights\": weight}",
          .parameters =
              "parameters: {block: [64], vector: [float, float4], mode: [row, column], fast: [true, false]}",
          .launch = "launch: {grid: \"min(sms, tokens)\", block: block, cooperative: yes}"};
}

TEST_F(KernelBuild, WordsStructuresAndConstantMemoryCompile) {
  const fs::path folder = kernel_folder("rich");
  const auto table = table_of(write(folder / "kernels.yaml", rich(folder).text()));
  const Variant& variant = table->find("rms_norm").variant("scale");
  const Config config = parse_config(variant, "block=64,vector=float4,mode=row,fast=true");
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const Cubin cubin = compiler_.compile(variant, variant.stages[0], problem(), config, arch);
    std::vector<std::string> names = names_of(constants_of_cubin(cubin.code));
    std::ranges::sort(names);
    EXPECT_EQ(names, (std::vector<std::string>{"_ZN2ns7weightsE", "factors"}));
    EXPECT_GT(inspect(compiler_, variant, problem(), config, known_device(arch)).registers, 0);
  }
}

TEST_F(KernelBuild, ConstantMemoryThatTheCodeLacksIsTold) {
  const auto error = [&](const std::string& constant) {
    const fs::path folder = kernel_folder("no_constant");
    Definition d = rich(folder);
    d.define = "constant: " + constant;
    const auto table = table_of(write(folder / "kernels.yaml", d.text()));
    const Variant& variant = table->find("rms_norm").variant("scale");
    const Config config = parse_config(variant, "block=64,vector=float,mode=row,fast=true");
    return testing::message_of<CompileError>(
        folder, [&] { compiler_.compile(variant, variant.stages[0], problem(), config, "sm_80"); });
  };
  EXPECT_EQ(error("{factor: {float: [1, 2]}}"),
            "kernels.yaml:2: the code has no constant memory 'factor'; did you mean 'factors'?");
  EXPECT_EQ(error("{factors: {float: 1}}"),
            "kernels.yaml:2: the constant memory 'factors' has 8 bytes; 'constant' fills 4");
  EXPECT_EQ(error("{factors: weight}"),
            "kernels.yaml:2: the constant memory 'factors' has 8 bytes; 'constant' fills 256");
}

/// All blocks of a cooperative launch are resident at once.
TEST_F(KernelBuild, ACooperativeGridThatDoesNotFitIsTold) {
  const fs::path folder = kernel_folder("cooperative");
  const auto error = [&](const std::string& launch) {
    Definition d = rich(folder);
    d.launch = launch;
    const auto table = table_of(write(folder / "kernels.yaml", d.text()));
    const Variant& variant = table->find("rms_norm").variant("scale");
    const Config config = parse_config(variant, "block=64,vector=float,mode=row,fast=true");
    return testing::message_of<ResourceError>(
        folder, [&] { inspect(compiler_, variant, problem(), config, known_device("sm_90a")); });
  };
  EXPECT_EQ(error("launch: {grid: 32 * sms, block: block, cooperative: yes}"), "none");
  EXPECT_EQ(error("launch: {grid: 100 * sms, block: block}"), "none");
  EXPECT_EQ(error("launch: {grid: 100 * sms, block: block, cooperative: yes}"),
            "rich<float, Mode::row, true> is a cooperative launch of 13200 blocks; NVIDIA H200 runs 4224 at "
            "once, 32 on "
            "each of 132 SMs");
  EXPECT_EQ(error("launch: {grid: 100, block: block, per_sm: yes, cooperative: yes}").substr(0, 67),
            "rich<float, Mode::row, true> is a cooperative launch of 13200 block");
}

/// The identity of a launch has what only these have.
TEST_F(KernelBuild, TheCodeHashCoversConstantsAndCooperation) {
  const fs::path folder = kernel_folder("rich_hash");
  const auto hash = [&](const Definition& d) {
    const auto table = table_of(write(folder / "kernels.yaml", d.text()));
    const Variant& variant = table->find("rms_norm").variant("scale");
    return code_hash(compiler_, variant, problem(),
                     parse_config(variant, "block=64,vector=float,mode=row,fast=true"), "sm_90a");
  };
  const Definition d = rich(folder);
  Definition other = d, plain = d, third = d;
  other.define = "constant: {factors: {float: [1, 3]}, \"ns::weights\": weight}";
  plain.launch = "launch: {grid: \"min(sms, tokens)\", block: block}";
  third.arguments.replace(third.arguments.find("{int: 4}"), 8, "{int: 5}");
  const std::string first = hash(d);
  EXPECT_EQ(hash(d), first);
  EXPECT_NE(hash(other), first);
  EXPECT_NE(hash(plain), first);
  EXPECT_NE(hash(third), first);
}

/// What the tests on a GPU tune.
TEST_F(KernelBuild, TheKernelsThatAreTunedOnGpusCompile) {
  const auto compile_all = [&](const fs::path& sweep, const std::string& op, const std::string& name,
                               const Assignment& dims) {
    const auto table = table_of(sweep);
    const OpEntry& entry = table->find(op);
    const Variant& variant = entry.variant(name);
    const Problem problem = entry.op.problem(dims, DType::fp32);
    const auto configs = Space(variant, problem, known_device("sm_80")).configs();
    ASSERT_FALSE(configs.empty());
    EXPECT_GT(inspect(compiler_, variant, problem, configs.front(), known_device("sm_80")).registers, 0);
    if (const auto* reference = entry.op.reference.target<KernelReference>()) {
      const Variant& kernel = *reference->variant;
      EXPECT_GT(compiler_.compile(kernel, kernel.stages[0], problem, {}, "sm_80").registers, 0);
    }
  };
  const Assignment dims{{"tokens", 5}, {"hidden", 8}};
  compile_all(testing::write_plain_kernel(kernel_folder("tuned_plain")), "rms_norm", "plain", dims);
  compile_all(testing::write_grid_kernel(kernel_folder("tuned_grid")), "rms_norm", "grid", dims);
  compile_all(testing::write_wide_op(kernel_folder("tuned_wide")), "wide", "one",
              {{"n", 1000}, {"big", 5'000'000'000}});
}

TEST_F(KernelBuild, TensorsOfEveryDTypeAreFilledAndChecked) {
  const std::vector<std::pair<std::string, std::string>> kernels = {
      {"fill.cu", "fill_random"}, {"fill.cu", "count_poisoned"}, {"compare.cu", "compare"}};
  for (const DType dtype : {DType::fp32, DType::bf16, DType::int32, DType::int8, DType::int64, DType::fp64})
    for (const auto& [file, kernel] : kernels)
      EXPECT_GT(
          compiler_.compile("support/" + file, kernel + "<" + std::string(kernel_type(dtype)) + ">", "sm_80")
              .registers,
          0);
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
