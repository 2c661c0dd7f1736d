#pragma once
// The run-time compiler of the CUDA Toolkit. Only a build with the toolkit has it.
#include <string>
#include <vector>

#include "harness/device/compile.h"

namespace warptune {

/// "13.0"
std::string nvrtc_version();

/// Compiles the kernel that a name expression names. The first file is the program, the others are headers
/// that it may include by their names. Throws CompileError with what the compiler says.
Cubin run_nvrtc(const CustomKernel::Files& files, const std::string& expression,
                const std::vector<std::string>& options);

}  // namespace warptune
