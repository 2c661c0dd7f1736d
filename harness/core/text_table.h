#pragma once
// Tables for people: aligned columns with units in the headings, at most 120 columns wide, colored on a
// terminal. Every command that prints a table uses this one.
#include <cstdio>
#include <string>
#include <vector>

#include "harness/core/op.h"

namespace warptune {

enum class Color { none, bold, dim, green, yellow, red };

struct Cell {
  std::string text;
  Color color = Color::none;
  Cell(std::string given = {}, Color shown = Color::none) : text(std::move(given)), color(shown) {}
  Cell(const char* given) : text(given) {}
};

class TextTable {
 public:
  static constexpr std::size_t kWidth = 120;
  /// Text is aligned left, numbers right. Where the table would be too wide, headings wrap at spaces, then
  /// texts at commas and spaces; numbers never wrap.
  struct Column {
    std::string heading;
    enum class Kind { number, text } kind = Kind::number;
  };

  explicit TextTable(std::vector<Column> columns, std::size_t width = kWidth)
      : columns_(std::move(columns)), width_(width) {}

  /// One cell per column. `detail` goes below the row, indented, over the whole width. Texts become
  /// printable.
  void add(std::vector<Cell> cells, std::string detail = {});
  bool empty() const { return rows_.empty(); }
  /// Columns in which every cell is empty are left out.
  std::string text(bool colored = false) const;

 private:
  struct Row {
    std::vector<Cell> cells;
    std::string detail;
  };
  std::vector<std::size_t> widths() const;
  std::string line(const std::vector<Cell>& cells, const std::vector<std::size_t>& widths,
                   bool colored) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
  std::size_t width_;
};

/// A column of text.
inline TextTable::Column text_column(std::string heading) {
  return {std::move(heading), TextTable::Column::Kind::text};
}

/// Prints a table, colored where the stream takes colors.
void print(std::FILE* stream, const TextTable& table);

/// Whether the stream is a terminal and the user did not set NO_COLOR.
bool takes_color(std::FILE* stream);
/// The text with escape sequences around it, if `colored`.
std::string painted(const std::string& text, Color color, bool colored);

/// "12.35"; empty for a value that is not known (0, infinite, NaN).
std::string known_number(double value, int digits);

/// "1 winner", "12 winners".
std::string counted(std::size_t count, std::string_view noun);

/// The text in lines of at most `width` characters, broken after commas and spaces where possible, else after
/// the parts of a name.
std::vector<std::string> wrapped(const std::string& text, std::size_t width);

/// The key of a problem of the op without the dims that are at their default. Files hold the key itself.
std::string label_of(const Op& op, std::string_view key);
std::string label_of(const Op& op, const Problem& problem);

}  // namespace warptune
