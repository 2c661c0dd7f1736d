#pragma once
// The reference of an op of the user: a C++ function, or a Python function on NumPy arrays, in fp64; or a
// plain kernel in a .cu file, on arrays of fp64 or fp32.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/core/kernel_reference.h"
#include "harness/core/problem.h"
#include "harness/core/tensor.h"
#include "harness/core/yaml_reader.h"
#include "harness/custom/op_definition.h"

namespace warptune {

inline constexpr std::uintmax_t kMaxReferenceBytes = 16 << 20;  // of its file

/// A tensor that a reference reads or writes.
struct ReferenceTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

/// The numbers of a problem besides its tensors.
struct ReferenceNumber {
  std::string name;
  double value = 0;
  bool whole = false;  // a dim, or an integer
};

/// A problem as a reference gets it.
struct ReferenceJob {
  const Problem& problem;
  std::vector<ReferenceTensor> inputs, outputs;  // outputs have their sizes
  std::vector<ReferenceNumber> dims, scalars;
};

/// What computes the outputs. Both functions throw InputError.
struct Reference {
  /// Compiles and loads code that `run` calls in this process. Empty: `run` starts a process.
  std::function<void(const ReferenceJob&)> load;
  std::function<void(ReferenceJob&)> run;  // fills the outputs
  std::string name;                        // for messages: "the reference 'f' of 'FILE'"
  double seconds = 180;                    // that a run may take
};

/// Runs a reference in a process of its own: an endless loop, endless output or a crash becomes a sentence.
void run_apart(const Reference& reference, ReferenceJob& job);

/// `extern "C" void FUNCTION(const double* const* inputs, double* const* outputs, const long long* dims,
/// const double* scalars)`, compiled by $CXX or c++.
Reference cpp_reference(const std::filesystem::path& file, const std::string& function, double seconds);

/// A function with parameters named as the inputs, dims and scalars that it needs. It returns the output, or
/// a tuple or dict of all of them.
Reference python_reference(const std::filesystem::path& file, const std::string& function, double seconds);

struct CudaReference {
  KernelReference on_gpu;  // compiled by NVRTC; its `on_host` is not set
  Reference on_host;       // the same file, compiled by $CXX or c++
};

/// {cuda: FILE, kernel: NAME, arguments: [...], launch: {grid: ..., block: ...}, dtype: fp64}. Throws
/// InputError with file and line.
CudaReference read_cuda_reference(const YamlReader& yaml, const YAML::Node& node,
                                  const std::filesystem::path& folder, const OpDefinition& definition,
                                  double seconds);

}  // namespace warptune
