#pragma once
// The constant memory of machine code: its symbols, and whether a definition fills them.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/variant.h"

namespace warptune {

/// A `__constant__` variable of a cubin.
struct ConstantSymbol {
  std::string name;  // mangled
  std::size_t bytes = 0;
};
/// Throws CompileError where the text is not a complete 64-bit ELF file.
std::vector<ConstantSymbol> constants_of_cubin(std::string_view cubin);

/// Throws CompileError that begins with `where`: a symbol that the code does not have, a value of another
/// size, or a tensor that is larger.
void check_constants(const std::string& where, std::string_view cubin,
                     std::span<const ConstantMemory> filled);

}  // namespace warptune
