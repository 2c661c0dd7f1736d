#pragma once
// Makes the machine code of a kernel from a file: compiles its source, or takes it from a cubin or fatbin.
#include <string>
#include <vector>

#include "harness/device/compile.h"
#include "harness/device/cubin_cache.h"

namespace warptune {

/// The files of the user, then those of kernels/.
CustomKernel::Files all_files(const CustomKernel& kernel);

/// Compiles the source, unless the cache has its code. Throws CompileError: the words of the compiler, or a
/// sentence where the source has no such kernel or has changed since it was read.
Cubin build_kernel(const CustomKernel& kernel, const std::string& name,
                   const std::vector<std::string>& options, const CubinCache& cache, const KernelSources& own,
                   const NvrtcCall& nvrtc);

/// Takes the kernel from machine code. Throws CompileError where it has none for this architecture, or no
/// such kernel.
Cubin pick_kernel(const CustomKernel& kernel, const std::string& name, const std::string& arch);

/// Throws CompileError where a kernel takes other parameters than its definition passes.
void check_arguments(const CustomKernel& kernel, const Cubin& cubin,
                     const std::vector<KernelArgument>& arguments);
/// Throws CompileError that begins with `where` for constant memory that cannot be filled: a symbol that the
/// code does not have, a value of another size, or a tensor that is larger.
void check_constants(const std::string& where, std::string_view cubin,
                     std::span<const ConstantMemory> filled);

}  // namespace warptune
