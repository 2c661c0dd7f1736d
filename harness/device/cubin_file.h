#pragma once
// Reads machine code: the ELF file that a cubin is, its kernels, and the cubins in a fatbin.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/variant.h"

namespace warptune {

/// A section of a cubin. Its name ends with the name of its kernel.
struct CubinSection {
  std::string_view name;
  std::string_view bytes;  // empty where the file stores none
  std::uint64_t size = 0;
  std::uint32_t info = 0;  // in .text the upper 8 bits are the number of registers
};

/// Throws CompileError where the text is not a complete 64-bit ELF file.
std::vector<CubinSection> sections_of_cubin(std::string_view cubin);

/// A kernel in a cubin, with what it needs.
struct KernelCode {
  std::string name;  // mangled
  int registers = 0;
  std::int64_t static_shared_bytes = 0;
  std::vector<std::size_t> parameter_bytes;
  // What it was compiled for; 0: any.
  unsigned max_threads = 0;           // per block: __launch_bounds__
  Dim3 block = {0, 0, 0};             // __block_size__
  Dim3 cluster = {0, 0, 0};           // __cluster_dims__
  unsigned max_cluster = 0;           // blocks: __launch_bounds__
  bool grid_counts_clusters = false;  // the grid of a launch counts clusters, not blocks
};
std::vector<KernelCode> kernels_of_cubin(std::string_view cubin);

/// A `__constant__` variable of a cubin.
struct ConstantSymbol {
  std::string name;  // mangled
  std::size_t bytes = 0;
};
std::vector<ConstantSymbol> constants_of_cubin(std::string_view cubin);

/// The number of the architecture that a cubin is for: 90.
int arch_of_cubin(std::string_view cubin);

/// The cubin for an architecture number: the file itself, or the best of a fatbin. A cubin runs on its own
/// architecture and on later ones of the same major number. Throws CompileError where there is none.
std::string_view cubin_for(std::string_view file, int arch);

/// A hash (16 hex digits) of the machine code in a cubin: instructions, constants, registers and the size of
/// static shared memory. It ignores the names of functions and files, debug information, the order of
/// sections and tables in global memory. Throws CompileError where the text is not a complete 64-bit ELF
/// file.
std::string machine_code_hash(std::string_view cubin);

}  // namespace warptune
