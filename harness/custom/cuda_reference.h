#pragma once
// A reference that is a plain kernel in a .cu file, on arrays of fp64 or fp32.
#include "harness/core/kernel_reference.h"
#include "harness/core/yaml_reader.h"
#include "harness/custom/op_definition.h"
#include "harness/custom/reference.h"

namespace warptune {

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
