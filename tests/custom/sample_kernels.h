#pragma once
// Kernels and ops of the user that tests compile, tune and verify. Each function writes the files to a folder
// and returns the sweep.
#include "tests/custom/kernel_file.h"

namespace warptune::testing {

/// rms_norm in two kernels of plain C++, with a workspace, a structure, words and constant memory.
inline std::filesystem::path write_plain_kernel(const std::filesystem::path& folder) {
  write(folder / "plain.cu", R"(
enum class Mode { none, scaled };
struct Sizes { int hidden; float eps; };
namespace ns { __constant__ float weights[8]; }
extern "C" __global__ void factors(const float* x, float* factor, Sizes sizes) {
  float sum = 0;
  for (int i = 0; i < sizes.hidden; ++i) sum += x[blockIdx.x * sizes.hidden + i] * x[blockIdx.x * sizes.hidden + i];
  factor[blockIdx.x] = rsqrtf(sum / sizes.hidden + sizes.eps);
}
template <class T, Mode kMode, int kBlock>
__global__ void __launch_bounds__(kBlock) scaled(const T* x, const float* factor, T* y, unsigned hidden) {
  for (unsigned i = threadIdx.x; i < hidden; i += blockDim.x)
    y[blockIdx.x * hidden + i] = x[blockIdx.x * hidden + i] * factor[blockIdx.x] * ns::weights[i] * (kMode == Mode::scaled);
}
)");
  return write(folder / "plain.yaml", R"yaml(finalists: 1
sampling: {min_samples: 6, max_time: 0.002}
kernels:
  - name: plain
    op: rms_norm
    source: plain.cu
    parameters: {block: [2, 4], mode: [none, scaled]}
    constraints: [mode == scaled]
    workspace: 4 * tokens
    constant: {"ns::weights": weight}
    stages:
      - kernel: factors
        arguments: [x, workspace, {struct: [hidden, eps]}]
        launch: {grid: "min(tokens, 1000 * sms)", block: 1}
      - kernel: "scaled<{dtype}, Mode::{mode}, {block}>"
        arguments: [x, workspace, y, {unsigned: hidden}]
        launch: {grid: tokens, block: block}
ops:
  - {op: rms_norm, dtypes: fp32, problems: [{tokens: 5, hidden: 8}], variants: [plain, host_naive]}
)yaml");
}

/// rms_norm in two phases with a barrier of the grid between them; of three configurations one is too large.
inline std::filesystem::path write_grid_kernel(const std::filesystem::path& folder) {
  write(folder / "grid.cu", R"(#include <cooperative_groups.h>
__constant__ float scale[2];
extern "C" __global__ void grid_norm(const float* x, const float* weight, float* factor, float* y, size_t tokens, int hidden,
                                float eps, bool on) {
  for (size_t row = blockIdx.x; row < tokens; row += gridDim.x)
    if (threadIdx.x == 0) {
      float sum = 0;
      for (int i = 0; i < hidden; ++i) sum += x[row * hidden + i] * x[row * hidden + i];
      factor[row] = rsqrtf(sum / hidden + eps);
    }
  cooperative_groups::this_grid().sync();
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; on && i < tokens * hidden; i += gridDim.x * blockDim.x)
    y[i] = x[i] * factor[i / hidden] * weight[i % hidden] * scale[0] * scale[1];
}
)");
  return write(folder / "grid.yaml", R"yaml(finalists: 1
kernels:
  - name: grid
    op: rms_norm
    source: grid.cu
    kernel: grid_norm
    arguments: [x, weight, workspace, y, {size_t: tokens}, hidden, eps, {bool: 1}]
    workspace: 4 * tokens
    parameters: {per: [1, 2, 4000]}
    constant: {scale: {float: [0.5, 2]}}
    launch: {grid: sms * per, block: 128, cooperative: yes}
ops:
  - {op: rms_norm, dtypes: fp32, problems: [{tokens: 300, hidden: 96}], variants: grid}
)yaml");
}

/// An op with tensors of 8 and 64 bits, a reference in CUDA, and a dim beyond 32 bits.
inline std::filesystem::path write_wide_op(const std::filesystem::path& folder) {
  write(folder / "wide.cu", R"(
extern "C" __global__ void wide(const signed char* x, const long long* index, double* y, long long* z, signed char* s,
                                long long big, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = y[i] + x[i] / 3.0;
  z[i] = i == 0 ? -1 : big + index[i];
  s[i] = x[i];
}
)");
  write(folder / "reference.cu", R"(
extern "C" __global__ void reference(const signed char* x, const long long* index, double* y, long long* z,
                                     signed char* s, long long big, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = y[i] + x[i] / 3.0;
  z[i] = i == 0 ? -1 : big + index[i];
  s[i] = x[i];
}
)");
  return write(folder / "wide.yaml", R"yaml(finalists: 1
ops_defined:
  - name: wide
    dims: {n: elements, big: a large number}
    dtypes: fp32
    tensors:
      - {name: x, shape: n, dtype: int8}
      - {name: index, shape: n, dtype: int64, below: 1000}
      - {name: y, shape: n, dtype: fp64, role: inout}
      - {name: z, shape: n, dtype: int64, role: output}
      - {name: s, shape: n, dtype: int8, role: output}
    scalars: {large: {long long: big}}
    tolerance: {rel_l2: 1e-14, max_rel: 1e-14}
    reference:
      cuda: reference.cu
      kernel: reference
      arguments: [x, index, y, z, s, large, n]
      launch: {grid: "ceil_div(n, 64)", block: 64}
kernels:
  - name: one
    op: wide
    source: wide.cu
    kernel: wide
    arguments: [x, index, y, z, s, {long long: big}, {unsigned: n}]
    launch: {grid: "ceil_div(n, 128)", block: 128}
ops:
  - {op: wide, dtypes: fp32, problems: [{n: 1000, big: 5000000000}], variants: one}
)yaml");
}

}  // namespace warptune::testing
