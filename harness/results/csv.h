#pragma once
// Append-only CSV: a row is on the disk before append() returns.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace warptune {

class CsvFile {
 public:
  /// Opens or creates the file (and its folders) with this header. A file with another header is an
  /// InputError; a torn last line is cut off. Throws std::runtime_error where it cannot be written.
  CsvFile(std::filesystem::path path, std::vector<std::string> columns);
  ~CsvFile();
  CsvFile(const CsvFile&) = delete;
  CsvFile& operator=(const CsvFile&) = delete;
  /// One field per column, quoted where needed (RFC 4180), written and fsynced.
  void append(const std::vector<std::string>& fields);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::size_t columns_;
  int file_ = -1;
};

/// The rows of a CSV by column name. Throws InputError with file and line.
std::vector<std::map<std::string, std::string>> read_csv(const std::filesystem::path& path);

}  // namespace warptune
