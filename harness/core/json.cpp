#include "harness/core/json.h"

#include <algorithm>

#include "harness/core/brief.h"
#include "harness/core/foreign_format.h"

namespace warptune {
namespace {

/// "line 3, column 7" of a byte.
std::string position(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte);
  const auto line = std::ranges::count(before, '\n') + 1;
  const auto start = before.rfind('\n') + 1;  // 0 where there is none
  return fmt::format("line {}, column {}", line, byte - start + 1);
}

/// What the library says, without its own prefix "[..] parse error at line 1, column 2: ".
std::string_view reason_of(std::string_view message) {
  const auto column = message.find(", column ");
  const auto colon = message.find(": ", column == std::string_view::npos ? 0 : column);
  return colon == std::string_view::npos ? message : message.substr(colon + 2);
}

}  // namespace

std::string json_fault(std::string_view text) {
  if (const std::string_view format = foreign_format(text); !format.empty())
    return fmt::format("line 1, column 1: this is {}", format);
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return "it is empty; it must be JSON";
  try {
    const auto json = nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::parse_error& e) {
    const std::size_t at = std::min(std::max<std::size_t>(e.byte, 1) - 1, text.size());
    const auto last = text.substr(0, at).find_last_not_of(" \t\r\n");
    const bool closes = at < text.size() && (text[at] == '}' || text[at] == ']');
    if (closes && last != std::string_view::npos && text[last] == ',')
      return fmt::format("{}: a comma before '{}'; JSON has none there", position(text, last), text[at]);
    return fmt::format("{}: this is not JSON: {}", position(text, at), brief(reason_of(e.what())));
  } catch (const nlohmann::json::out_of_range& e) {  // a number that no double holds: "parsing '1e999'"
    const std::string_view what = e.what();
    const auto quote = what.find('\'') + 1;
    const std::string_view number = what.substr(quote, what.rfind('\'') - quote);
    return fmt::format("{}: {} is too large", position(text, std::min(text.find(number), text.size())),
                       brief(number));
  }
  return "this is not JSON";
}

}  // namespace warptune
