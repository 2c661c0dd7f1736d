#pragma once
// Files with kernels for tests: a source with two kernels, and definitions of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "harness/core/error.h"
#include "harness/custom/kernel_files.h"
#include "harness/device/compile.h"
#include "variants/table.h"

namespace warptune::testing {
namespace fs = std::filesystem;

inline fs::path write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
  return path;
}

/// Whether references in Python run here.
inline bool has_numpy() { return std::system("python3 -c 'import numpy' 2> /dev/null") == 0; }

/// A folder with scale.cu, which holds an extern "C" kernel and a template.
inline fs::path kernel_folder(const std::string& name) {
  const fs::path folder = fs::path(::testing::TempDir()) / name;
  fs::remove_all(folder);
  write(folder / "scale.cu", R"(#include "factor.cuh"
extern "C" __global__ void __launch_bounds__(BLOCK) plain(const void* x, void* y, int hidden, float eps) {
  if (threadIdx.x == 0) static_cast<float*>(y)[0] = static_cast<const float*>(x)[0] * factor(eps) + hidden;
}
template <class T, int kBlock>
__global__ void typed(const T* x, T* y) {
  __shared__ float sum[kBlock];
  sum[threadIdx.x] = static_cast<float>(x[threadIdx.x]);
  __syncthreads();
  y[threadIdx.x] = T(sum[kBlock - 1 - threadIdx.x]);
}
)");
  write(folder / "factor.cuh", "__device__ inline float factor(float eps) { return 2 * eps; }\n");
  return folder;
}

/// The definition of `plain` with other lines in place of the usual ones.
struct Definition {
  std::string name = "scale", op = "rms_norm", source = "source: scale.cu", kernel = "kernel: plain",
              arguments = "arguments: [x, y, hidden, eps]", define = "define: {BLOCK: block}",
              parameters = "parameters: {block: [64, 128]}", launch = "launch: {grid: tokens, block: block}",
              more = "{}";

  std::string text() const {
    std::string text = "kernels:\n  - name: " + name + "\n    op: " + op + "\n";
    for (const std::string& line : {source, kernel, arguments, define, parameters, launch})
      if (!line.empty()) text += "    " + line + "\n";
    if (more != "{}") text += "    " + more + "\n";
    return text;
  }
};

inline std::shared_ptr<const OpTable> table_of(const fs::path& file) {
  const fs::path files[] = {file};
  return with_kernels(ops(), files);
}

/// The message of the exception of type E that `body` throws, without the folder; or "none".
template <class E, class Body>
std::string message_of(const fs::path& folder, const Body& body) {
  try {
    body();
  } catch (const E& e) {
    std::string text = e.what();
    const std::string prefix = folder.string() + "/";
    for (auto at = text.find(prefix); at != std::string::npos; at = text.find(prefix))
      text.erase(at, prefix.size());
    return text;
  }
  return "none";
}

/// The error of a definition.
inline std::string error_of(const fs::path& folder, const Definition& definition) {
  return message_of<InputError>(folder, [&] { table_of(write(folder / "kernels.yaml", definition.text())); });
}

}  // namespace warptune::testing
