#pragma once
// One implementation of an op. A variant declares its space, constraints and launches; the harness compiles,
// runs, times and verifies it.
#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/core/expression.h"
#include "harness/core/facts.h"
#include "harness/core/lookup.h"
#include "harness/core/op.h"

namespace warptune {

class RankGroup;
struct Peers;

/// A tunable with the values a sweep tries by default. Labels name the values of a choice (value = index).
struct Parameter {
  std::string name;
  std::vector<std::int64_t> values;
  std::string doc = {};
  std::vector<std::string> labels = {};
  /// A step-only parameter: it matters in a decode step, and little in the op alone. A space has its first
  /// value, unless a sweep overrides it; the search of a step tries all values (tune/step_candidates.h).
  bool in_step_only = false;
};

/// The value of a parameter in a configuration. One that omits a step-only parameter, such as a winner
/// that is older than the parameter, has its first value.
inline std::int64_t value_of(const Parameter& parameter, const Config& config) {
  return parameter.in_step_only ? config.get(parameter.name, parameter.values.front())
                                : config[parameter.name];
}

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

/// A value that expressions of a variant use by name. It may use the derived values before it.
struct DerivedValue {
  std::string name;
  Expression value;
  std::string doc = {};
};

/// Geometry of one kernel launch. `pdl`: programmatic dependent launch; such a kernel must call pdl_wait().
struct Launch {
  Dim3 grid = {}, block = {};
  std::int64_t shared_bytes = 0;  // dynamic
  bool pdl = false;
  unsigned cluster = 1;         // blocks per cluster along x
  bool per_sm = false;          // grid.x counts blocks per SM
  std::int64_t max_blocks = 0;  // with per_sm: at most so many blocks, one per work tile; 0: no limit
  bool cooperative = false;     // all blocks are resident at once, so that the grid can synchronize
};

/// Extents of a grid or a block as expressions.
struct Extents {
  Expression x = 1, y = 1, z = 1;
};

/// The members of a Launch as expressions over known_values(), parameters and derived values.
struct LaunchExpressions {
  Extents grid = {}, block = {};
  Expression shared_bytes = 0, pdl = 0, cluster = 1, per_sm = 0, max_blocks = 0, cooperative = 0;
};

/// How a TMA load permutes the 16-byte vectors of a box, in bytes (CUtensorMapSwizzle): a box is at most so
/// wide. Warpgroup mma reads K-major matrices so (kernels/common/wgmma.cuh).
enum class Swizzle { none = 0, bytes_64 = 64, bytes_128 = 128 };

/// A tensor in global memory, and the box (TMA tile) that a kernel copies to shared memory (sm_90: see
/// kernels/common/tma.cuh). Innermost dim first.
struct TensorMapSpec {
  const void* base = nullptr;  // 16-byte aligned
  DType dtype = DType::bf16;
  std::vector<std::int64_t> dims;     // elements
  std::vector<std::int64_t> strides;  // bytes, of all dims but the first; multiples of 16
  std::vector<std::int64_t> box;      // elements, at most 256 each
  Swizzle swizzle = Swizzle::none;
};
/// A TMA load fetches aligned segments of this size into the L2 (CUtensorMapL2promotion). With segments of
/// 256 bytes, weights stream 4 % slower (docs/lessons/linear.md).
inline constexpr int kL2PromotionBytes = 128;

/// A TensorMapSpec of the problem's dtype as expressions. They may use the integers of the op's args.h
/// struct, which hide dims of the same name.
struct TensorMapExpressions {
  std::string base;  // the member of the struct that has the address
  std::vector<Expression> dims, strides, box;
  Swizzle swizzle = Swizzle::none;
};

using HostFunction = std::function<void(const void* args)>;
using VendorFunction = std::function<void(const void* args, void* stream)>;
/// What a rank of a group runs on the host.
using HostRankFunction = std::function<void(const void* args, const Peers& peers)>;

/// An argument of a kernel from a file: a member of the op's args struct, a value, the address of memory that
/// the plan owns, or a structure of such, passed by value.
struct KernelArgument {
  enum class Kind { member, value, workspace, structure } kind = Kind::member;
  std::size_t bytes = 0, offset = 0;         // of a member
  std::array<std::byte, 8> value = {};       // the first `bytes` count
  std::vector<KernelArgument> members = {};  // of a structure
  std::size_t place = 0;                     // of a member of a structure: its first byte there
};

/// Constant memory of a kernel from a file, and what fills it: bytes, once, or a tensor, before each launch.
struct ConstantMemory {
  std::string symbol;  // as in machine code
  std::vector<std::byte> value = {};
  std::size_t tensor_offset = 0, tensor_bytes = 0;  // the member with the tensor's address; 0 bytes: a value
};

/// A kernel from a file instead of kernels/: where its code is, and how it is compiled and called.
/// harness/custom makes it from YAML.
struct CustomKernel {
  using Files = std::vector<std::pair<std::string, std::string>>;  // name and content

