// What a device would refuse at a launch is found without one.
#include "harness/device/launch_check.h"

#include <gtest/gtest.h>

#include "tests/custom/kernel_file.h"
#include "tests/files.h"
#include "tests/program.h"

#if WARPTUNE_HAS_CUDA
namespace warptune {
namespace {

using testing::Definition;
using testing::Ended;
using testing::kernel_folder;
using testing::table_of;
using testing::write;
namespace fs = std::filesystem;

std::string refusal(const Launch& launch, const char* arch = "sm_90a") {
  try {
    check_geometry("k", launch, known_device(arch));
    return "none";
  } catch (const ResourceError& e) {
    return e.what();
  }
}

TEST(LaunchCheck, OfBlocks) {
  EXPECT_EQ(refusal({.grid = {1}, .block = {1024}}), "none");
  EXPECT_EQ(refusal({.grid = {1}, .block = {4, 4, 64}}), "none");
  EXPECT_EQ(refusal({.grid = {1}, .block = {2, 2, 65}}), "k has a block of 65 along z; 1 to 64 are possible");
  EXPECT_EQ(refusal({.grid = {1}, .block = {1025}}),
            "k needs 1025 threads per block; 1 to 1024 are possible");
  EXPECT_EQ(refusal({.grid = {1}, .block = {0}}), "k needs 0 threads per block; 1 to 1024 are possible");
  EXPECT_EQ(refusal({.grid = {1}, .block = {65536, 65536}}),  // 0 in 32 bits
            "k needs 4294967296 threads per block; 1 to 1024 are possible");
}

TEST(LaunchCheck, OfGrids) {
  EXPECT_EQ(refusal({.grid = {2147483647, 65535, 65535}, .block = {1}}), "none");
  EXPECT_EQ(refusal({.grid = {2147483648u}, .block = {1}}),
            "k has a grid of 2147483648 along x; 1 to 2147483647 are possible");
  EXPECT_EQ(refusal({.grid = {1, 65536}, .block = {1}}),
            "k has a grid of 65536 along y; 1 to 65535 are possible");
  EXPECT_EQ(refusal({.grid = {1, 1, 65536}, .block = {1}}),
            "k has a grid of 65536 along z; 1 to 65535 are possible");
  EXPECT_EQ(refusal({.grid = {0}, .block = {1}}), "k has a grid of 0 along x; 1 to 2147483647 are possible");
}

TEST(LaunchCheck, OfClusters) {
  EXPECT_EQ(refusal({.grid = {64, 3}, .block = {1}, .cluster = 16}), "none");
  EXPECT_EQ(refusal({.grid = {65}, .block = {1}, .cluster = 2}),
            "k has a grid of 65x1x1 blocks, which is no multiple of its clusters of 2x1x1");
  EXPECT_EQ(refusal({.grid = {64}, .block = {1}, .cluster = 32}),
            "k has clusters of 32 blocks; at most 16 are possible");
  EXPECT_EQ(refusal({.grid = {64}, .block = {1}, .cluster = 2}, "sm_80"),
            "k has clusters of 2 blocks; sm_80 has none");
  // A persistent grid is rounded down.
  EXPECT_EQ(refusal({.grid = {1}, .block = {1}, .cluster = 8, .per_sm = true}), "none");
  EXPECT_EQ(refusal({.grid = {1}, .block = {1}, .cluster = 8, .per_sm = true, .max_blocks = 4}),
            "k has a grid of 0 along x; 1 to 2147483647 are possible");
}

/// Kernels whose code says how it is launched.
class CompiledLaunch : public ::testing::Test {
 protected:
  Resources inspect_kernel(const std::string& attributes, const std::string& launch, const char* arch,
                           const std::string& source = "source: scale.cu") const {
    const fs::path folder = fs::path(::testing::TempDir()) / "compiled_launch";
    write(folder / "scale.cu", "extern \"C\" __global__ void " + attributes +
                                   " plain(const float* x, float* y) { y[0] = x[threadIdx.x]; }\n");
    const Definition d{
        .source = source, .arguments = "arguments: [x, y]", .define = "", .launch = "launch: " + launch};
    const auto table = table_of(write(folder / "kernels.yaml", d.text()));
    const OpEntry& op = table->find("rms_norm");
    const Problem problem = op.op.problem(Assignment{{"tokens", 3}, {"hidden", 64}}, DType::fp32);
    return inspect(Compiler(KernelSources(), {}), op.variant("scale"), problem, Config{{"block", 128}},
                   known_device(arch));
  }
  std::string refusal(const std::string& attributes, const std::string& launch,
                      const char* arch = "sm_90a") const {
    try {
      inspect_kernel(attributes, launch, arch);
      return "none";
    } catch (const ResourceError& e) {
      return e.what();
    }
  }
};

TEST_F(CompiledLaunch, ObeysLaunchBounds) {
  for (const char* arch : {"sm_80", "sm_90a"}) {
    EXPECT_EQ(refusal("__launch_bounds__(128)", "{grid: 1, block: 128}", arch), "none");
    EXPECT_EQ(refusal("__launch_bounds__(128)", "{grid: 1, block: [2, 64]}", arch), "none");
    EXPECT_EQ(refusal("__launch_bounds__(128)", "{grid: 1, block: 129}", arch),
              "plain was compiled for at most 128 threads per block (__launch_bounds__); it has 129");
  }
  EXPECT_EQ(refusal("__launch_bounds__(128, 1, 4)", "{grid: 8, block: 128, cluster: 8}"),
            "plain was compiled for clusters of at most 4 blocks (__launch_bounds__); it has 8");
}

TEST_F(CompiledLaunch, ObeysClusterDims) {
  EXPECT_EQ(refusal("__cluster_dims__(2, 1, 1)", "{grid: 4, block: 128}"), "none");
  EXPECT_EQ(refusal("__cluster_dims__(2, 1, 1)", "{grid: 4, block: 128, cluster: 2}"), "none");
  EXPECT_EQ(refusal("__cluster_dims__(2, 1, 1)", "{grid: 3, block: 128}"),
            "plain has a grid of 3x1x1 blocks, which is no multiple of its clusters of 2x1x1");
  EXPECT_EQ(refusal("__cluster_dims__(2, 1, 1)", "{grid: 4, block: 128, cluster: 4}"),
            "plain was compiled for clusters of 2x1x1 (__cluster_dims__); it has 4x1x1");
}

/// Code for sm_90a names its registers in another place than older code.
TEST_F(CompiledLaunch, KnowsTheRegistersOfMachineCode) {
  const fs::path folder = fs::path(::testing::TempDir()) / "compiled_launch";
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const Resources compiled = inspect_kernel("", "{grid: 1, block: 128}", arch);
    const auto table = table_of(folder / "kernels.yaml");
    const Variant& variant = table->find("rms_norm").variant("scale");
    const Problem problem =
        table->find("rms_norm").op.problem(Assignment{{"tokens", 3}, {"hidden", 64}}, DType::fp32);
    write(folder / "scale.cubin",
          Compiler(KernelSources(), {})
              .compile(variant, variant.stages[0], problem, Config{{"block", 128}}, arch)
              .code);
    const Resources taken = inspect_kernel("", "{grid: 1, block: 128}", arch, "cubin: scale.cubin");
    EXPECT_GT(taken.registers, 0);
    EXPECT_EQ(taken.registers, compiled.registers) << arch;
    EXPECT_EQ(taken.occupancy_pct, compiled.occupancy_pct) << arch;
  }
}

class Inspect : public ::testing::Test {
 protected:
  /// The end of `inspect` for a kernel `k<block>` with a launch and a source.
  Ended inspected(const std::string& source, const std::string& rest,
                  const std::string& archs = "sm_90a") const {
    const fs::path folder = testing::fresh_folder("inspect_launch");
    write(folder / "k.cu", source);
    write(folder / "k.yaml",
          "kernels:\n  - name: mine\n    op: rms_norm\n    source: k.cu\n    kernel: \"k<{block}>\"\n    " +
              rest +
              "\nops: [{op: rms_norm, dtypes: fp32, problems: [{tokens: 2, hidden: 64}], variants: mine}]\n");
    return testing::run_shell("{} inspect " + (folder / "k.yaml").string() + " --arch " + archs);
  }
};

const std::string kUsual =
    "arguments: [x, y]\n    parameters: {block: [128, 256]}\n    launch: {grid: tokens, block: block}";

TEST_F(Inspect, SaysWhyNothingCanBeLaunched) {
  const Ended ended = inspected(
      "template <int B> __global__ void __launch_bounds__(64) k(const float* x, float* y) { y[0] = x[0]; }",
      kUsual);
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_TRUE(has(ended,
                  "2 configurations cannot be launched for the same reason, the first of rms_norm/mine:\n"
                  "k<128> was compiled for at most 64 threads per block (__launch_bounds__); it has 128\n"))
      << ended.text;
  EXPECT_TRUE(has(ended, "2 too large for the device, 0 do not compile")) << ended.text;
}

TEST_F(Inspect, PrintsTheWholeReasonOfPtxasOnce) {
  const Ended ended = inspected(
      "template <int B> __global__ void k(const float* x, float* y) {\n  __shared__ float s[13000];\n"
      "  s[threadIdx.x] = x[0];\n  __syncthreads();\n  y[0] = s[threadIdx.x ^ 1];\n}",
      kUsual, "sm_80");
  EXPECT_EQ(ended.code, 1) << ended.text;
  EXPECT_FALSE(has(ended, "ptxas info")) << ended.text;
  EXPECT_TRUE(has(ended, "uses too much shared data (0xcb20 bytes, 0xc000 max)")) << ended.text;
  EXPECT_TRUE(has(ended, "2 configurations do not compile for the same reason")) << ended.text;
}

TEST_F(Inspect, CountsEqualReasonsOnce) {
  const Ended ended = inspected(
      "template <int B> __global__ void k(const float* x, float* y, int n) { y[n] = x[0] + B; }", kUsual);
  EXPECT_EQ(ended.code, 1) << ended.text;
  EXPECT_TRUE(has(ended, "2 configurations do not compile for the same reason")) << ended.text;
}

TEST_F(Inspect, GoesOnAfterAnArchitectureWithoutConfigurations) {
  const std::string source = "template <int B> __global__ void k(const float* x, float* y) { y[0] = x[B]; }";
  const Ended ended = inspected(source, kUsual + "\n    constraints: [has_wgmma]", "sm_80,sm_90a");
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_TRUE(has(ended, "sm_80 (NVIDIA A100-SXM4-40GB): nothing of this sweep is compiled for sm_80: "))
      << ended.text;
  EXPECT_TRUE(has(ended, "2 configurations, 2 kernels, 0 too large")) << ended.text;
  const Ended none = inspected(source, kUsual + "\n    constraints: [has_wgmma]", "sm_80");
  EXPECT_EQ(none.code, 2) << none.text;
  EXPECT_TRUE(has(none, "has no configuration for device 'NVIDIA A100-SXM4-40GB'; ")) << none.text;
  EXPECT_TRUE(has(none, "constraint 'has_wgmma' excludes ")) << none.text;
}

}  // namespace
}  // namespace warptune
#endif
