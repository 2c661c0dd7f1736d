#pragma once
// Messages on stderr: one printable line each.
#include <cstdio>
#include <string>
#include <string_view>

namespace warptune {

inline constexpr std::size_t kMaxMessage = 400;  // bytes of a line

/// The text as one printable line of at most kMaxMessage bytes. A longer text loses its middle: the file and
/// the line are at the start of a sentence, what would be right is at its end.
std::string one_line(std::string_view text);

/// Prints "warptune: SENTENCE". A closed or full stderr is no error: a message never decides how a command
/// ends.
void print_error(std::string_view sentence, std::FILE* to = stderr) noexcept;
/// Prints "note: SENTENCE" likewise.
void print_note(std::string_view sentence) noexcept;

}  // namespace warptune
