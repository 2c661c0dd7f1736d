#include "harness/results/csv.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/lookup.h"
#include "harness/core/text.h"

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

/// The end of the complete records at the start of a text. `fault` says why the parser stopped at `line`; it
/// is empty where the text ends, or no more records were wanted. What follows `end` is then an incomplete
/// record.
struct Parsed {
  std::size_t end = 0;
  int line = 1;
  std::string fault = {};
};

/// What a file is that is no text in UTF-8; empty where nothing tells.
std::string fault_of_format(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf"))
    return "this begins with a byte order mark; save it as UTF-8 without one";
  const std::string_view format = foreign_format(text);
  return format.empty() ? std::string() : fmt::format("this is {}", format);
}

/// RFC 4180, strictly: a quote that an editor has left somewhere would otherwise join rows.
class Parser {
 public:
  /// Takes a record and returns whether it wants the next one.
  using Take = std::function<bool(const Record&)>;
  Parser(const std::string& text, Take take) : text_(text), take_(std::move(take)) {}

  Parsed run() {
    if (std::string fault = fault_of_format(text_); !fault.empty()) return stop(std::move(fault));
    for (std::size_t i = 0; i < text_.size() && wants_more_; ++i) {
      const char c = text_[i];
      if (c == '\0') return stop("a NUL byte; the file must be UTF-8");
      if (state_ == State::quoted) {
        inside(i);
      } else if (c == ',') {
        close_field();
      } else if (c == '\n') {
        close_record(i + 1);
      } else if (c == '"') {
        if (state_ != State::empty) return stop("a quote in the middle of a field");
        state_ = State::quoted;
      } else if (c != '\r') {
        if (state_ == State::closed) return stop("text after a closing quote");
        state_ = State::plain;
        const std::size_t begin = i;
        while (i + 1 < text_.size() && is_plain(text_[i + 1])) ++i;
        field_.append(text_, begin, i + 1 - begin);
      }
    }
    return std::move(p_);
  }

 private:
  enum class State { empty, plain, quoted, closed };  // the field that is read

  static bool is_plain(char c) { return c != ',' && c != '\n' && c != '"' && c != '\r' && c != '\0'; }

  void inside(std::size_t& i) {
    if (text_[i] == '\n') ++p_.line;
    if (text_[i] != '"')
      field_ += text_[i];
    else if (i + 1 < text_.size() && text_[i + 1] == '"')
      field_ += text_[++i];
    else
      state_ = State::closed;
  }

  void close_field() {
    if (fields_ == record_.fields.size()) record_.fields.emplace_back();
    record_.fields[fields_++].swap(field_);  // records reuse their memory
    field_.clear();
    state_ = State::empty;
  }

  void close_record(std::size_t end) {
    close_field();
    record_.fields.resize(fields_);
    wants_more_ = take_(record_);
    record_.line = ++p_.line;
    fields_ = 0;
    p_.end = end;
  }

  Parsed stop(std::string fault) {
    p_.fault = std::move(fault);
    return std::move(p_);
  }

  const std::string& text_;
  const Take take_;
  bool wants_more_ = true;
  Parsed p_;
  Record record_{.line = 1};
  std::size_t fields_ = 0;  // of record_ so far
  std::string field_;
  State state_ = State::empty;
};

/// The first record of a text; without fields if there is none.
std::pair<Record, Parsed> heading_of(const std::string& text) {
  Record heading;
  const Parsed parsed = Parser(text, [&](const Record& record) { return heading = record, false; }).run();
  return {heading, parsed};
}

/// More than any sweep writes.
constexpr std::uintmax_t kMaxCsvBytes = std::uintmax_t{4} << 30;

std::string read_text(const fs::path& path) {
  return read_input(path, fmt::format("'{}'", path.string()), kMaxCsvBytes);
}

[[noreturn]] void fail(const fs::path& path, std::ptrdiff_t line, const std::string& fault) {
  throw InputError("{}:{}: {}", path.string(), line, fault);
}

std::ptrdiff_t line_at(const std::string& text, std::size_t at) {
  return 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
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

/// The length of a file's complete rows below the header; 0 where the header is still to be written. Throws
/// InputError where the file is neither empty nor such rows with at most one incomplete line after them. That
/// is all that a kill leaves; everything else, such as a quote of an editor, is the user's to mend.
std::size_t whole_rows(const fs::path& path, const std::string& text,
                       const std::vector<std::string>& columns) {
  if (line_of(columns).starts_with(text)) return 0;
  if (const std::string fault = fault_of_format(text); !fault.empty()) fail(path, 1, fault);
  if (heading_of(text).first.fields != columns)
    fail(path, 1,
         "this file has other columns than this program writes; move it away or choose another output");
  const Parsed parsed = Parser(text, [](const Record&) { return true; }).run();
  if (!parsed.fault.empty()) fail(path, parsed.line, parsed.fault);
  if (text.find('\n', parsed.end) != std::string::npos)
    fail(path, line_at(text, parsed.end),
         "this row does not end, though others follow; is a quote unclosed?");
  return parsed.end;
}

}  // namespace

