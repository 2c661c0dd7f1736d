// The options of the compiler that a kernel from a file may have.
#include "harness/device/compiler_options.h"

#include <gtest/gtest.h>

#include "tests/custom/kernel_file.h"
#include "tests/files.h"

namespace warptune {
namespace {

using testing::Definition;
using testing::error_of;
using testing::kernel_folder;
using testing::table_of;
using testing::write;
namespace fs = std::filesystem;

std::string error(const std::string& option) {
  try {
    checked_option(option);
    return "none";
  } catch (const InputError& e) {
    return e.what();
  }
}

TEST(CompilerOptions, KeepsWhatTheCompilerTakes) {
  for (const char* option :
       {"-std=c++17", "--std=c++20", "-DX", "-DX=a=b", "-UX", "--define-macro=X=1", "--use_fast_math",
        "-maxrregcount=64", "--fmad=false", "-prec-div=true", "-default-device", "--Ofast-compile=mid",
        "--ptxas-options=-O1", "-Xptxas=--maxrregcount=32", "--ptxas-options=-dlcm=cg", "-G",
        "--diag-suppress=177,1"})
    EXPECT_EQ(checked_option(option), option);
}

TEST(CompilerOptions, TakesNumbersForTruth) {
  EXPECT_EQ(checked_option("--ftz=1"), "--ftz=true");
  EXPECT_EQ(checked_option("--ftz=0"), "--ftz=false");
  EXPECT_EQ(checked_option("--use_fast_math=1"), "--use_fast_math");
  EXPECT_EQ(checked_option("--use_fast_math=0"), "");
}

TEST(CompilerOptions, RefusesWhatWritesFilesOrMakesNoKernel) {
  for (const char* option : {"--time=t.csv",
                             "-time=t.csv",
                             "--create-pch=a.pch",
                             "-create-pch=a",
                             "--pch",
                             "-pch",
                             "--pch-dir=d",
                             "--use-pch=a",
                             "--fdevice-time-trace=t",
                             "-fdevice-time-trace=t",
                             "-Xcudafe",
                             "-Xcudafe=--dependencies",
                             "--optix-ir",
                             "-dc",
                             "-rdc=true",
                             "-dlto",
                             "-arch=sm_80",
                             "--gpu-architecture=sm_80",
                             "-Ifolder",
                             "--include-path=folder",
                             "--fdevice-syntax-only",
                             "--ptxas-options=-o=a",
                             "-Xptxas=--output-file=a",
                             "--ptxas-options=-O1,-o=a",
                             "--ptxas-options",
                             "@file",
                             "--no-such"})
    EXPECT_NE(error(option).find(option), std::string::npos) << option << ": " << error(option);
}

TEST(CompilerOptions, TellsWhatWouldBeRight) {
  EXPECT_EQ(error("--use_fastmath"),
            "the compiler option '--use_fastmath' is not allowed: docs/custom-kernels.md lists the "
            "allowed ones; did you mean '--use_fast_math'?");
  EXPECT_EQ(error("--time=a"),
            "the compiler option '--time=a' is not allowed: it makes the compiler write a file");
  EXPECT_EQ(error("--maxrregcount=many"),
            "the compiler option '--maxrregcount=many' is wrong: '--maxrregcount' takes an integer from "
            "16 to 255");
  EXPECT_EQ(error("--ftz=yes"), "the compiler option '--ftz=yes' is wrong: '--ftz' takes true or false");
  EXPECT_EQ(error("-std=c++18"),
            "the compiler option '-std=c++18' is wrong: '-std' takes one of c++03, c++11, c++14, c++17, "
            "c++20, c++23");
}

TEST(CompilerOptions, AreCheckedWhereAKernelIsDefined) {
  EXPECT_EQ(error_of(kernel_folder("option_time"), {.more = "options: [--time=t.csv]"}),
            "kernels.yaml:10: the compiler option '--time=t.csv' is not allowed: it makes the compiler write "
            "a file");
  EXPECT_EQ(error_of(kernel_folder("option_tuned"), {.more = "options: ['--time={block}']"}),
            "kernels.yaml:10: the compiler option '--time={block}' is not allowed: it makes the compiler "
            "write a file");
  EXPECT_EQ(error_of(kernel_folder("option_include"), {.more = "options: [--pre-include=none.h]"}),
            "kernels.yaml:10: the file 'none.h' of '--pre-include=none.h' does not exist");
  EXPECT_EQ(
      error_of(kernel_folder("option_word"), {.more = "options: ['--maxrregcount={blok}']"}).substr(0, 15),
      "kernels.yaml:10");
}

#if WARPTUNE_HAS_CUDA
class TunedOption : public ::testing::Test {
 protected:
  Cubin build(const std::string& name, const Definition& definition, Config config) const {
    const auto table = table_of(write(kernel_folder(name) / "kernels.yaml", definition.text()));
    const OpEntry& op = table->find("rms_norm");
    const Variant& variant = op.variant("scale");
    const Problem problem = op.op.problem(Assignment{{"tokens", 3}, {"hidden", 64}}, DType::fp32);
    return Compiler(KernelSources(), {}).compile(variant, variant.stages[0], problem, config, "sm_80");
  }
};

TEST_F(TunedOption, IsOfTheConfiguration) {
  Definition d{.parameters = "parameters: {block: 64, fast: [0, 1], regs: [16, 64, 300]}",
               .more = "options: ['--maxrregcount={regs}', '--use_fast_math={fast}', '-DFAST={fast}']"};
  const auto build_with = [&](int fast, int regs) {
    return build("tuned", d, Config{{"block", 64}, {"fast", fast}, {"regs", regs}});
  };
  EXPECT_EQ(build_with(0, 64).entry, "plain");
  const std::string message = testing::message_of<CompileError>(fs::path(::testing::TempDir()) / "tuned",
                                                                [&] { build_with(0, 300); });
  EXPECT_EQ(message,
            "kernels.yaml:10: the compiler option '--maxrregcount=300' is wrong: '--maxrregcount' takes an "
            "integer from 16 to 255");
  // Configurations with other options are other kernels.
  const auto table = table_of(write(kernel_folder("tuned_key") / "kernels.yaml", d.text()));
  const Variant& variant = table->find("rms_norm").variant("scale");
  const auto key = [&](int regs) {
    return kernel_key(variant, variant.stages[0], {}, Config{{"block", 64}, {"fast", 0}, {"regs", regs}});
  };
  EXPECT_NE(key(32), key(64));
}

TEST_F(TunedOption, LimitsTheRegisters) {
  const fs::path folder = kernel_folder("limit");
  write(folder / "many.cu",
        R"(extern "C" __global__ void plain(const float* x, float* y, int hidden, float eps) {
  float a[64];
  for (int i = 0; i < 64; ++i) a[i] = x[i * hidden + threadIdx.x];
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 64; ++i) sum += a[i] * a[63 - i] + eps;
  y[threadIdx.x] = sum;
}
)");
  const Definition d{.source = "source: many.cu",
                     .define = "",
                     .parameters = "parameters: {block: 64, regs: [24, 128]}",
                     .more = "options: ['--maxrregcount={regs}']"};
  const auto table = table_of(write(folder / "kernels.yaml", d.text()));
  const OpEntry& op = table->find("rms_norm");
  const Problem problem = op.op.problem(Assignment{{"tokens", 3}, {"hidden", 64}}, DType::fp32);
  const Compiler compiler(KernelSources(), {});
  const auto registers = [&](int regs) {
    return inspect(compiler, op.variant("scale"), problem, Config{{"block", 64}, {"regs", regs}},
                   known_device("sm_80"))
        .registers;
  };
  EXPECT_LE(registers(24), 24);
  EXPECT_GT(registers(128), 24);
}

/// Every option that is allowed is one of the compiler, if of a newer version.
TEST_F(TunedOption, TheCompilerTakesWhatIsAllowed) {
  for (const char* option : {"-DX=1",
                             "-UX",
                             "--define-macro=X=1",
                             "--maxrregcount=64",
                             "--use_fast_math",
                             "--ftz=1",
                             "--prec-sqrt=0",
                             "--prec-div=0",
                             "--fmad=0",
                             "--extra-device-vectorization",
                             "--restrict",
                             "-default-device",
                             "-device-int128",
                             "-lineinfo",
                             "-G",
                             "--ptxas-options=-O1",
                             "--ptxas-options=--register-usage-level=5",
                             "-w",
                             "--diag-suppress=177",
                             "-err-no",
                             "--builtin-move-forward=0",
                             "--builtin-initializer-list=1",
                             "--modify-stack-limit=0"})
    EXPECT_EQ(
        build("allowed", {.more = "options: ['" + std::string(option) + "']"}, Config{{"block", 64}}).entry,
        "plain")
        << option;
}
#endif

}  // namespace
}  // namespace warptune
