#pragma once
// The reference of an op of the user: a C++ function, or a Python function on NumPy arrays, in fp64. A kernel
// is in cuda_reference.h.
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/core/tensor.h"
#include "harness/custom/formula.h"

namespace warptune {

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

/// Fills the outputs, which have their sizes, from the inputs. Throws InputError where the function does not
/// run.
using Reference = std::function<void(
    const Problem& problem, std::span<const ReferenceTensor> inputs, std::span<ReferenceTensor> outputs,
    std::span<const ReferenceNumber> dims, std::span<const ReferenceNumber> scalars)>;

/// `extern "C" void FUNCTION(const double* const* inputs, double* const* outputs, const long long* dims,
/// const double* scalars)`, compiled by $CXX or c++.
Reference cpp_reference(const std::filesystem::path& file, const std::string& function);

/// A function with parameters named as the inputs, dims and scalars that it needs. It returns the output, or
/// a tuple or dict of them.
Reference python_reference(const std::filesystem::path& file, const std::string& function);

}  // namespace warptune
