// Kernels from a file through the program: without a GPU, and on one.
#include "tests/program.h"

#include <gtest/gtest.h>

#include "harness/measure/launch_floor.h"
#include "harness/results/csv.h"
#include "harness/results/wisdom.h"
#include "tests/custom/kernel_file.h"
#include "tests/custom/sample_kernels.h"
#include "tests/files.h"
#if WARPTUNE_HAS_CUDA
#include "harness/device/device.h"
#endif

namespace warptune {
namespace {

using testing::Definition;
using testing::Ended;
using testing::fresh_folder;
using testing::kernel_folder;
using testing::run;
using testing::write;
namespace fs = std::filesystem;

const std::string kExample = std::string(SOURCE_ROOT) + "/examples/my_rms/my_rms.yaml";

TEST(KernelProgram, ListsVariantsParametersAndArguments) {
  const Ended variants = run("list variants rms_norm --kernels " + kExample);
  EXPECT_TRUE(has(variants, "rms_norm/my_rms")) << variants.text;
  EXPECT_TRUE(has(variants, "rms_norm/vectorized")) << variants.text;
  EXPECT_FALSE(has(run("list variants rms_norm"), "my_rms"));
  const Ended parameters = run("list parameters rms_norm --kernels " + kExample);
  EXPECT_TRUE(has(parameters, "where hidden % vec == 0")) << parameters.text;
  const Ended arguments = run("list arguments rms_norm");
  EXPECT_TRUE(has(arguments, "eps                float")) << arguments.text;
  EXPECT_TRUE(has(arguments, "hidden             int, a dim")) << arguments.text;
}

TEST(KernelProgram, PlansTheExampleForAGpu) {
  const Ended ended = run("tune " + kExample + " --dry-run --arch sm_90a");
  EXPECT_EQ(ended.code, 0);
  EXPECT_TRUE(has(ended, "rms_norm/my_rms")) << ended.text;
}

TEST(KernelProgram, AHostSaysThatTheKernelsNeedAGpu) {
  const Ended ended = run("tune " + kExample + " --device host --out " + fresh_folder("needs_gpu").string());
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(std::ranges::count(ended.text, '\n'), 1) << ended.text;
  EXPECT_TRUE(has(ended, "my_rms.yaml:")) << ended.text;
  EXPECT_TRUE(has(ended, "is not run, since it needs a GPU: ")) << ended.text;
}

TEST(KernelProgram, AHostRunsAPlainKernel) {
  const fs::path folder = fresh_folder("host_plain");
  const fs::path sweep = testing::write_plain_kernel(folder);
  const Ended ended = run("tune " + sweep.string() + " --device host --out " + folder.string());
  EXPECT_EQ(ended.code, 0) << ended.text;
  const auto rows = testing::statuses(read_csv(folder / "host" / "plain.csv"));
  EXPECT_EQ(rows.size(), 3u) << ended.text;
  for (const auto& [key, status] : rows) EXPECT_EQ(status, "ok") << key;
}

TEST(KernelProgram, AHostSaysWhichKernelIsNotRun) {
  const fs::path folder = kernel_folder("host_not_run");
  const fs::path sweep = write(
      folder / "sweep.yaml",
      Definition{.kernel = "kernel: \"typed<{dtype}, {block}>\"", .arguments = "arguments: [x, y]"}.text() +
          "sampling: {min_samples: 6, max_time: 0.002}\nfinalists: 1\nops:\n"
          "  - {op: rms_norm, dtypes: fp32, problems: [{tokens: 2, hidden: 64}], "
          "variants: [scale, host_naive]}\n");
  const Ended ended = run("tune " + sweep.string() + " --device host --out " + folder.string());
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_TRUE(has(ended, "note: rms_norm/scale in fp32 is not run, since it needs a GPU: ")) << ended.text;
  EXPECT_TRUE(has(ended, "no shared memory, barriers or atomics")) << ended.text;
  EXPECT_EQ(testing::statuses(read_csv(folder / "host" / "sweep.csv")).size(), 1u);
}

TEST(KernelProgram, AHostMeasuresTheVariantsThatItRuns) {
  const fs::path folder = kernel_folder("host_beside");
  const fs::path sweep =
      write(folder / "sweep.yaml",
            Definition().text() +
                "sampling: {min_samples: 6, max_time: 0.002}\nfinalists: 1\nops:\n  - op: rms_norm\n"
                "    dtypes: fp32\n    problems: [{tokens: 2, hidden: 8}]\n"
                "    variants: [scale, host_naive]\n");
  const Ended ended = run("tune " + sweep.string() + " --device host --out " + folder.string());
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_EQ(Wisdom::load(folder / "host" / "wisdom.json").winners().size(), 1u);
}

TEST(KernelProgram, AMistakeEndsWithItsSentence) {
  const fs::path folder = kernel_folder("program_mistake");
  const fs::path file = write(folder / "k.yaml", Definition{.arguments = "arguments: [xx]"}.text());
  for (const std::string command :
       {"list ops --kernels FILE", "inspect FILE --arch sm_80", "tune FILE --device host"}) {
    const Ended ended = run(std::string(command).replace(command.find("FILE"), 4, file.string()));
    EXPECT_EQ(ended.code, 2) << command;
    EXPECT_TRUE(has(ended, "k.yaml:6: op 'rms_norm' has no argument 'xx'")) << ended.text;
  }
}

TEST(KernelProgram, ASkeletonIsNotWrittenOverAFile) {
  const fs::path folder = fresh_folder("skeleton");
  const std::string command = "new kernel softmax --name mine -o " + folder.string();
  EXPECT_EQ(run(command).code, 0);
  EXPECT_NE(testing::text_of(folder / "mine.yaml").find("op: softmax"), std::string::npos);
  EXPECT_NE(testing::text_of(folder / "mine.cu").find("__global__ void __launch_bounds__(kBlock) mine("),
            std::string::npos);
  const Ended again = run(command);
  EXPECT_EQ(again.code, 2);
  EXPECT_TRUE(has(again, "exists; nothing is written")) << again.text;
  EXPECT_TRUE(has(run("new kernel softmax --name naive"), "has a variant 'naive' already"));
  EXPECT_TRUE(has(run("new kernel softmx"), "did you mean 'softmax'"));
}

int rows_with(const fs::path& csv, const std::string& status) {
  int count = 0;
  for (const auto& row : read_csv(csv)) count += row.at("status") == status;
  return count;
}

/// The shipped examples run on the host: their references are its variants.
TEST(OpProgram, TheExamplesRunOnTheHost) {
  const fs::path out = fresh_folder("op_examples");
  for (const std::string name : {"saxpy", "gelu_mul"}) {
    if (name == "gelu_mul" && !testing::has_numpy()) continue;
    const auto yaml = fs::path(SOURCE_ROOT) / "examples" / name / (name + ".yaml");
    const auto ended = testing::run_shell("{} tune " + yaml.string() +
                                          " --filter 'n=1000,|gelu_mul' --device host --out " + out.string());
    EXPECT_EQ(ended.code, 0) << ended.text;
    EXPECT_GE(rows_with(out / "host" / (name + ".csv"), "ok"), 2);
    EXPECT_EQ(rows_with(out / "host" / (name + ".csv"), "wrong_result"), 0);
  }
}

TEST(OpProgram, AReferenceThatDoesNotRunEndsTheSweep) {
  const fs::path folder = fresh_folder("op_bad_reference");
  for (const char* file : {"saxpy.yaml", "saxpy.cu"})
    fs::copy_file(fs::path(SOURCE_ROOT) / "examples" / "saxpy" / file, folder / file);
  write(folder / "reference.cu",
        "extern \"C\" __global__ void saxpy_reference(const double* x, double* y, int n, double a) {\n"
        "  __shared__ double first[1];\n  first[0] = a;\n  if (n) y[0] += first[0] * x[0];\n}\n");
  const Ended ended =
      run("tune " + (folder / "saxpy.yaml").string() + " --device host --out " + folder.string());
  EXPECT_EQ(ended.code, 2) << ended.text;
  EXPECT_TRUE(has(ended, "reference.cu:2:11: error: a kernel that runs without a GPU has no shared memory"))
      << ended.text;
}

TEST(OpProgram, AReferenceWithoutAnEndEndsTheSweep) {
  const fs::path folder = fresh_folder("op_endless");
  for (const char* file : {"saxpy.yaml", "saxpy.cu"})
    fs::copy_file(fs::path(SOURCE_ROOT) / "examples" / "saxpy" / file, folder / file);
  write(folder / "reference.cu",
        "extern \"C\" __global__ void saxpy_reference(const double* x, double* y, int n, double a) {\n"
        "  for (volatile int i = 0; i < 1;) y[0] = a * x[0] + n;\n}\n");
  const Ended ended = run("tune " + (folder / "saxpy.yaml").string() +
                          " --device host --deadline 16 --first-deadline 1 --out " + folder.string());
  EXPECT_EQ(ended.code, 2) << ended.text;
  EXPECT_TRUE(has(ended, "reference.cu' does not run: it ran for more than 8 seconds")) << ended.text;
}

TEST(OpProgram, AMistakeInAShapeEndsWithFileAndLine) {
  const fs::path folder = fresh_folder("op_shape");
  for (const char* file : {"saxpy.yaml", "saxpy.cu", "reference.cu"})
    fs::copy_file(fs::path(SOURCE_ROOT) / "examples" / "saxpy" / file, folder / file);
  std::string text = testing::text_of(folder / "saxpy.yaml");
  text.replace(text.find("shape: n"), 8, "shape: n / 3");
  const fs::path file = write(folder / "saxpy.yaml", text);
  for (const std::string command : {"tune FILE --device host", "inspect FILE --arch sm_80"}) {
    const Ended ended = run(std::string(command).replace(command.find("FILE"), 4, file.string()));
    EXPECT_EQ(ended.code, 2) << ended.text;
    EXPECT_TRUE(has(ended, "saxpy.yaml:7: 'shape' 'n / 3' is 333.333333333 for saxpy[n=1000,dtype=fp32]"))
        << ended.text;
  }
}

TEST(OpProgram, SkeletonsRunOnTheHost) {
  const fs::path folder = fresh_folder("op_skeleton");
  ASSERT_EQ(testing::run_shell("{} new op my_scale -o " + folder.string()).code, 0);
  const auto ended = testing::run_shell("{} tune " + (folder / "my_scale.yaml").string() +
                                        " --device host --out " + folder.string());
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_NE(testing::run_shell("{} new op softmax").text.find("there is an op 'softmax' already"),
            std::string::npos);
}

#if WARPTUNE_HAS_CUDA
TEST(OpProgram, TheExamplesAndTheSkeletonCompile) {
  const fs::path folder = fresh_folder("op_compile");
  ASSERT_EQ(testing::run_shell("{} new op my_scale -o " + folder.string()).code, 0);
  const fs::path examples = fs::path(SOURCE_ROOT) / "examples";
  for (const fs::path& yaml : {examples / "saxpy" / "saxpy.yaml", examples / "gelu_mul" / "gelu_mul.yaml",
                               folder / "my_scale.yaml"}) {
    const auto ended = testing::run_shell("{} inspect " + yaml.string() + " --arch sm_80,sm_90a --sample 1");
    EXPECT_EQ(ended.code, 0) << ended.text;
  }
}

TEST(GpuOpProgram, TheExamplesAreTuned) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const fs::path out = fresh_folder("op_gpu");
  for (const std::string name : {"saxpy", "gelu_mul"}) {
    if (name == "gelu_mul" && !testing::has_numpy()) continue;
    const auto yaml = fs::path(SOURCE_ROOT) / "examples" / name / (name + ".yaml");
    const auto ended = testing::run_shell("{} tune " + yaml.string() + " --out " + out.string());
    EXPECT_EQ(ended.code, 0) << ended.text;
    for (const auto& file : fs::recursive_directory_iterator(out))
      if (file.path().filename() == name + ".csv") {
        EXPECT_EQ(rows_with(file.path(), "wrong_result"), 0);
      }
  }
}
#endif

#if WARPTUNE_HAS_CUDA
TEST(KernelProgram, InspectsTheExample) {
  const Ended ended = run("inspect " + kExample + " --arch sm_80,sm_90a --sample 1");
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_TRUE(has(ended, "rms_norm/my_rms")) << ended.text;
}

TEST(KernelProgram, InspectTellsWhichKernelsASourceHas) {
  const fs::path folder = kernel_folder("program_symbol");
  const fs::path file =
      write(folder / "k.yaml", Definition{.kernel = "kernel: plane"}.text() +
                                   "ops: [{op: rms_norm, problems: [{tokens: 2, hidden: 64}], "
                                   "variants: scale}]\n");
  const Ended ended = run("inspect " + file.string() + " --arch sm_80");
  EXPECT_EQ(ended.code, 1);
  EXPECT_TRUE(has(ended, "has no kernel 'plane'; did you mean 'plain'?")) << ended.text;
}

class GpuKernelProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  }
  /// The rows of a sweep with one kernel from a file, by status; without those that time an empty launch.
  std::map<std::string, int> tuned(const fs::path& sweep, const fs::path& out) {
    const Ended ended = run("tune " + sweep.string() + " --out " + out.string());
    EXPECT_LE(ended.code, 1) << ended.text;
    std::map<std::string, int> statuses;
    for (const auto& file : fs::recursive_directory_iterator(out))
      if (file.path().filename() == sweep.stem().string() + ".csv")
        for (const auto& row : read_csv(file.path()))
          if (row.at("op") != kLaunchOp) ++statuses[row.at("variant") + " " + row.at("status")];
    return statuses;
  }
};

