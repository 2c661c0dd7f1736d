#pragma once
// The run-time compiler of the CUDA Toolkit. Only a build with the toolkit has it.
#include <optional>
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

/// The files that the compiler opens for such a program, each once, the program first: paths, and names of
/// given headers. An include that cannot be found is left out. nullopt where this NVRTC does not tell. Throws
/// CompileError where an include is a pipe or a device.
std::optional<std::vector<std::string>> included_files(const CustomKernel::Files& files,
                                                       const std::vector<std::string>& options);

/// The program after its preprocessing.
std::string preprocessed_text(const CustomKernel::Files& files, const std::vector<std::string>& options);

}  // namespace warptune
