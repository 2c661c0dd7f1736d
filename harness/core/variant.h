#pragma once
// One implementation of an op. A variant declares its space, constraints and launches; the harness compiles,
// runs, times and proves it.
#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/facts.h"
#include "harness/core/op.h"

namespace warptune {

/// A tunable with the values a sweep tries by default. Labels name the values of a choice (value = index).
struct Parameter {
  std::string name;
  std::vector<std::int64_t> values;
  std::string doc = {};
  std::vector<std::string> labels = {};
};

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

/// Work in chunks, which are not cut, dealt to warps in turns: what falls to the warp that gets most.
struct Dealt {
  double longest = 1;  // work, over an even share
  double trips = 1;    // chunks, one after the other
};

/// Pieces of work that blocks take one after the other, whoever is free the next.
struct Drawn {
  struct Run {
    double length;  // of each piece
    std::int64_t pieces;
  };
  std::vector<Run> runs;  // in the order in which they are taken
  double asked = 0;       // what the lengths would be together if nothing were padded
};

/// Geometry of one kernel launch. `pdl`: programmatic dependent launch; such a kernel must call pdl_wait().
struct Launch {
  Dim3 grid = {}, block = {};
  std::int64_t shared_bytes = 0;  // dynamic
  bool pdl = false;
  unsigned cluster = 1;  // blocks per cluster along x
  bool per_sm = false;   // grid.x counts blocks per SM; no more of them than `pieces`
  // What a prediction of times asks for (results/launch_load.h):
  double pieces = 0;                  // of work that persistent blocks share; 0: every block is one
  std::function<Drawn()> drawn = {};  // by its blocks; without it, pieces are alike
  Dealt dealt = {};                   // to the warps that share a row of work, of one block or several
  int registers = 0;                  // of a thread, roughly; 0: not known
};

/// A tensor in global memory, and the boxes of it that a kernel copies to shared memory (sm_90: see
/// kernels/common/tma.cuh). Innermost dim first. Boxes of 128 bytes width come with the 128-byte
/// swizzle.
struct TensorMapSpec {
  const void* base = nullptr;  // 16-byte aligned
  DType dtype = DType::bf16;
  std::vector<std::int64_t> dims;     // elements
  std::vector<std::int64_t> strides;  // bytes, of all dims but the first; multiples of 16
  std::vector<std::int64_t> box;      // elements, at most 256 each
};

using HostFunction = std::function<void(const void* args)>;
using VendorFunction = std::function<void(const void* args, void* stream)>;

/// One kernel of a variant. It takes the op's args.h struct by value and then its tensor maps, if it has any.
/// `kernel` is a name expression whose {placeholders} are dims, parameters, constants and {dtype}.
struct Stage {
  std::string file;    // below kernels/
  std::string kernel;  // "rms_norm_vectorized<{dtype}, {hidden}, {block}, {vec}>"
  std::function<Launch(const Problem&, const Config&)> launch;
  std::function<bool(const Problem&, const Config&)> when = {};  // empty: always
  /// Called at each launch with the op's args; each result is one `const __grid_constant__ TensorMap`.
  std::function<std::vector<TensorMapSpec>(const Problem&, const Config&, const void* args)> tensor_maps = {};
  /// A library's call between kernels: then there is no kernel in this stage.
  std::function<VendorFunction(const Problem&, const Config&)> library = {};
};

/// A stage that calls a library.
inline Stage library_stage(std::function<VendorFunction(const Problem&, const Config&)> library) {
  return {.file = {}, .kernel = {}, .launch = {}, .library = std::move(library)};
}

/// What the launches of a configuration need, known before they are compiled: the largest over its stages.
struct LaunchResources {
  std::int64_t shared_bytes = 0;  // per block, static and dynamic
  int registers = 0;              // per thread, an estimate; 0: not known
};

struct Variant {
  std::string name, idea;
  Backend backend = Backend::cuda;
  std::vector<Parameter> parameters = {};
  /// Expressions over dims, parameters, `dtype_bytes` and the device's facts (known_values(), core/space.h).
  std::vector<std::string> constraints = {};
  /// A configuration whose shared memory exceeds the device's limit per block is excluded, as by a
  /// constraint.
  std::function<LaunchResources(const Problem&, const Config&)> resources = {};
  std::vector<DType> dtypes = {};  // empty: all of the op's

  std::vector<Stage> stages = {};                                            // cuda: launched in order
  std::function<HostFunction(const Problem&, const Config&)> host = {};      // host: called on each run
  std::function<VendorFunction(const Problem&, const Config&)> vendor = {};  // a library: called on each run

  /// Extra placeholders for the kernels' names, computed from problem and configuration.
  std::function<Assignment(const Problem&, const Config&)> constants = {};
  /// Scratch memory in bytes; zeroed once when allocated, and the variant must leave counters in it at zero.
  std::function<std::int64_t(const Problem&, const Config&)> workspace_bytes = {};
};

/// Whether a variant calls a library, alone or between its kernels.
inline bool calls_library(const Variant& variant) {
  return variant.vendor ||
         std::ranges::any_of(variant.stages, [](const Stage& stage) { return bool(stage.library); });
}

/// Whether a variant of this name is the plainest way to do its op, which others are held against.
constexpr bool is_naive(std::string_view variant) {
  return variant == "naive" || variant == "host_naive" || variant == "unfused";
}

/// An op with everything that implements it.
struct OpEntry {
  Op op;
  std::vector<Variant> variants;
  /// Throws InputError that lists the op's variants.
  const Variant& variant(std::string_view name) const;
};

/// Ceiling division, the most used function of launch geometry.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr unsigned blocks_for(std::int64_t work, std::int64_t per_block) {
  return static_cast<unsigned>(ceil_div(work, per_block));
}

}  // namespace warptune
