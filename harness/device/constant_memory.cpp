#include "harness/device/constant_memory.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/device/cubin_file.h"

namespace warptune {

std::vector<ConstantSymbol> constants_of_cubin(std::string_view cubin) {
  const std::vector<CubinSection> sections = sections_of_cubin(cubin);
  const auto bytes_of = [&](std::string_view name) {
    const auto it = std::ranges::find(sections, name, &CubinSection::name);
    return it == sections.end() ? std::string_view() : it->bytes;
  };
  const std::string_view table = bytes_of(".symtab"), names = bytes_of(".strtab");
  std::vector<ConstantSymbol> constants;
  for (std::size_t at = 0; at + sizeof(Elf64_Sym) <= table.size(); at += sizeof(Elf64_Sym)) {
    Elf64_Sym symbol;
    std::memcpy(&symbol, table.data() + at, sizeof symbol);
    if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx >= sections.size() ||
        symbol.st_name >= names.size() || !sections[symbol.st_shndx].name.starts_with(".nv.constant3"))
      continue;
    const std::string_view rest = names.substr(symbol.st_name);
    constants.push_back({std::string(rest.substr(0, rest.find('\0'))), symbol.st_size});
  }
  return constants;
}

void check_constants(const std::string& where, std::string_view cubin,
                     std::span<const ConstantMemory> filled) {
  if (filled.empty()) return;
  const std::vector<ConstantSymbol> known = constants_of_cubin(cubin);
  for (const ConstantMemory& memory : filled) {
    const auto it = std::ranges::find(known, memory.symbol, &ConstantSymbol::name);
    if (it == known.end())
      throw CompileError(fmt::format("{}: the code has no constant memory '{}'{}", where,
                                     brief(memory.symbol),
                                     did_you_mean(memory.symbol, names_of(known), "it has")));
    const std::size_t bytes = memory.tensor_bytes > 0 ? memory.tensor_bytes : memory.value.size();
    if (bytes > it->bytes || (memory.tensor_bytes == 0 && bytes != it->bytes))
      throw CompileError(fmt::format("{}: the constant memory '{}' has {} bytes; 'constant' fills {}", where,
                                     brief(memory.symbol), it->bytes, bytes));
  }
}

}  // namespace warptune
