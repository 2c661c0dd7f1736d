#pragma once
// Plain kernels from .cu files on the host: compiled by $CXX or c++, their threads run one after the other.
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "harness/core/variant.h"
#include "harness/custom/shared_library.h"

namespace warptune {

/// One kernel, compiled. Throws CompileError where the compiler fails or the kernel takes other parameters.
class HostKernel {
 public:
  HostKernel(const CustomKernel& kernel, const Problem& problem, const Config& config);
  /// Runs all threads of a launch. `args` is the op's struct.
  void run(const void* args, void* workspace, const Launch& launch) const;
  /// Why the file does not compile for the host, in one sentence; empty where it does.
  static std::string why_not(const CustomKernel& kernel, const Problem& problem, const Config& config);

 private:
  void check_parameters(const CustomKernel& kernel, const std::string& name) const;

  std::vector<KernelArgument> arguments_;
  std::vector<ConstantMemory> constants_;
  std::unique_ptr<SharedLibrary> library_;
};

/// The kernels that were compiled. Throws as HostKernel does.
class HostKernels {
 public:
  const HostKernel& get(const CustomKernel& kernel, const Problem& problem, const Config& config);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, HostKernel> known_;  // by problem and name, and configuration
};

/// Gives a variant whose stages are kernels from files the functions that run it on the host.
void add_host_functions(Variant& variant);

}  // namespace warptune
