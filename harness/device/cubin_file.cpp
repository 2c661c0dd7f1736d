#include "harness/device/cubin_file.h"

#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

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

Elf64_Ehdr header_of(std::string_view cubin) {
  const auto header = read_at<Elf64_Ehdr>(cubin, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
    throw CompileError("the machine code is not a 64-bit ELF file");
  return header;
}

/// An attribute of a section .nv.info. The numbers are those of `cuobjdump -elf` (EIATTR_...).
struct Attribute {
  enum Kind : unsigned char {
    max_threads = 0x05,       // x, y, z
    required_block = 0x10,    // x, y, z
    parameter = 0x17,         // index, ordinal and offset, size
    registers = 0x2f,         // symbol, number
    required_cluster = 0x3d,  // x, y, z
    max_cluster = 0x3f,
    grid_counts_clusters = 0x5b,
  };
  unsigned char kind;
  std::string_view bytes;  // empty for an attribute of a few bits

  std::uint32_t word(std::size_t i) const { return read_at<std::uint32_t>(bytes, 4 * i); }
  Dim3 dims() const { return {word(0), word(1), word(2)}; }
};

std::vector<Attribute> attributes_in(std::string_view info) {
  constexpr unsigned char kSized = 4;
  std::vector<Attribute> attributes;
  for (std::size_t at = 0; at + 4 <= info.size();) {
    const bool is_sized = static_cast<unsigned char>(info[at]) == kSized;
    const std::size_t bytes = is_sized ? read_at<std::uint16_t>(info, at + 2) : 0;
    if (bytes > info.size() - at - 4)
      throw CompileError("the machine code is truncated: an attribute of a kernel has no content");
    attributes.push_back({static_cast<unsigned char>(info[at + 1]), info.substr(at + 4, bytes)});
    at += 4 + bytes;
  }
  return attributes;
}

/// Fills in what the attributes of a kernel tell, which come in any order.
void read_attributes(std::string_view info, KernelCode& kernel) {
  for (const Attribute& a : attributes_in(info)) {
    if (a.kind == Attribute::max_threads) {
      kernel.max_threads = a.word(0) * a.word(1) * a.word(2);
    } else if (a.kind == Attribute::required_block) {
      kernel.block = a.dims();
    } else if (a.kind == Attribute::required_cluster) {
      kernel.cluster = a.dims();
    } else if (a.kind == Attribute::max_cluster) {
      kernel.max_cluster = a.word(0);
    } else if (a.kind == Attribute::grid_counts_clusters) {
      kernel.grid_counts_clusters = true;
    } else if (a.kind == Attribute::parameter) {
      const std::size_t ordinal = read_at<std::uint16_t>(a.bytes, 4);
      if (kernel.parameter_bytes.size() <= ordinal) kernel.parameter_bytes.resize(ordinal + 1);
      kernel.parameter_bytes[ordinal] = a.word(2) >> 18;
    }
  }
}

/// The registers of each kernel, by the number of its symbol. Code for sm_90 has them only here; older code
/// also in the section of its instructions.
std::map<std::int64_t, int> registers_in(const std::vector<CubinSection>& sections) {
  std::map<std::int64_t, int> registers;
  for (const CubinSection& section : sections)
    if (section.name == ".nv.info")
      for (const Attribute& a : attributes_in(section.bytes))
        if (a.kind == Attribute::registers) registers[a.word(0)] = static_cast<int>(a.word(1));
  return registers;
}

/// Calls `use` with the number of each symbol, the symbol and its name.
template <class Use>
void for_each_symbol(const std::vector<CubinSection>& sections, Use&& use) {
  const auto symbols = std::ranges::find(sections, ".symtab", &CubinSection::name);
  const auto names = std::ranges::find(sections, ".strtab", &CubinSection::name);
  if (symbols == sections.end() || names == sections.end()) return;
  for (std::size_t i = 0; (i + 1) * sizeof(Elf64_Sym) <= symbols->bytes.size(); ++i) {
    const auto symbol = read_at<Elf64_Sym>(symbols->bytes, i * sizeof(Elf64_Sym));
    if (symbol.st_name >= names->bytes.size()) continue;
    const std::string_view rest = names->bytes.substr(symbol.st_name);
    use(static_cast<std::int64_t>(i), symbol, rest.substr(0, rest.find('\0')));
  }
}

/// The number of the first symbol with this name, or -1.
std::int64_t symbol_of(const std::vector<CubinSection>& sections, std::string_view name) {
  std::int64_t found = -1;
  for_each_symbol(sections, [&](std::int64_t i, const Elf64_Sym&, std::string_view known) {
    if (found < 0 && known == name) found = i;
  });
  return found;
}

/// The sections that affect the time of a kernel; a section's name ends with the name of its function. Tables
/// in global memory and their addresses (.nv.global, .nv.constant4) are left out: NVRTC also puts unused
/// constants of headers there.
constexpr std::string_view kSections[] = {".text", ".nv.constant0", ".nv.constant2", ".nv.constant3",
                                          ".nv.shared"};

bool counts(std::string_view name) {
  return std::ranges::any_of(kSections, [&](std::string_view kind) { return name.starts_with(kind); });
}

/// The header of one piece of code in a fatbin.
struct FatbinEntry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;
  std::uint32_t compressed_bytes, unknown;
  std::uint16_t minor, major;
  std::uint32_t arch;
};
constexpr std::uint32_t kFatbinMagic = 0xba55ed50;
constexpr std::uint16_t kMachineCode = 2;

}  // namespace

