// Whether a cubin is complete. The driver gets an address without a size, and reads as far as the file says.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "warptune/detail/json.h"

namespace warptune::detail {

/// The number of type T at an offset of a file; Error beyond its end.
template <class T>
T number_at(const std::string& file, std::uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) throw Error("the file ends early");
  T value;
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

/// Throws Error unless an ELF file of 64 bits has all of its headers and sections. Other binary files are no
/// cubins; text ends with a NUL.
inline void expect_complete(const std::string& cubin) {
  constexpr std::uint32_t kNoBits = 8;  // a section that takes no place in the file
  constexpr std::size_t kSectionHeader = 64, kProgramHeader = 56;
  if (cubin.compare(0, 5,
                    "\x7f"
                    "ELF\x02") != 0) {
    if (cubin.find('\0') != std::string::npos) throw Error("the file is no cubin");
    return;
  }
  const auto sections = number_at<std::uint64_t>(cubin, 40), programs = number_at<std::uint64_t>(cubin, 32);
  const auto program_size = number_at<std::uint16_t>(cubin, 54),
             program_count = number_at<std::uint16_t>(cubin, 56);
  const auto section_size = number_at<std::uint16_t>(cubin, 58),
             section_count = number_at<std::uint16_t>(cubin, 60);
  const auto expect_inside = [&](std::uint64_t offset, std::uint64_t bytes) {
    if (offset > cubin.size() || bytes > cubin.size() - offset) throw Error("the file ends early");
  };
  if ((section_count > 0 && section_size != kSectionHeader) ||
      (program_count > 0 && program_size != kProgramHeader))
    throw Error("the file is no cubin");
  expect_inside(sections, section_count * kSectionHeader);
  for (std::uint64_t i = 0; i < section_count; ++i) {
    const std::uint64_t header = sections + i * kSectionHeader;
    if (number_at<std::uint32_t>(cubin, header + 4) == kNoBits) continue;
    expect_inside(number_at<std::uint64_t>(cubin, header + 24), number_at<std::uint64_t>(cubin, header + 32));
  }
  expect_inside(programs, program_count * kProgramHeader);
  for (std::uint64_t i = 0; i < program_count; ++i) {
    const std::uint64_t header = programs + i * kProgramHeader;
    expect_inside(number_at<std::uint64_t>(cubin, header + 8), number_at<std::uint64_t>(cubin, header + 32));
  }
}

}  // namespace warptune::detail
