// warptune compare BASE.csv NEW.csv: finds rows that became faster or slower.
#include "harness/results/compare.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <memory>

#include "harness/cli/commands.h"
#include "harness/cli/validators.h"
#include "harness/core/error.h"
#include "harness/core/message.h"
#include "harness/results/compare_report.h"
#include "harness/results/durable_file.h"

namespace warptune {
namespace {

/// "2%" or "0.02".
double fraction_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (rest == "%") value /= 100;
  if (error != std::errc() || !(rest.empty() || rest == "%") || !(value >= 0 && value < 1))
    throw InputError(fmt::format("--min-effect is '{}'; it must be like 2% or 0.02", text));
  return value;
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("compare", "Finds the rows of a sweep that became faster or slower");
  command->footer(
      "Exits with 1 if a row is slower, else with 2 if a row is missing or none match.\n"
      "Examples:\n"
      "  warptune compare base/h200/quick.csv results/h200/quick.csv\n"
      "  warptune compare base.csv new.csv --min-effect 1% --format markdown -o changes.md");
  struct Given {
    std::string base, now, min_effect = "2%", format = "text", output;
    CompareOptions options;
  };
  const auto given = std::make_shared<Given>();
  command->add_option("BASE", given->base, "The CSV of the earlier run")->required();
  command->add_option("NEW", given->now, "The CSV of the new run")->required();
  command->add_option("--min-effect", given->min_effect, "Smaller changes of the median are SAME")
      ->capture_default_str();
  command->add_option("--alpha", given->options.alpha, "Probability of any false alarm over all rows")
      ->check(within(1e-9, 0.5))
      ->capture_default_str();
  command->add_option("--format", given->format, "text, markdown or json")
      ->check(CLI::IsMember({"text", "markdown", "json"}))
      ->capture_default_str();
  command->add_option("-o,--output", given->output, "Write to this file instead of stdout");
  command->callback([given, &exit_code] {
    if (!given->output.empty()) expect_writable(given->output);
    given->options.min_effect = fraction_of(given->min_effect);
    const Comparison comparison =
        compare(read_timed_rows(given->base), read_timed_rows(given->now), given->options);
    const std::string text = given->format == "json"       ? as_json(comparison)
                             : given->format == "markdown" ? as_markdown(comparison)
                                                           : as_text(comparison);
    if (given->output.empty()) {
      fmt::print("{}", text);
    } else {
      std::ofstream out(given->output);
      out << text;
      if (!out.flush()) throw InputError(fmt::format("'{}' cannot be written", given->output));
    }
    if (comparison.matched == 0)
      print_error(fmt::format("no row of '{}' is in '{}' (device, problem, variant, config, cache)",
                              given->base, given->now));
    exit_code = comparison.exit_code();
  });
}

}  // namespace warptune
