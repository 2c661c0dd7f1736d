#include "harness/core/text_table.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <sstream>

#include "harness/core/print.h"

namespace warptune {
namespace {

constexpr std::size_t kGap = 2;       // spaces between columns
constexpr std::size_t kMinText = 24;  // a text column is never shrunk below this

}  // namespace

bool takes_color(std::FILE* stream) {
  const char* off = std::getenv("NO_COLOR");
  return !(off && *off) && isatty(fileno(stream)) == 1;
}

std::string painted(const std::string& text, Color color, bool colored) {
  static constexpr const char* kCodes[] = {"", "1", "2", "32", "33", "31"};
  if (!colored || color == Color::none || text.empty()) return text;
  return fmt::format("\033[{}m{}\033[0m", kCodes[static_cast<int>(color)], text);
}

std::string known_number(double value, int digits) {
  return std::isfinite(value) && value != 0 ? fmt::format("{:.{}f}", value, digits) : "";
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  std::string rest = text;
  while (rest.size() > width) {
    std::size_t end = width;
    for (const char* marks : {"/_", ", "})
      if (const auto at = rest.find_last_of(marks, width - 1); at != std::string::npos && at > 0)
        end = at + 1;
    lines.push_back(rest.substr(0, end));
    rest.erase(0, end);
  }
  lines.push_back(rest);
  for (std::string& line : lines)
    while (!line.empty() && line.back() == ' ') line.pop_back();
  return lines;
}

void TextTable::add(std::vector<Cell> cells, std::string detail) {
  cells.resize(columns_.size());
  for (Cell& cell : cells) cell.text = printable(cell.text);
  rows_.push_back({std::move(cells), printable(detail)});
}

/// The width of each column; 0 for an empty one. Where the table is too wide, headings wrap, then the widest
/// text column shrinks first.
std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> widths(columns_.size(), 0), least(columns_.size(), 0);
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    for (const Row& row : rows_) least[c] = std::max(least[c], row.cells[c].text.size());
    if (least[c] == 0) continue;
    widths[c] = std::max(least[c], columns_[c].heading.size());
    std::istringstream words(columns_[c].heading);
    for (std::string word; words >> word;) least[c] = std::max(least[c], word.size());
  }
  const auto shown = static_cast<std::size_t>(std::ranges::count_if(widths, [](auto w) { return w > 0; }));
  const std::size_t gaps = shown > 0 ? kGap * (shown - 1) : 0;
  const auto shrink = [&] {
    while (std::accumulate(widths.begin(), widths.end(), gaps) > width_) {
      std::size_t widest = columns_.size();
      for (std::size_t c = 0; c < columns_.size(); ++c)
        if (widths[c] > least[c] && (widest == columns_.size() || widths[c] > widths[widest])) widest = c;
      if (widest == columns_.size()) return;
      --widths[widest];
    }
  };
  shrink();
  for (std::size_t c = 0; c < columns_.size(); ++c)
    if (columns_[c].kind == Column::Kind::text) least[c] = kMinText;
  shrink();
  return widths;
}

std::string TextTable::line(const std::vector<Cell>& cells, const std::vector<std::size_t>& widths,
                            bool colored) const {
  std::vector<std::vector<std::string>> parts(cells.size());
  std::size_t height = 1;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    if (widths[c] == 0) continue;
    parts[c] = wrapped(cells[c].text, widths[c]);
    height = std::max(height, parts[c].size());
  }
  std::string text;
  for (std::size_t i = 0; i < height; ++i) {
    std::string line;
    std::size_t pending = 0;  // spaces not yet written: a line has none at its end
    bool first = true;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (widths[c] == 0) continue;
      const std::string part = i < parts[c].size() ? parts[c][i] : "";
      const std::size_t fill = widths[c] - std::min(widths[c], part.size());
      const bool left = columns_[c].kind == Column::Kind::text;
      pending += (first ? 0 : kGap) + (left ? 0 : fill);
      first = false;
      if (!part.empty()) {
        line += std::string(pending, ' ') + painted(part, cells[c].color, colored);
        pending = 0;
      }
      pending += left ? fill : 0;
    }
    text += line + '\n';
  }
  return text;
}

std::string TextTable::text(bool colored) const {
  if (rows_.empty()) return {};
  const auto size = widths();
  std::vector<Cell> headings;
  for (const Column& column : columns_) headings.emplace_back(column.heading, Color::bold);
  std::string text = line(headings, size, colored);
  for (const Row& row : rows_) {
    text += line(row.cells, size, colored);
    if (row.detail.empty()) continue;
    for (const std::string& part : wrapped(row.detail, width_ - kGap))
      text += std::string(kGap, ' ') + painted(part, Color::dim, colored) + '\n';
  }
  return text;
}

void print(std::FILE* stream, const TextTable& table) {
  print(stream, "{}", AsIs{table.text(takes_color(stream))});
}

std::string label_of(const Op& op, std::string_view key) {
  const auto is_default = [&](std::string_view pair) {
    const auto equals = std::min(pair.find('='), pair.size());
    const Dim* dim = op.find_dim(pair.substr(0, equals));
    if (!dim || !dim->fallback) return false;
    const std::string fallback =
        dim->labels.empty() ? std::to_string(*dim->fallback) : dim->labels[*dim->fallback];
    return pair.substr(std::min(equals + 1, pair.size())) == fallback;
  };
  std::size_t at = std::min(key.find('['), key.size() - 1) + 1;
  std::string text(key.substr(0, at));
  for (auto comma = key.find(',', at); comma != std::string_view::npos; comma = key.find(',', at)) {
    if (!is_default(key.substr(at, comma - at))) text += key.substr(at, comma + 1 - at);
    at = comma + 1;
  }
  return text + std::string(key.substr(at));
}

std::string label_of(const Op& op, const Problem& problem) { return label_of(op, problem.key()); }

}  // namespace warptune
