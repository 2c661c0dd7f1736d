#include "harness/core/foreign_format.h"

namespace warptune {

std::string_view foreign_format(std::string_view bytes) {
  if (bytes.starts_with("version https://git-lfs.github.com/spec/"))
    return "a Git LFS pointer; 'git lfs pull' fetches the file itself";
  // Without a byte order mark, every second byte of ASCII text is 0.
  const auto utf16 = [&](std::size_t zero) {
    return bytes.size() >= 4 && bytes[zero] == '\0' && bytes[zero + 2] == '\0' && bytes[1 - zero] != '\0';
  };
  if (bytes.starts_with("\xff\xfe") || bytes.starts_with("\xfe\xff") || utf16(0) || utf16(1))
    return "UTF-16; it must be UTF-8";
  const auto first = bytes.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && bytes[first] == '<') return "HTML or XML";
  return {};
}

}  // namespace warptune