TEST_F(GpuKernelProgram, TunesTheExample) {
  const auto statuses = tuned(kExample, fresh_folder("gpu_example"));
  EXPECT_GE(statuses.at("my_rms ok"), 9);
  for (const auto& [status, count] : statuses) EXPECT_TRUE(status.ends_with(" ok")) << status;
}

/// A kernel in two stages, which share memory of the plan.
TEST_F(GpuKernelProgram, StagesShareTheWorkspace) {
  const fs::path folder = fresh_folder("gpu_stages");
  write(folder / "two.cu", R"(
extern "C" __global__ void factors(const float* x, float* factor, int hidden, float eps) {
  float sum = 0;
  for (int i = 0; i < hidden; ++i) sum += x[blockIdx.x * hidden + i] * x[blockIdx.x * hidden + i];
  factor[blockIdx.x] = rsqrtf(sum / hidden + eps);
}
extern "C" __global__ void scaled(const float* x, const float* weight, const float* factor, float* y, int hidden) {
  for (int i = threadIdx.x; i < hidden; i += blockDim.x)
    y[blockIdx.x * hidden + i] = x[blockIdx.x * hidden + i] * factor[blockIdx.x] * weight[i];
}
)");
  const fs::path sweep = write(folder / "two.yaml", R"(finalists: 1
kernels:
  - name: two
    op: rms_norm
    source: two.cu
    dtypes: fp32
    workspace: 4 * tokens
    stages:
      - {kernel: factors, arguments: [x, workspace, hidden, eps], launch: {grid: tokens, block: 1}}
      - {kernel: scaled, arguments: [x, weight, workspace, y, hidden], launch: {grid: tokens, block: 64}}
ops:
  - {op: rms_norm, dtypes: fp32, problems: [{tokens: 5, hidden: 96}], variants: two}
)");
  const auto statuses = tuned(sweep, folder / "out");
  EXPECT_GE(statuses.at("two ok"), 1);
  EXPECT_EQ(statuses.size(), 1u);
}

