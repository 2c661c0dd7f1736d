#include "harness/core/print.h"

#include <algorithm>
#include <exception>

namespace warptune {

std::string printable_lines(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find_first_of("\n\t", at), text.size());
    out += printable(text.substr(at, end - at));
    if (end < text.size()) out += text[end];
    at = end + 1;
  }
  return out;
}

void write_text(std::FILE* to, std::string_view text) { fmt::print(to, "{}", text); }

namespace {

constexpr std::string_view kCut = " ... ";
constexpr std::size_t kTail = 120;

void print_line(std::string_view kind, std::string_view sentence, std::FILE* to) noexcept try {
  const std::string line = one_line(std::string(kind) + std::string(sentence)) + '\n';
  std::fwrite(line.data(), 1, line.size(), to);
  std::fflush(to);
} catch (const std::exception&) {
  std::fputs("warptune: out of memory\n", to);
}

}  // namespace

std::string one_line(std::string_view text) {
  // Escaping a megabyte is not needed to show its ends: the longest escape of a byte has four characters.
  if (text.size() > 2 * kMaxMessage + kCut.size())
    return one_line(std::string(text.substr(0, kMaxMessage)) + std::string(kCut) +
                    std::string(text.substr(text.size() - kMaxMessage)));
  const std::string line = printable(text);
  if (line.size() <= kMaxMessage) return line;
  std::size_t head = kMaxMessage - kTail - kCut.size(), tail = line.size() - kTail;
  while (head > 0 && continues_character(line[head])) --head;
  while (tail < line.size() && continues_character(line[tail])) ++tail;
  return line.substr(0, head) + std::string(kCut) + line.substr(tail);
}

void print_error(std::string_view sentence, std::FILE* to) noexcept {
  print_line("warptune: ", sentence, to);
}
void print_note(std::string_view sentence) noexcept { print_line("note: ", sentence, stderr); }

}  // namespace warptune
