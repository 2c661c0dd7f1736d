#include "harness/device/machine_code.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/hash.h"

namespace warptune {
namespace {

/// Reads a record at an offset of a file. Throws CompileError where the file ends before it.
template <class T>
T read_at(std::string_view file, std::size_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(T))
    throw CompileError("the machine code is truncated: the ELF file is incomplete");
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

/// The sections that affect the time of a kernel; a section's name ends with the name of its function. Tables
/// in global memory and their addresses (.nv.global, .nv.constant4) are left out: NVRTC also puts unused
/// constants of headers there.
constexpr std::string_view kSections[] = {".text", ".nv.constant0", ".nv.constant2", ".nv.constant3",
                                          ".nv.shared"};

bool counts(std::string_view name) {
  return std::ranges::any_of(kSections, [&](std::string_view kind) { return name.starts_with(kind); });
}

struct Section {
  std::string_view name;
  Elf64_Shdr header;
};

std::vector<Section> sections_of(std::string_view cubin) {
  const auto header = read_at<Elf64_Ehdr>(cubin, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
    throw CompileError("the machine code is not a 64-bit ELF file");
  const auto at = [&](std::size_t i) {
    return read_at<Elf64_Shdr>(cubin, header.e_shoff + i * header.e_shentsize);
  };
  const Elf64_Shdr names = at(header.e_shstrndx);
  std::vector<Section> sections;
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const std::size_t name = names.sh_offset + at(i).sh_name;
    if (name >= cubin.size()) throw CompileError("the machine code is truncated: a section has no name");
    const std::string_view rest = cubin.substr(name);
    sections.push_back({rest.substr(0, rest.find('\0')), at(i)});
  }
  return sections;
}

}  // namespace

std::string machine_code_hash(std::string_view cubin) {
  std::vector<std::string> parts;
  for (const auto& [name, s] : sections_of(cubin)) {
    if (!counts(name)) continue;
    const bool has_bytes = s.sh_type != SHT_NOBITS;
    if (has_bytes && (s.sh_offset > cubin.size() || cubin.size() - s.sh_offset < s.sh_size))
      throw CompileError("the machine code is truncated: a section has no content");
    // The upper 8 bits of sh_info of a kernel's section are its number of registers.
    const bool is_code = name.starts_with(".text");
    parts.push_back(
        fmt::format("{} {} {} ", name.substr(0, name.rfind('.')), s.sh_size, is_code ? s.sh_info >> 24 : 0));
    if (has_bytes) parts.back() += cubin.substr(s.sh_offset, s.sh_size);
  }
  std::ranges::sort(parts);  // in the file, the names of functions decide the order
  std::string text;
  for (const std::string& part : parts) text += part;
  return fmt::format("{:016x}", stable_hash(text));
}

}  // namespace warptune
