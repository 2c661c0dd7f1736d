#include "harness/core/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "harness/core/brief.h"
#include "harness/core/error.h"

namespace warptune {

namespace {

InputError unreadable(const std::string& origin, const std::string& why) {
  return InputError("{} cannot be read: {}", origin, why);
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path, std::string origin)
    : origin_(std::move(origin)), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
  if (file_ < 0) throw unreadable(origin_, std::strerror(errno));
  struct stat facts {};
  if (::fstat(file_, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    ::close(file_);
    throw unreadable(origin_, S_ISDIR(facts.st_mode) ? "it is a folder" : "it is not a regular file");
  }
  size_ = static_cast<std::uintmax_t>(facts.st_size);
}

InputFile::~InputFile() { ::close(file_); }

std::string InputFile::read(std::uintmax_t max_bytes) const {
  std::string text;
  text.reserve(std::min(size_, max_bytes));
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file_, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw unreadable(origin_, std::strerror(errno));
    if (n == 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
    if (text.size() > max_bytes || size_ > max_bytes)
      throw unreadable(origin_, fmt::format("it has {} bytes; such a file has at most {}",
                                            std::max<std::uintmax_t>(size_, text.size()), max_bytes));
  }
}

std::string read_input(const std::filesystem::path& path, const std::string& origin,
                       std::uintmax_t max_bytes) {
  return InputFile(path, origin).read(max_bytes);
}

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

std::string fault_of_file_name(std::string_view name) {
  constexpr std::size_t kMaxLetters = 128;
  constexpr std::string_view kMarks = "._-";
  const auto may_be = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kMarks.find(c) != kMarks.npos;
  };
  if (!name.empty() && name.size() <= kMaxLetters && name.front() != '.' && std::ranges::all_of(name, may_be))
    return {};
  return "it names a file: at most 128 letters, digits, '.', '_' and '-' only, and no '.' at its begin";
}

std::filesystem::path path_below(const std::filesystem::path& folder, const std::filesystem::path& name) {
  for (const auto& part : name)
    if (const std::string fault = fault_of_file_name(part.string()); !fault.empty())
      throw InputError("'{}' cannot be a file below '{}': '{}' is wrong, as {}", brief(name.string()),
                       folder.string(), brief(part.string()), fault);
  return folder / name;
}

}  // namespace warptune
