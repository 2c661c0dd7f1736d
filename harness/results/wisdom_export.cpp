#include "harness/results/wisdom_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "harness/core/error.h"

namespace warptune {
namespace {

/// A C++ string literal.
std::string literal(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (static_cast<unsigned char>(c) < ' ')
      out += fmt::format("\\{:03o}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + '"';
}

constexpr std::string_view kHead =
    R"(// Winners of warptune, written by `warptune wisdom export --format header`. Needs C++17 and nothing else.
//   const auto* w = warptune_wisdom::find("rms_norm[tokens=1,hidden=4096,dtype=bf16]");
//   if (w) launch(w->variant, warptune_wisdom::value(*w, "block", 256));
#pragma once
#include <cstddef>
#include <string_view>

namespace warptune_wisdom {

struct Winner {
  std::string_view problem;  // op[dims,dtype=..], the dims in the op's order
  std::string_view variant;
  std::string_view config;  // "block=256,cache_hint=none"
  double time_us;
  std::string_view source_hash;  // of the variant's kernels
  std::string_view device, arch, driver, toolkit;
};

// Sorted by problem, then device.
)";

constexpr std::string_view kTail = R"(
/// The winner of a problem on a device, or on the first device that has one; nullptr if there is none.
constexpr const Winner* find(std::string_view problem, std::string_view device = {}) {
  std::size_t begin = 0, end = kWinnerCount;
  while (begin < end) {
    const std::size_t middle = begin + (end - begin) / 2;
    if (kWinners[middle].problem < problem)
      begin = middle + 1;
    else
      end = middle;
  }
  for (; begin < kWinnerCount && kWinners[begin].problem == problem; ++begin)
    if (device.empty() || kWinners[begin].device == device) return &kWinners[begin];
  return nullptr;
}

/// The text of a parameter: "256", "plain"; empty if the config does not have it.
constexpr std::string_view text(const Winner& winner, std::string_view parameter) {
  std::string_view rest = winner.config;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view pair = rest.substr(0, comma);
    const std::size_t equals = pair.find('=');
    if (pair.substr(0, equals) == parameter) return pair.substr(equals + 1);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
  }
  return {};
}

/// The same as a number; `fallback` if the config does not have it or it is not a number.
constexpr long long value(const Winner& winner, std::string_view parameter, long long fallback) {
  const std::string_view digits = text(winner, parameter);
  if (digits.empty()) return fallback;
  long long number = 0;
  for (std::size_t i = digits[0] == '-' ? 1 : 0; i < digits.size(); ++i) {
    if (digits[i] < '0' || digits[i] > '9') return fallback;
    number = number * 10 + (digits[i] - '0');
  }
  return digits[0] == '-' ? -number : number;
}

}  // namespace warptune_wisdom
)";

}  // namespace

std::string to_header(const Wisdom& wisdom) {
  std::vector<const Winner*> sorted;
  for (const Winner& winner : wisdom.winners()) sorted.push_back(&winner);
  std::ranges::sort(sorted, {},
                    [](const Winner* w) { return std::tuple(w->problem.key(), w->made_on.device); });
  // An array cannot be empty: without winners it has one element, which find() ignores.
  std::string table = fmt::format(
      "inline constexpr std::size_t kWinnerCount = {};\ninline constexpr Winner kWinners[] = {{\n",
      sorted.size());
  for (const Winner* w : sorted)
    table += fmt::format("    {{{}, {}, {}, {:.6g}, {},\n     {}, {}, {}, {}}},\n", literal(w->problem.key()),
                         literal(w->variant), literal(w->config.str()), w->time_us, literal(w->source_hash),
                         literal(w->made_on.device), literal(w->made_on.arch), literal(w->made_on.driver),
                         literal(w->made_on.toolkit));
  if (sorted.empty()) table += "    {},\n";
  return fmt::format("{}{}}};\n{}", kHead, table, kTail);
}

std::vector<std::string> unknown_winners(const OpTable& ops, const Wisdom& wisdom) {
  std::vector<std::string> sentences;
  for (const Winner& winner : wisdom.winners()) try {
      const OpEntry& entry = ops.find(winner.problem.op);
      entry.op.problem(winner.problem.dims, winner.problem.dtype);
      entry.variant(winner.variant);
    } catch (const InputError& e) {
      sentences.push_back(fmt::format("the winner of {}: {}", winner.problem.key(), e.what()));
    }
  return sentences;
}

}  // namespace warptune
