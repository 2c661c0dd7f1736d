#pragma once
// The identity of a compiled kernel: two sources that compile to the same machine code are the same kernel.
#include <string>
#include <string_view>

namespace warptune {

/// A hash (16 hex digits) of the machine code in a cubin: instructions, constants, registers and the size of
/// static shared memory. It ignores the names of functions and files, debug information, the order of
/// sections and tables in global memory. Throws CompileError where the text is not a complete 64-bit ELF
/// file.
std::string machine_code_hash(std::string_view cubin);

}  // namespace warptune
