#include "harness/results/csv.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "harness/core/error.h"
#include "harness/results/durable_file.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string text = "\"";
  for (const char c : field) {
    if (c == '"') text += '"';
    text += c;
  }
  return text + '"';
}

std::string line_of(const std::vector<std::string>& fields) {
  std::string text;
  for (const std::string& field : fields) {
    if (&field != fields.data()) text += ',';
    text += quoted(field);
  }
  return text + '\n';
}

struct Record {
  int line = 0;  // the line of its first character, from 1
  std::vector<std::string> fields;
};

/// The complete records of a text; sets `end` to the end of the last one.
std::vector<Record> parse(const std::string& text, std::size_t& end) {
  std::vector<Record> records;
  Record record{.line = 1};
  std::string field;
  bool inside = false;
  int line = 1;
  end = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (inside) {
      if (c != '"')
        field += c;
      else if (i + 1 < text.size() && text[i + 1] == '"')
        field += text[++i];
      else
        inside = false;
    } else if (c == '"') {
      inside = true;
    } else if (c == ',') {
      record.fields.push_back(std::move(field));
      field.clear();
    } else if (c == '\n') {
      record.fields.push_back(std::move(field));
      field.clear();
      records.push_back(std::move(record));
      record = Record{.line = line};
      end = i + 1;
    } else if (c != '\r') {
      field += c;
    }
  }
  return records;
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Locks the file: another program may append to it.
class Lock {
 public:
  explicit Lock(int file) : file_(file) { ::flock(file_, LOCK_EX); }
  ~Lock() { ::flock(file_, LOCK_UN); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int file_;
};

/// Only a partial row may be removed at the end of a file. An unclosed quote, as an editor may leave one,
/// makes the rows after it part of one incomplete record; those must not be removed.
void refuse_more_than_a_line(const fs::path& path, const std::vector<Record>& records,
                             const std::string& text, std::size_t end) {
  if (records.size() < 2) return;
  const std::string next_row = '\n' + quoted(records.back().fields.front()) + ',';
  if (text.find(next_row, end) == std::string::npos) return;
  throw InputError(fmt::format("{}:{}: this row does not end, though others follow; is a quote unclosed?",
                               path.string(),
                               1 + std::count(text.begin(), text.begin() + static_cast<long>(end), '\n')));
}

}  // namespace

CsvFile::CsvFile(fs::path path, std::vector<std::string> columns)
    : path_(std::move(path)), columns_(columns.size()) {
  make_folder(path_.parent_path());
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0)
    throw std::runtime_error(fmt::format("'{}' cannot be written: {}", path_.string(), std::strerror(errno)));
  try {
    if (!fs::is_regular_file(path_))
      throw InputError(fmt::format("'{}' is not a regular file", path_.string()));
    const Lock lock(file_);
    const std::string text = read_text(path_);
    std::size_t end = 0;
    const auto records = parse(text, end);
    if (!records.empty() && records.front().fields != columns)
      throw InputError(fmt::format(
          "{}:1: this CSV has other columns than this program writes; move it away or choose another output",
          path_.string()));
    refuse_more_than_a_line(path_, records, text, end);
    cut_bytes_ = text.size() - end;
    if (end < text.size() && ::ftruncate(file_, static_cast<off_t>(end)) != 0)
      throw std::runtime_error(fmt::format("'{}' ends in an incomplete line that cannot be removed: {}",
                                           path_.string(), std::strerror(errno)));
    if (records.empty()) {
      write_and_sync(file_, line_of(columns), path_);
      sync_folder_of(path_);
    }
  } catch (...) {
    ::close(file_);
    throw;
  }
}

CsvFile::~CsvFile() { ::close(file_); }

void CsvFile::append(const std::vector<std::string>& fields) {
  if (fields.size() != columns_)
    throw std::logic_error(fmt::format("a row of {} fields for the {} columns of '{}'", fields.size(),
                                       columns_, path_.string()));
  const Lock lock(file_);
  const off_t before = ::lseek(file_, 0, SEEK_END);
  try {
    write_and_sync(file_, line_of(fields), path_);
  } catch (...) {
    if (before >= 0 && ::ftruncate(file_, before) != 0) {
      // the next program that opens the file removes the incomplete line
    }
    throw;
  }
}

std::string CsvFile::note() const {
  return cut_bytes_ == 0 ? ""
                         : fmt::format("'{}' ended in an incomplete line ({} bytes), which was removed",
                                       path_.string(), cut_bytes_);
}

std::optional<double> number_of(const std::string& field) {
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  const bool whole = error == std::errc() && end == field.data() + field.size() && std::isfinite(value);
  return whole ? std::optional(value) : std::nullopt;
}

std::vector<std::string> csv_columns(const fs::path& path) {
  if (!fs::is_regular_file(path)) throw InputError(fmt::format("'{}' is not a file", path.string()));
  std::size_t end = 0;
  const auto records = parse(read_text(path), end);
  return records.empty() ? std::vector<std::string>() : records.front().fields;
}

void write_csv(const fs::path& path, const std::vector<std::string>& columns,
               const std::vector<std::map<std::string, std::string>>& rows) {
  std::string text = line_of(columns);
  std::vector<std::string> fields;
  for (const auto& row : rows) {
    fields.clear();
    for (const std::string& column : columns) fields.push_back(row.at(column));
    text += line_of(fields);
  }
  replace_file(path, text);
}

void for_each_row(const fs::path& path,
                  const std::function<void(int, std::map<std::string, std::string>)>& f) {
  if (!fs::is_regular_file(path)) throw InputError(fmt::format("'{}' is not a file", path.string()));
  const std::string text = read_text(path);
  std::size_t end = 0;
  const auto records = parse(text, end);
  if (records.empty()) throw InputError(fmt::format("{}:1: no header line", path.string()));
  const auto& columns = records.front().fields;
  if (end < text.size())
    throw InputError(fmt::format("{}:{}: the last line is incomplete", path.string(),
                                 1 + std::count(text.begin(), text.begin() + static_cast<long>(end), '\n')));
  for (std::size_t i = 1; i < records.size(); ++i) {
    const auto& fields = records[i].fields;
    if (fields.size() != columns.size())
      throw InputError(fmt::format("{}:{}: {} fields where the header has {}", path.string(), records[i].line,
                                   fields.size(), columns.size()));
    std::map<std::string, std::string> row;
    for (std::size_t c = 0; c < columns.size(); ++c) row[columns[c]] = fields[c];
    f(records[i].line, std::move(row));
  }
}

std::vector<std::map<std::string, std::string>> read_csv(const fs::path& path) {
  std::vector<std::map<std::string, std::string>> rows;
  for_each_row(path, [&](int, auto row) { rows.push_back(std::move(row)); });
  return rows;
}

}  // namespace warptune
