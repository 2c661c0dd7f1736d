#include "harness/device/standard_headers.h"

#include <fmt/format.h>

namespace warptune {
namespace {

constexpr const char* kOfLibcuxx[] = {
    "array",    "cfloat", "climits", "cstddef", "cstdint", "cstring",     "functional", "initializer_list",
    "iterator", "limits", "numeric", "ratio",   "tuple",   "type_traits", "utility"};

/// NVRTC declares their functions without a header.
constexpr const char* kBuiltIn[] = {"cassert", "assert.h", "cstdio", "stdio.h", "math.h"};

/// The names of a header of libcu++ in namespace std.
std::string over_libcuxx(std::string_view name) {
  return fmt::format(
      "#pragma once\n"
      "#if !__has_include(<cuda/std/{0}>)\n"
      "#error \"<{0}> needs <cuda/std/{0}>, which this CUDA Toolkit does not have\"\n"
      "#endif\n"
      "#include <cuda/std/{0}>\n"
      "namespace std {{\nusing namespace ::cuda::std;\n}}\n",
      name);
}

/// std::min and others are in a header that the toolkits name differently.
constexpr const char* kAlgorithm = R"(#pragma once
#if __has_include(<cuda/std/algorithm>)
#include <cuda/std/algorithm>
#elif __has_include(<cuda/std/__algorithm_>)
#include <cuda/std/__algorithm_>
#else
#include <cuda/std/functional>
#endif
namespace std {
using namespace ::cuda::std;
}
)";

/// Functions of NVRTC that libcu++ leaves out.
constexpr const char* kCmath = R"(namespace std {
using ::erf;
using ::erfc;
using ::fdim;
using ::fma;
using ::fmod;
using ::modf;
using ::remainder;
}
)";

/// Which of them a toolkit has depends on its version.
constexpr const char* kOfCub[] = {"config.cuh",
                                  "block/block_adjacent_difference.cuh",
                                  "block/block_discontinuity.cuh",
                                  "block/block_exchange.cuh",
                                  "block/block_histogram.cuh",
                                  "block/block_load.cuh",
                                  "block/block_merge_sort.cuh",
                                  "block/block_radix_rank.cuh",
                                  "block/block_radix_sort.cuh",
                                  "block/block_reduce.cuh",
                                  "block/block_run_length_decode.cuh",
                                  "block/block_scan.cuh",
                                  "block/block_shuffle.cuh",
                                  "block/block_store.cuh",
                                  "grid/grid_even_share.cuh",
                                  "grid/grid_mapping.cuh",
                                  "iterator/cache_modified_input_iterator.cuh",
                                  "iterator/cache_modified_output_iterator.cuh",
                                  "thread/thread_load.cuh",
                                  "thread/thread_operators.cuh",
                                  "thread/thread_reduce.cuh",
                                  "thread/thread_scan.cuh",
                                  "thread/thread_search.cuh",
                                  "thread/thread_store.cuh",
                                  "warp/warp_exchange.cuh",
                                  "warp/warp_load.cuh",
                                  "warp/warp_merge_sort.cuh",
                                  "warp/warp_reduce.cuh",
                                  "warp/warp_scan.cuh",
                                  "warp/warp_store.cuh",
                                  "util_ptx.cuh",
                                  "util_type.cuh"};

std::string cub_for_kernels() {
  std::string text = "#pragma once\n";
  for (const char* header : kOfCub)
    text += fmt::format("#if __has_include(<cub/{0}>)\n#include <cub/{0}>\n#endif\n", header);
  return text;
}

}  // namespace

CustomKernel::Files standard_headers() {
  CustomKernel::Files headers;
  for (const char* name : kOfLibcuxx) headers.emplace_back(name, over_libcuxx(name));
  for (const char* name : kBuiltIn) headers.emplace_back(name, "#pragma once\n");
  headers.emplace_back("algorithm", kAlgorithm);
  headers.emplace_back("cmath", over_libcuxx("cmath") + kCmath);
  headers.emplace_back("stdint.h", "#pragma once\n#include <cuda/std/cstdint>\n");
  headers.emplace_back("stddef.h", "#pragma once\n#include <cuda/std/cstddef>\n");
  headers.emplace_back("cub/cub.cuh", cub_for_kernels());
  return headers;
}

}  // namespace warptune
