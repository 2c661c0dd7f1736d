#pragma once
// Append-only CSV: a row is on the disk before append() returns.
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/results/durable_file.h"

namespace warptune {

/// A row: fields by the names of their columns.
using CsvRow = std::map<std::string, std::string>;

class CsvFile {
 public:
  /// Opens or creates the file (and its folders) with this header. An incomplete last line, which a kill
  /// leaves, moves to "PATH.cut". Throws InputError and leaves the file as it is if it is anything else than
  /// rows below this header, std::runtime_error if it cannot be written.
  CsvFile(std::filesystem::path path, std::vector<std::string> columns);
  /// Writes and fsyncs one field per column, quoted where needed (RFC 4180). Removes a partial row on
  /// failure.
  void append(const std::vector<std::string>& fields);
  const std::filesystem::path& path() const { return path_; }
  /// One sentence if an incomplete last line was moved; else empty.
  std::string note() const;
  /// rescue() of results/durable_file.h: one sentence if the file was deleted or moved away; else empty.
  std::string rescue() const;

 private:
  std::filesystem::path path_;
  std::size_t columns_;
  std::filesystem::path cut_;  // holds an incomplete last line, or is empty
  OpenFile file_;
};

/// A field of a row; empty if it is missing.
const std::string& field(const CsvRow& row, const std::string& column);
/// The number of a field; NaN if it is empty or missing.
double number(const CsvRow& row, const std::string& column);

/// The number in a field; empty if its text is not a finite number.
std::optional<double> number_of(const std::string& field);
/// Calls header(columns), then f(line, fields) for the rows of a CSV in order. Throws InputError with file
/// and line for misplaced quotes, NUL bytes, rows of other lengths and an incomplete last line.
void for_each_record(const std::filesystem::path& path,
                     const std::function<void(const std::vector<std::string>&)>& header,
                     const std::function<void(int, const std::vector<std::string>&)>& f);
/// The same with the fields by the names of their columns.
void for_each_row(const std::filesystem::path& path, const std::function<void(int, CsvRow)>& f);
/// All rows at once.
std::vector<CsvRow> read_csv(const std::filesystem::path& path);
/// The names in the first line of a CSV; empty if it has none. Throws InputError if there is no file.
std::vector<std::string> csv_columns(const std::filesystem::path& path);
/// Writes a complete CSV (replace_file(), results/durable_file.h).
void write_csv(const std::filesystem::path& path, const std::vector<std::string>& columns,
               const std::vector<CsvRow>& rows);

}  // namespace warptune