std::vector<CubinSection> sections_of_cubin(std::string_view cubin) {
  const auto header = header_of(cubin);
  const auto at = [&](std::size_t i) {
    return read_at<Elf64_Shdr>(cubin, header.e_shoff + i * header.e_shentsize);
  };
  const Elf64_Shdr names = at(header.e_shstrndx);
  std::vector<CubinSection> sections;
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr s = at(i);
    const std::size_t name = names.sh_offset + s.sh_name;
    if (name >= cubin.size()) throw CompileError("the machine code is truncated: a section has no name");
    const std::string_view rest = cubin.substr(name);
    const bool has_bytes = s.sh_type != SHT_NOBITS && s.sh_type != SHT_NULL;
    if (has_bytes && (s.sh_offset > cubin.size() || cubin.size() - s.sh_offset < s.sh_size))
      throw CompileError("the machine code is truncated: a section has no content");
    sections.push_back({.name = rest.substr(0, rest.find('\0')),
                        .bytes = has_bytes ? cubin.substr(s.sh_offset, s.sh_size) : std::string_view(),
                        .size = s.sh_size,
                        .info = s.sh_info});
  }
  return sections;
}

std::vector<ConstantSymbol> constants_of_cubin(std::string_view cubin) {
  const std::vector<CubinSection> sections = sections_of_cubin(cubin);
  std::vector<ConstantSymbol> constants;
  for_each_symbol(sections, [&](std::int64_t, const Elf64_Sym& symbol, std::string_view name) {
    if (ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT && symbol.st_shndx < sections.size() &&
        sections[symbol.st_shndx].name.starts_with(".nv.constant3"))
      constants.push_back({std::string(name), symbol.st_size});
  });
  return constants;
}

int arch_of_cubin(std::string_view cubin) {
  constexpr unsigned char kNewLayout = 8;  // the layout of the flags from CUDA 13 on
  const Elf64_Ehdr header = header_of(cubin);
  return static_cast<int>(header.e_ident[EI_ABIVERSION] >= kNewLayout ? header.e_flags >> 8 & 0xff
                                                                      : header.e_flags & 0xff);
}

std::vector<KernelCode> kernels_of_cubin(std::string_view cubin) {
  constexpr std::string_view kText = ".text.", kShared = ".nv.shared.", kInfo = ".nv.info.";
  constexpr std::uint64_t kReserved = 1024;  // by the system, in the section from sm_90 on
  const auto sections = sections_of_cubin(cubin);
  const auto registers = registers_in(sections);
  const auto section = [&](std::string_view kind, const std::string& kernel) -> const CubinSection* {
    const auto it = std::ranges::find(sections, std::string(kind) + kernel, &CubinSection::name);
    return it == sections.end() ? nullptr : &*it;
  };
  std::vector<KernelCode> kernels;
  for (const CubinSection& text : sections) {
    if (!text.name.starts_with(kText)) continue;
    KernelCode kernel{.name = std::string(text.name.substr(kText.size())),
                      .registers = static_cast<int>(text.info >> 24)};
    if (const auto known = registers.find(symbol_of(sections, kernel.name)); known != registers.end())
      kernel.registers = known->second;
    const CubinSection* info = section(kInfo, kernel.name);
    if (!info) continue;  // a function of the device
    read_attributes(info->bytes, kernel);
    if (const CubinSection* shared = section(kShared, kernel.name))
      kernel.static_shared_bytes = static_cast<std::int64_t>(
          arch_of_cubin(cubin) >= 90 && shared->size >= kReserved ? shared->size - kReserved : shared->size);
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

std::string_view cubin_for(std::string_view file, int arch) {
  const auto runs = [&](int code) { return code / 10 == arch / 10 && code <= arch; };
  std::vector<std::pair<int, std::string_view>> cubins;
  if (file.size() < 4 || read_at<std::uint32_t>(file, 0) != kFatbinMagic)
    cubins.emplace_back(arch_of_cubin(file), file);
  else
    for (std::size_t at = read_at<std::uint16_t>(file, 6); at + sizeof(FatbinEntry) <= file.size();) {
      const auto entry = read_at<FatbinEntry>(file, at);
      if (entry.header_bytes == 0 ||
          entry.bytes > file.size() - at - std::min<std::size_t>(entry.header_bytes, file.size() - at))
        throw CompileError("the machine code is truncated: the fatbin is incomplete");
      if (entry.kind == kMachineCode && entry.compressed_bytes != 0)
        throw CompileError("the fatbin is compressed; make it with nvcc --no-compress");
      if (entry.kind == kMachineCode)
        cubins.emplace_back(static_cast<int>(entry.arch),
                            file.substr(at + entry.header_bytes, static_cast<std::size_t>(entry.bytes)));
      at += entry.header_bytes + static_cast<std::size_t>(entry.bytes);
    }
  std::optional<std::pair<int, std::string_view>> best;
  std::vector<std::string> archs;
  for (const auto& cubin : cubins) {
    archs.push_back(fmt::format("sm_{}", cubin.first));
    if (runs(cubin.first) && (!best || cubin.first > best->first)) best = cubin;
  }
  if (!best)
    throw CompileError("it holds machine code for {}, not for sm_{}",
                       archs.empty() ? "no architecture" : fmt::format("{}", fmt::join(archs, ", ")), arch);
  return best->second;
}

std::string machine_code_hash(std::string_view cubin) {
  std::vector<std::string> parts;
  for (const CubinSection& s : sections_of_cubin(cubin)) {
    if (!counts(s.name)) continue;
    const bool is_code = s.name.starts_with(".text");
    parts.push_back(
        fmt::format("{} {} {} ", s.name.substr(0, s.name.rfind('.')), s.size, is_code ? s.info >> 24 : 0));
    parts.back() += s.bytes;
  }
  std::ranges::sort(parts);  // in the file, the names of functions decide the order
  std::string text;
  for (const std::string& part : parts) text += part;
  return fmt::format("{:016x}", stable_hash(text));
}

}  // namespace warptune
