// Files of an exported folder: regular ones of a bounded size, inside of the folder.
#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "warptune/detail/json.h"

namespace warptune::detail {

/// The content of a regular file. FIFOs and devices, which could block or never end, are refused.
inline std::string read_file(const std::filesystem::path& path, std::uintmax_t max_bytes) {
  namespace fs = std::filesystem;
  std::error_code error;
  const std::string name = "'" + path.string() + "'";
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw Error(name + " cannot be read: " + error.message());
  if (!fs::is_regular_file(status)) throw Error(name + " cannot be read: it is no regular file");
  const std::uintmax_t bytes = fs::file_size(path, error);
  if (error || bytes > max_bytes)
    throw Error(name + " cannot be read: " +
                (error ? error.message()
                       : "it has " + std::to_string(bytes) + " bytes, and the limit is " +
                             std::to_string(max_bytes)));
  std::ifstream in(path, std::ios::binary);
  std::string content(static_cast<std::size_t>(bytes), '\0');
  if (!in.read(content.data(), static_cast<std::streamsize>(bytes))) throw Error(name + " cannot be read");
  return content;
}

/// Throws Error unless a name is that of a file below the folder: "cubins/1f0c.cubin". Backslashes and colons
/// are separators and drives of Windows.
inline void expect_inside(const std::string& name) {
  const std::filesystem::path path(name);
  const bool climbs = std::find(path.begin(), path.end(), "..") != path.end();
  if (climbs || path.has_root_path() || !path.has_filename() ||
      name.find_first_of("\\:") != std::string::npos)
    throw Error("'" + name + "' is no file inside of the folder");
}

/// The file of a name in the folder. Links must not lead out of it.
inline std::filesystem::path file_inside(const std::filesystem::path& folder, const std::string& name) {
  expect_inside(name);
  std::error_code error;
  const auto root = std::filesystem::canonical(folder, error);
  const auto file = error ? root : std::filesystem::canonical(root / name, error);
  if (error) throw Error("'" + (folder / name).string() + "' cannot be read: " + error.message());
  if (std::mismatch(root.begin(), root.end(), file.begin(), file.end()).first != root.end())
    throw Error("'" + (folder / name).string() + "' is a link out of the folder");
  return file;
}

}  // namespace warptune::detail