CsvFile::CsvFile(fs::path path, std::vector<std::string> columns)
    : path_(std::move(path)), columns_(columns.size()) {
  make_folder(path_.parent_path());
  file_ = OpenFile(path_, O_RDWR | O_CREAT | O_APPEND | O_NOCTTY);
  const Lock lock(file_.get());
  const std::string text = read_text(path_);
  const std::size_t end = whole_rows(path_, text, columns);
  if (end > 0 && end < text.size()) cut_ = keep_beside(path_, std::string_view(text).substr(end));
  if (end < text.size()) cut_end(file_.get(), text.size() - end, path_);
  if (end == 0) {
    write_and_sync(file_.get(), line_of(columns), path_);
    sync_folder_of(path_);
  }
}

void CsvFile::append(const std::vector<std::string>& fields) {
  if (fields.size() != columns_)
    throw std::logic_error(fmt::format("a row of {} fields for the {} columns of '{}'", fields.size(),
                                       columns_, path_.string()));
  const Lock lock(file_.get());
  const off_t before = ::lseek(file_.get(), 0, SEEK_END);
  try {
    write_and_sync(file_.get(), line_of(fields), path_);
  } catch (...) {
    if (before >= 0 && ::ftruncate(file_.get(), before) != 0) {
      // the next program that opens the file removes the incomplete line
    }
    throw;
  }
}

std::string CsvFile::note() const {
  return cut_.empty() ? ""
                      : fmt::format("'{}' ended in an incomplete line, which is now in '{}'", path_.string(),
                                    cut_.string());
}

std::string CsvFile::rescue() const { return warptune::rescue(file_.get(), path_); }

const std::string& field(const CsvRow& row, const std::string& column) {
  static const std::string none;
  const std::string* text = find_value(row, column);
  return text ? *text : none;
}

double number(const CsvRow& row, const std::string& column) {
  const std::string& text = field(row, column);
  return text.empty() ? NAN : std::strtod(text.c_str(), nullptr);
}

std::optional<double> number_of(const std::string& field) {
  const auto value = parse_number<double>(field);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::vector<std::string> csv_columns(const fs::path& path) {
  const auto [heading, parsed] = heading_of(read_text(path));
  if (!parsed.fault.empty()) fail(path, parsed.line, parsed.fault);
  return heading.fields;
}

void write_csv(const fs::path& path, const std::vector<std::string>& columns,
               const std::vector<CsvRow>& rows) {
  std::string text = line_of(columns);
  std::vector<std::string> fields;
  for (const CsvRow& row : rows) {
    fields.clear();
    for (const std::string& column : columns) fields.push_back(row.at(column));
    text += line_of(fields);
  }
  replace_file(path, text);
}

void for_each_record(const fs::path& path, const std::function<void(const std::vector<std::string>&)>& header,
                     const std::function<void(int, const std::vector<std::string>&)>& f) {
  const std::string text = read_text(path);
  std::size_t columns = 0;
  const auto take = [&](const Record& record) {
    if (columns == 0) {
      columns = record.fields.size();
      header(record.fields);
    } else if (record.fields.size() != columns) {
      fail(path, record.line,
           fmt::format("{} fields where the header has {}", record.fields.size(), columns));
    } else {
      f(record.line, record.fields);
    }
    return true;
  };
  const Parsed parsed = Parser(text, take).run();
  if (!parsed.fault.empty()) fail(path, parsed.line, parsed.fault);
  if (columns == 0) fail(path, 1, "no header line");
  if (parsed.end < text.size()) fail(path, line_at(text, parsed.end), "the last line is incomplete");
}

void for_each_row(const fs::path& path, const std::function<void(int, CsvRow)>& f) {
  std::vector<std::string> columns;
  for_each_record(
      path, [&](const std::vector<std::string>& header) { columns = header; },
      [&](int line, const std::vector<std::string>& fields) {
        CsvRow row;
        for (std::size_t c = 0; c < columns.size(); ++c) row[columns[c]] = fields[c];
        f(line, std::move(row));
      });
}

std::vector<CsvRow> read_csv(const fs::path& path) {
  std::vector<CsvRow> rows;
  for_each_row(path, [&](int, CsvRow row) { rows.push_back(std::move(row)); });
  return rows;
}

}  // namespace warptune
