#pragma once
// How commands print to stdout and logs. Texts come from files of others: print() makes them printable, so
// that no control character of a file reaches the terminal. tests/core/print_test.cpp finds output that goes
// around it. Messages go to stderr, one printable line each.
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "harness/core/brief.h"

namespace warptune {

/// A text of several lines, such as a compiler's: its newlines and tabs stay.
struct Lines {
  std::string_view text;
};
/// A text that stays as it is: its maker made it printable (tables, with their colors), or it is a whole
/// file.
struct AsIs {
  std::string_view text;
};

/// The text with everything that is not printable escaped, but for newlines and tabs.
std::string printable_lines(std::string_view text);

/// Writes and throws std::system_error where that fails.
void write_text(std::FILE* to, std::string_view text);

template <class T>
inline constexpr bool kIsText =
    std::is_convertible_v<const T&, std::string_view> || std::is_same_v<T, Lines> || std::is_same_v<T, AsIs>;
/// The type that a value is printed as.
template <class T>
using Shown = std::conditional_t<kIsText<T>, std::string, const T&>;

template <class T>
Shown<T> shown(const T& value) {
  if constexpr (std::is_same_v<T, Lines>)
    return printable_lines(value.text);
  else if constexpr (std::is_same_v<T, AsIs>)
    return std::string(value.text);
  else if constexpr (kIsText<T>)
    return printable(value);
  else
    return value;
}

template <class... T>
std::string printable_format(fmt::string_view format, const T&... values) {
  const auto text = [&](const auto&... printed) {
    return fmt::vformat(format, fmt::make_format_args(printed...));
  };
  return text(shown(values)...);
}

/// Prints values, with their texts printable.
template <class... T>
void print(std::FILE* to, fmt::format_string<Shown<T>...> format, const T&... values) {
  write_text(to, printable_format(format, values...));
}
template <class... T>
void print(fmt::format_string<Shown<T>...> format, const T&... values) {
  write_text(stdout, printable_format(format, values...));
}

inline constexpr std::size_t kMaxMessage = 400;  // bytes of a line

/// The text as one printable line of at most kMaxMessage bytes. A longer text loses its middle: the file and
/// the line are at the start of a sentence, what would be right is at its end.
std::string one_line(std::string_view text);

/// Prints "warptune: SENTENCE". A closed or full stderr is no error: a message never decides how a command
/// ends.
void print_error(std::string_view sentence, std::FILE* to = stderr) noexcept;
/// Prints "note: SENTENCE" likewise.
void print_note(std::string_view sentence) noexcept;

// The same for a format and the values in it.
template <class... T>
requires(sizeof...(T) > 0) void print_error(fmt::format_string<T...> format, T&&... values) {
  print_error(fmt::format(format, std::forward<T>(values)...));
}
template <class... T>
requires(sizeof...(T) > 0) void print_note(fmt::format_string<T...> format, T&&... values) {
  print_note(fmt::format(format, std::forward<T>(values)...));
}

}  // namespace warptune
