#pragma once
// Append-only CSV: a row is on the disk before append() returns.
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace warptune {

class CsvFile {
 public:
  /// Opens or creates the file (and its folders) with this header, and removes an incomplete last line.
  /// Throws InputError if the file has another header, std::runtime_error if it cannot be written.
  CsvFile(std::filesystem::path path, std::vector<std::string> columns);
  ~CsvFile();
  CsvFile(const CsvFile&) = delete;
  CsvFile& operator=(const CsvFile&) = delete;
  /// Writes and fsyncs one field per column, quoted where needed (RFC 4180). Removes a partial row on
  /// failure.
  void append(const std::vector<std::string>& fields);
  const std::filesystem::path& path() const { return path_; }
  /// One sentence if an incomplete last line was removed; else empty.
  std::string note() const;

 private:
  std::filesystem::path path_;
  std::size_t columns_, cut_bytes_ = 0;
  int file_ = -1;
};

/// The number in a field; empty if its text is not a finite number.
std::optional<double> number_of(const std::string& field);
/// Calls f(line, row) for the rows of a CSV in order; a row maps column names to fields. Throws InputError
/// with file and line.
void for_each_row(const std::filesystem::path& path,
                  const std::function<void(int, std::map<std::string, std::string>)>& f);
/// All rows at once.
std::vector<std::map<std::string, std::string>> read_csv(const std::filesystem::path& path);
/// The names in the first line of a CSV; empty if it has none. Throws InputError if there is no file.
std::vector<std::string> csv_columns(const std::filesystem::path& path);
/// Writes a complete CSV (replace_file(), results/durable_file.h).
void write_csv(const std::filesystem::path& path, const std::vector<std::string>& columns,
               const std::vector<std::map<std::string, std::string>>& rows);

}  // namespace warptune
