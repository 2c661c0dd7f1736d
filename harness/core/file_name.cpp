#include "harness/core/file_name.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/core/brief.h"
#include "harness/core/error.h"

namespace warptune {

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
      throw InputError(fmt::format("'{}' cannot be a file below '{}': '{}' is wrong, as {}",
                                   brief(name.string()), folder.string(), brief(part.string()), fault));
  return folder / name;
}

}  // namespace warptune
