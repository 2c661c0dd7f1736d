#include "cli/comparison_output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/core/error.h"
#include "harness/core/text.h"
#include "harness/results/compare_report.h"

namespace warptune {
namespace {

/// "2%" or "0.02".
double fraction_of(const std::string& text) {
  const bool percent = text.ends_with('%');
  const double value = parse_number<double>(text.substr(0, text.size() - percent)).value_or(NAN);
  const double fraction = percent ? value / 100 : value;
  if (!(fraction >= 0 && fraction < 1))
    throw InputError("--min-effect is '{}'; it must be like 2% or 0.02", text);
  return fraction;
}

/// A comparison in any of its formats.
bool is_comparison(std::string_view text) {
  constexpr std::array<std::string_view, 4> kBeginnings = {
      "verdict       base us ", "{\n \"schema\": 1,\n \"min_effect\": ",
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n <testsuite name=\"warptune\"",
      "{\n \"context\": {\n  \"date\": "};
  return std::ranges::any_of(kBeginnings, [&](std::string_view b) { return text.starts_with(b); }) ||
         (text.starts_with("**") && text.find("\n| verdict | base us |") != text.npos) ||
         (text.starts_with("{\n \"") &&
          text.substr(0, 4096).find("\": {\n  \"latency\": {\n") != text.npos) ||
         text == "{}\n";
}

}  // namespace

void add_test_options(CLI::App& command, CompareOptions& options) {
  command
      .add_option_function<std::string>(
          "--min-effect", [&options](const std::string& text) { options.min_effect = fraction_of(text); },
          "Smaller changes are SAME")
      ->default_str("2%");
  command.add_option("--alpha", options.alpha, "Probability of any false alarm over all rows")
      ->check(within(1e-9, 0.5))
      ->capture_default_str();
}

void ComparisonOutput::add_to(CLI::App& command) {
  command.add_option("--format", format_, fmt::format("{}", fmt::join(kComparisonFormats, ", ")))
      ->check(CLI::IsMember(kComparisonFormats))
      ->capture_default_str();
  output_.add_to(command, "Write to this file instead of stdout");
}

TextOutput ComparisonOutput::open(const std::vector<std::string>& inputs) const {
  return output_.open({.name = "a comparison", .is_earlier = is_comparison}, inputs);
}

std::string ComparisonOutput::formatted(const Comparison& comparison) const {
  return warptune::formatted(comparison, format_);
}

}  // namespace warptune
