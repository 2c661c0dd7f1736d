// A GPU as an older architecture: the code of kernels, and the device.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "harness/core/error.h"
#include "harness/device/compile.h"
#include "harness/device/cubin_file.h"
#include "tests/support.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

/// The machine code of a kernel that stores `value`.
std::string code_of(const std::string& value, const std::string& arch) {
  const fs::path folder = fs::path(::testing::TempDir()) / "rehearsal";
  fs::create_directories(folder);
  std::ofstream(folder / "k.cu") << "namespace warptune {\n#if " << value
                                 << " >= 900\n#define WAIT 1\n#endif\n"
                                 << "template <int N> __global__ void k(int* p) {\n#ifdef WAIT\n"
                                 << "asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n#endif\n"
                                 << "p[N] = " << value << "; }\n}\n";
  return machine_code_hash(Compiler(KernelSources(folder), {}).compile("k.cu", "k<3>", arch).code);
}

TEST(Rehearsal, SourcesSeeTheOlderArchitectureAndCodeIsOfTheDevice) {
#if !WARPTUNE_HAS_CUDA
  GTEST_SKIP() << "built without the CUDA Toolkit";
#endif
  EXPECT_EQ(code_of("__CUDA_ARCH__", "sm_90a-as-sm_80"), code_of("800", "sm_90a"));
  EXPECT_NE(code_of("__CUDA_ARCH__", "sm_90a-as-sm_80"), code_of("__CUDA_ARCH__", "sm_90a"));
  EXPECT_NE(code_of("__CUDA_ARCH__", "sm_90a-as-sm_80"), code_of("__CUDA_ARCH__", "sm_80"));
}

TEST(Rehearsal, AnErrorHasItsLine) {
#if !WARPTUNE_HAS_CUDA
  GTEST_SKIP() << "built without the CUDA Toolkit";
#endif
  const fs::path folder = fs::path(::testing::TempDir()) / "rehearsal_error";
  fs::create_directories(folder);
  std::ofstream(folder / "k.cu") << "\nint x = nothing;\n";
  try {
    Compiler(KernelSources(folder), {}).compile("k.cu", "k", "sm_90a-as-sm_80");
    FAIL() << "it compiles";
  } catch (const CompileError& e) {
    EXPECT_NE(std::string(e.what()).find("k.cu(2): error"), std::string::npos) << e.what();
  }
}

TEST(Rehearsal, TheHostIsNone) {
  EXPECT_EQ(device_as("cuda:1", "sm_80"), "cuda:1 as sm_80");
  EXPECT_EQ(device_as("cuda:1", ""), "cuda:1");
  EXPECT_THROW(open_device("host as sm_80"), InputError);
}

/// Every variant that sm_80 has is correct, and none needs more than sm_80 has.
TEST(GpuRehearsal, VariantsOfTheOlderArchitectureAreCorrect) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  {
    const auto real = open_device("cuda:0");
    if (real->facts().arch_number() <= 80) GTEST_SKIP() << "the GPU is not newer than sm_80";
  }
  const auto device = open_device("cuda:0 as sm_80");
  const DeviceFacts& facts = device->facts();
  EXPECT_EQ(facts.arch_number(), 80);
  EXPECT_EQ(facts.slug(), facts.name);
  const std::pair<const char*, testing::Dims> problems[] = {
      {"linear", {{"tokens", "1"}, {"in", "4096"}, {"out", "6144"}}},
      {"linear", {{"tokens", "8"}, {"in", "4096"}, {"out", "6144"}}},
      {"attention_decode",
       {{"batch", "2"}, {"q_heads", "32"}, {"kv_heads", "8"}, {"head_dim", "128"}, {"context", "1000"}}},
      {"attention_prefill",
       {{"batch", "1"},
        {"q_len", "300"},
        {"kv_len", "300"},
        {"q_heads", "8"},
        {"kv_heads", "2"},
        {"head_dim", "128"}}},
      {"add_rms_norm", {{"tokens", "2"}, {"hidden", "4096"}}}};
  for (const auto& [op, dims] : problems) {
    const OpEntry& entry = find_op(op);
    std::vector<std::string> missing;
    const auto chosen = testing::covering_configs(entry, {dims}, DType::bf16, facts, missing);
    EXPECT_FALSE(chosen.empty()) << op;
    testing::check_configs(*device, entry, chosen);
  }
}

}  // namespace
}  // namespace warptune
