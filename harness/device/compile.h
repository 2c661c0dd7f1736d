#pragma once
// Run-time compilation of kernels (NVRTC) with a cubin cache on disk. Needs no GPU.
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/core/facts.h"
#include "harness/core/variant_values.h"
#include "harness/device/device.h"

namespace warptune {

/// A compiled kernel: machine code, the mangled name of its entry, and the resource usage that ptxas reports.
struct Cubin {
  std::string code;
  std::string entry;
  int registers = 0;
  std::int64_t static_shared_bytes = 0;
  std::int64_t spill_bytes = 0;
  double compile_ms = 0;
  bool from_cache = false;
};

/// The kernel sources: embedded in the program, or in a folder during development.
class KernelSources {
 public:
  explicit KernelSources(std::filesystem::path override_folder = {});
  /// The text of a file. Its name is relative to kernels/ or, in an include, to the root. Throws CompileError
  /// where there is no such file.
  std::string read(const std::string& name) const;
  /// A file and, transitively, all files it includes with quotes: (name, text), the file itself first.
  CustomKernel::Files closure(const std::string& file) const;
  /// What kernels from a file may include: the headers below kernels/, by names that begin so, and the
  /// standard headers.
  CustomKernel::Files headers() const;
  /// The text of one of them. Throws CompileError.
  std::string header(const std::string& name) const;

 private:
  std::filesystem::path folder_;
};

/// Compiles the kernel that a name expression names, with options. The first file is the program, the others
/// are headers. Thread-safe. Throws CompileError.
using NvrtcCall = std::function<Cubin(const CustomKernel::Files& files, const std::string& expression,
                                      const std::vector<std::string>& options)>;

class Compiler {
 public:
  /// `cache` empty: no cache on disk. The folder need not exist, and without one nothing is kept: what
  /// compiles much calls make_cache() first. `nvrtc` empty: the compiler runs in this process.
  Compiler(KernelSources sources, std::filesystem::path cache, NvrtcCall nvrtc = {});
  /// Makes the folder of the cache. Throws InputError.
  void make_cache() const;
  /// Compiles the name expression for an architecture: "sm_80", "sm_90a", "sm_90a-as-sm_80" (facts_as()).
  /// Thread-safe. Throws CompileError.
  Cubin compile(const std::string& file, const std::string& expression, const std::string& arch) const;
  /// The same for the kernel of a stage, of kernels/ or from a file.
  Cubin compile(const Variant& variant, const Stage& stage, const Problem& problem, const Config& config,
                const std::string& arch) const;
  const KernelSources& sources() const { return sources_; }
  /// "13.0": the version of NVRTC; empty in a program without CUDA.
  static std::string toolkit();
  /// A hash of the source closure of all of a variant's kernels (hex), for provenance.
  std::string source_hash(const Variant& variant) const;

 private:
  Cubin compile(const CustomKernel& kernel, const Problem& problem, const Config& config,
                const std::string& arch) const;
  KernelSources sources_;
  std::filesystem::path cache_;
  NvrtcCall nvrtc_;
};

/// The folder of the cubin cache: $WARPTUNE_CACHE, else $XDG_CACHE_HOME/warptune, else ~/.cache/warptune.
std::filesystem::path default_cache_folder();

/// The name expression of a stage with dims, parameters, derived values and dtype filled in.
std::string expand_kernel_name(const Variant& variant, const Stage& stage, const Problem& problem,
                               const Config& config);
/// The name, with what else tells kernels of one source apart: equal ones are one kernel.
std::string kernel_key(const Variant& variant, const Stage& stage, const Problem& problem,
                       const Config& config);
/// Whether a variant runs nothing but kernels that this program compiles. Its machine code is then its
/// identity.
bool has_machine_code(const Variant& variant);
/// Resources::code_hash of a configuration for an architecture, which no present device needs to have; empty
/// where the variant has no machine code of its own. Throws CompileError.
std::string code_hash(const Compiler& compiler, const Variant& variant, const Problem& problem,
                      const Config& config, const std::string& arch);
/// Compiles all stages, adds up their resources for that device and hashes their code. Throws CompileError,
/// and ResourceError where the device cannot launch one of them.
Resources inspect(const Compiler& compiler, const Variant& variant, const Problem& problem,
                  const Config& config, const DeviceFacts& facts);

}  // namespace warptune
