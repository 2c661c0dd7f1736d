// References that are kernels: on the host, compiled for GPUs, and on one.
#include <gtest/gtest.h>

#include "harness/verify/reference_kernel.h"
#include "tests/custom/op_file.h"

namespace warptune {
namespace {

using testing::check_reference;
using testing::op_folder;
using testing::OpText;
using testing::problem_of;
using testing::reference_error;
using testing::table_of;
using testing::write;
namespace fs = std::filesystem;

/// The folder with axpy.cu: kernels on arrays of fp64 and fp32, a template, and one that is not plain.
fs::path cuda_folder(const std::string& name) {
  const fs::path folder = op_folder(name);
  write(folder / "axpy.cu", R"(#include "place.cuh"
extern "C" __global__ void axpy(const double* x, double* y, const int* ids, int rows, long long count, double a) {
  const long long i = place();
  if (i < count && rows > 0 && ids[0] >= 0) y[i] += a * x[i];
}
template <int kColumns, class T>
__global__ void __launch_bounds__(64) rowwise(const T* x, T* y, T a) {
  for (int i = threadIdx.x; i < kColumns; i += blockDim.x) {
    const int at = blockIdx.y * kColumns + i;
    y[at] = y[at] + a * x[at];
  }
}
)");
  write(folder / "place.cuh",
        "__device__ inline long long place() {\n"
        "  return (long long)blockIdx.x * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + "
        "threadIdx.x;\n}\n");
  write(folder / "shared.cu",
        "extern \"C\" __global__ void shared(double* y) {\n  __shared__ double first[1];\n"
        "  first[0] = y[0];\n  __syncthreads();\n  y[threadIdx.x] = first[0];\n}\n");
  return folder;
}

OpText cuda_op(const std::string& kernel = "axpy",
               const std::string& arguments = "[x, y, ids, rows, count, a]",
               const std::string& launch = "{grid: \"ceil_div(count_of, 8)\", block: [4, 2]}",
               const std::string& more = "", const std::string& file = "axpy.cu") {
  std::string text = launch;
  if (const auto at = text.find("count_of"); at != std::string::npos) text.replace(at, 8, "rows * columns");
  return {.reference = "{cuda: " + file + ", kernel: \"" + kernel + "\", arguments: " + arguments +
                       ", launch: " + text + more + "}"};
}

const OpText kRowwise =
    cuda_op("rowwise<{columns}, float>", "[x, y, a]", "{grid: [1, rows], block: 2}", ", dtype: fp32");

TEST(CudaReference, RunsOnTheHost) {
  const fs::path folder = cuda_folder("cuda_host");
  check_reference(table_of(write(folder / "op.yaml", cuda_op().text()))->find("axpy").op);
}

TEST(CudaReference, MayBeATemplateInFp32) {
  const fs::path folder = cuda_folder("cuda_fp32");
  const auto table = table_of(write(folder / "op.yaml", kRowwise.text()));
  check_reference(table->find("axpy").op, 1e-6);
  EXPECT_FALSE(table->find("axpy").op.reference.target<KernelReference>()->in_fp64);
}

TEST(CudaReference, TellsWhyItDoesNotRun) {
  const fs::path folder = cuda_folder("cuda_wrong");
  const auto holds = [&](const OpText& op, const std::string& part) {
    const std::string text = reference_error(op, folder);
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  };
  holds(cuda_op("axpy", "[x, y, a]"),
        "op.yaml:9: kernel 'axpy' takes other parameters (6 of 8, 8, 8, 4, 8, 8 bytes) than 'arguments' "
        "passes (3 "
        "of 8, 8, 8 bytes)");
  holds(cuda_op("rowwise<columns, float>", "[x, y, a]"), "op.yaml:9:");
  holds(cuda_op("shared", "[y]", "{grid: 1, block: 2}", "", "shared.cu"),
        "shared.cu:2:11: error: a kernel that runs without a GPU has no shared memory, barriers or atomics");
  holds(cuda_op("axpy", "[x, y, ids, rows, count, a]", "{grid: rows - 3, block: 2}"), "op.yaml:9: 'grid'");
}

TEST(CudaReference, EveryMistakeIsOneSentenceWithItsLine) {
  const fs::path folder = cuda_folder("cuda_mistakes");
  const auto wrong = [&](const OpText& op) {
    return testing::message_of<InputError>(folder, [&] { table_of(write(folder / "op.yaml", op.text())); });
  };
  EXPECT_EQ(wrong(cuda_op()), "none");
  EXPECT_EQ(wrong({.reference = "{cuda: axpy.cu, kernel: axpy}"}),
            "op.yaml:9: a 'reference' in CUDA needs 'arguments'");
  EXPECT_EQ(wrong(cuda_op("axpi")), "op.yaml:9: 'axpy.cu' has no kernel 'axpi'; did you mean 'axpy'?");
  EXPECT_EQ(wrong(cuda_op("axpy", "[x, z]")).substr(0, 45), "op.yaml:9: op 'axpy' has no argument 'z'; did");
  EXPECT_EQ(wrong(cuda_op("axpy", "[x]", "{grid: 1, block: 1, shared: 4}")).substr(0, 30),
            "op.yaml:9: unknown key 'shared");
  EXPECT_EQ(wrong(cuda_op("axpy", "[x]", "{grid: 1, block: 1}", ", dtype: fp16")),
            "op.yaml:9: 'dtype' of a reference is 'fp16'; it must be fp64 or fp32");
  EXPECT_EQ(wrong(cuda_op("axpy", "[x]", "{grid: 1, block: 1}", ", function: axpy")).substr(0, 32),
            "op.yaml:9: unknown key 'function");
  EXPECT_EQ(wrong(cuda_op("axpy", "[x]", "{grid: 1, block: 1}", "", "none.cu")).substr(0, 20),
            "op.yaml:9: 'none.cu'");
}

TEST(CudaReference, AnEditOfItsFilesMakesRowsStale) {
  const fs::path folder = cuda_folder("cuda_stale");
  const auto hash = [&] {
    return table_of(write(folder / "op.yaml", cuda_op().text()))->find("axpy").host_source_hash;
  };
  const std::string before = hash();
  EXPECT_EQ(hash(), before);
  write(folder / "place.cuh", "__device__ inline long long place() { return 0; }\n");
  EXPECT_NE(hash(), before);
}

#if WARPTUNE_HAS_CUDA
TEST(CudaReference, CompilesForGpus) {
  const fs::path folder = cuda_folder("cuda_gpus");
  const Compiler compiler(KernelSources(), {});
  for (const OpText& text :
       {cuda_op(), kRowwise, cuda_op("shared", "[y]", "{grid: 1, block: 2}", "", "shared.cu")}) {
    const auto table = table_of(write(folder / "op.yaml", text.text()));
    const Op& op = table->find("axpy").op;
    const Variant& variant = *op.reference.target<KernelReference>()->variant;
    for (const char* arch : {"sm_80", "sm_90a"})
      EXPECT_FALSE(compiler.compile(variant, variant.stages[0], problem_of(op), {}, arch).code.empty())
          << arch;
  }
}

TEST(GpuCudaReference, RunsOnTheGpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const OwnedDevice device = open_device("cuda:0");
  const fs::path folder = cuda_folder("cuda_gpu");
  for (const OpText& text : {cuda_op(), kRowwise}) {
    const auto table = table_of(write(folder / "op.yaml", text.text()));
    const Op& op = table->find("axpy").op;
    const auto specs = op.tensors(problem_of(op), 3);
    Expected there, here;
    run_reference_kernel(*device, *op.reference.target<KernelReference>(), problem_of(op), specs, 3, there);
    op.reference(problem_of(op), Inputs(specs, 3), 0, here);
    ASSERT_EQ(there.runs().size(), 1u);
    for (std::size_t i = 0; i < 15; ++i)
      EXPECT_NEAR(there.runs()[0].values[i], here.runs()[0].values[i], 1e-6);
  }
}
#endif

}  // namespace
}  // namespace warptune