TEST_F(GpuKernelProgram, ConstantMemoryStructuresAndWordsAreVerified) {
  const fs::path folder = fresh_folder("gpu_plain");
  const auto statuses = tuned(testing::write_plain_kernel(folder), folder / "out");
  EXPECT_EQ(statuses, (std::map<std::string, int>{{"plain ok", statuses.at("plain ok")}}));
  EXPECT_GE(statuses.at("plain ok"), 2);
}

/// Two phases with a barrier of the grid between them.
TEST_F(GpuKernelProgram, ACooperativeLaunchSynchronizesItsGrid) {
  const fs::path folder = fresh_folder("gpu_cooperative");
  const auto statuses = tuned(testing::write_grid_kernel(folder), folder / "out");
  EXPECT_GE(statuses.at("grid ok"), 2);
  EXPECT_EQ(statuses.at("grid resource"), 1);
  EXPECT_EQ(statuses.size(), 2u);
}

/// Tensors of 8 and 64 bits, and a dim beyond 32 bits.
TEST_F(GpuKernelProgram, WideAndNarrowTensorsAreVerified) {
  const fs::path folder = fresh_folder("gpu_wide");
  const auto statuses = tuned(testing::write_wide_op(folder), folder / "out");
  EXPECT_GE(statuses.at("one ok"), 1);
  EXPECT_EQ(statuses.size(), 1u);
}

TEST_F(GpuKernelProgram, RefusesAWrongKernel) {
  const fs::path folder = kernel_folder("gpu_wrong");
  const fs::path sweep =
      write(folder / "wrong.yaml", Definition().text() +
                                       "finalists: 1\nops:\n  - op: rms_norm\n    dtypes: fp32\n"
                                       "    problems: [{tokens: 2, hidden: 64}]\n    variants: scale\n");
  const auto statuses = tuned(sweep, folder / "out");
  EXPECT_EQ(statuses, (std::map<std::string, int>{{"scale wrong_result", 2}}));
}
#endif

}  // namespace
}  // namespace warptune