  std::string where;           // "FILE:LINE" of its definition, for errors
  std::string definition;      // its YAML: part of the hash of its sources
  std::filesystem::path file;  // the source, or machine code
  /// The source and the files of the user that it includes, as they were when the definition was read; or
  /// machine code, one cubin or fatbin for each name: an architecture, or "" for any.
  Files files;
  Files headers;                     // the ones of kernels/ that it includes
  bool is_binary = false;            // `files` are machine code
  std::vector<std::string> options;  // of the compiler
  /// The options that depend on the configuration: "-DBLOCK=256", "--maxrregcount=64".
  std::function<std::vector<std::string>(const Problem&, const Config&)> defines = {};
  /// The kernel's name expression, or its symbol in machine code.
  std::function<std::string(const Problem&, const Config&)> name = {};
  std::function<std::vector<KernelArgument>(const Problem&, const Config&)> arguments = {};
  std::function<std::vector<ConstantMemory>(const Problem&, const Config&)> constants = {};  // empty: none
};

/// One kernel of a variant. It takes the op's args.h struct by value and then its tensor maps, if it has any.
/// `kernel` is a name expression whose {placeholders} are dims, parameters, derived values and {dtype}.
struct Stage {
  std::string file;    // below kernels/
  std::string kernel;  // "rms_norm_vectorized<{dtype}, {hidden}, {block}, {vec}>"
  LaunchExpressions geometry = {};
  Expression condition = 1;                     // 0: the stage is not launched
  std::vector<TensorMapExpressions> maps = {};  // each is one `const __grid_constant__ TensorMap`
  /// A library call between kernels; the stage then has no kernel.
  std::function<VendorFunction(const Problem&, const Config&)> library = {};
  /// A kernel from a file: `file` and `kernel` are then for messages only.
  std::shared_ptr<const CustomKernel> custom = {};
};

/// The resources that a configuration needs, known before compilation: the largest over its stages. Shared
/// memory per block, static and dynamic, in bytes; registers per thread, an estimate, and threads that are
/// resident on an SM at once, or 0.
struct ResourceExpressions {
  Expression shared_bytes = 0, registers = 0, threads_per_sm = 0;
};

struct Variant {
  std::string name, idea;
  Backend backend = Backend::cuda;
  std::vector<Parameter> parameters = {};
  std::vector<DerivedValue> derived = {};
  /// Expressions over dims, parameters, derived values, `dtype_bytes` and the device's facts (known_values(),
  /// core/space.h).
  std::vector<Expression> constraints = {};
  /// A configuration that exceeds the resources of the device is excluded, as by a constraint.
  ResourceExpressions limits = {};
  std::vector<DType> dtypes = {};  // empty: all of the op's

  std::vector<Stage> stages = {};                                            // cuda: launched in order
  std::function<HostFunction(const Problem&, const Config&)> host = {};      // host: called on each run
  std::function<VendorFunction(const Problem&, const Config&)> vendor = {};  // a library: called on each run
  // The same for an op that ranks run together.
  std::function<HostRankFunction(const Problem&, const Config&)> host_ranks = {};
  std::function<VendorFunction(const Problem&, const Config&, RankGroup&)> vendor_ranks = {};

  /// Scratch memory in bytes. It is zeroed once, at allocation; each launch must leave its counters at zero.
  Expression workspace = 0;
  /// The same for memory that the plan owns, for a kernel from a file whose op passes no workspace.
  Expression own_workspace = 0;
  /// Memory in bytes that each rank gives and all ranks map, zeroed once. Where it is not 0, kernels take a
  /// `const __grid_constant__ Peers` after their tensor maps (kernels/common/peers.h).
  Expression peer_workspace = 0;
  /// "cudnn 91002": name and version of the vendor library that it calls, which this loads. Filled in by
  /// variants/table.cpp.
  std::function<std::string()> library_version = {};
  /// The members of the op's args struct, which tensor maps name, filled in by declare().
  std::vector<ArgsField> fields = {};
  /// A kernel from a file also has `host`. One sentence where that file does not compile for the host; empty
  /// where it does. Without this function the variant runs on its backend only.
  std::function<std::string(const Problem&, const Config&)> why_not_on_host = {};

  bool takes(DType dtype) const { return dtypes.empty() || contains(dtypes, dtype); }
  /// Whether it is for this backend and the problem's dtype.
  bool runs(const Problem& problem, Backend on) const { return backend == on && takes(problem.dtype); }
};

/// Whether a variant calls a library, alone or between its kernels.
inline bool calls_library(const Variant& variant) {
  return variant.vendor || variant.vendor_ranks ||
         std::ranges::any_of(variant.stages, [](const Stage& stage) { return bool(stage.library); });
}

/// Whether a variant of this name is the naive baseline of its op.
constexpr bool is_naive(std::string_view variant) {
  return variant == "naive" || variant == "host_naive" || variant == "unfused";
}

/// A variant to choose where nothing was measured.
struct Preference {
  std::string variant;
  Expression when = 1;  // over known_values() (core/space.h)
};

/// A variant that the program can be built without.
struct OptionalVariant {
  std::string name, why_missing;  // "this program was built without cuDNN (cmake -DCUDNN_ROOT=FOLDER)"
};

/// An op with everything that implements it.
struct OpEntry {
  Op op;
  std::vector<Variant> variants;
  std::vector<Preference> preferences = {};  // best first, for devices without wisdom
  std::vector<OptionalVariant> optional_variants = {};
  // Hashes of the C++ sources of its host and library variants (cmake/write_source_hashes.cmake).
  std::string host_source_hash = {}, library_source_hash = {};
  /// Throws InputError that lists the op's variants.
  const Variant& variant(std::string_view name) const;
  /// The same, or nullptr.
  const Variant* find_variant(std::string_view name) const;
};

/// Ceiling division.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
/// An extent of a grid or a block. One that does not fit becomes the largest, which no device launches.
constexpr unsigned as_unsigned(std::int64_t n) {
  return static_cast<unsigned>(std::clamp<std::int64_t>(n, 0, std::numeric_limits<unsigned>::max()));
}

}  // namespace warptune
