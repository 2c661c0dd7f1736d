// warptune regret RESULTS.csv: what choosing from wisdom costs on problems that were not tuned.
#include "harness/select/regret.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "harness/cli/commands.h"
#include "harness/cli/validators.h"
#include "harness/tune/device_file.h"
#include "variants/table.h"

namespace warptune {
namespace {

const char* name_of(PlanSource source) {
  switch (source) {
    case PlanSource::overridden:
      return "override";
    case PlanSource::exact:
      return "exact";
    case PlanSource::predicted:
      return "predicted";
    case PlanSource::nearest:
      return "nearest";
    case PlanSource::fallback:
      return "default";
  }
  return "";
}

/// Prints the regret of each problem and a summary. Returns whether both limits (percent) hold.
bool print(const std::vector<Regret>& list, double mean_limit, double worst_limit) {
  double sum = 0, worst = 0;
  std::size_t untimed = 0;
  for (const Regret& r : list) {
    fmt::print("{}\n  {:<9} {:>9} us  {}\n  best      {:>9.3f} us  {}\n", r.problem, name_of(r.source),
               r.chosen_us > 0 ? fmt::format("{:.3f}", r.chosen_us) : "?", r.chosen, r.best_us, r.best);
    if (r.chosen_us > 0) {
      fmt::print("  regret    {:>9.2f} %\n", 100 * r.value());
      sum += 100 * r.value();
      worst = std::max(worst, 100 * r.value());
    } else {
      fmt::print("  regret            ?: the search did not time it\n");
      ++untimed;
    }
  }
  const std::size_t timed = list.size() - untimed;
  const double mean = timed ? sum / static_cast<double>(timed) : 0;
  const bool met = untimed == 0 && mean <= mean_limit && worst <= worst_limit;
  fmt::print("{} problems, mean regret {:.2f} % (at most {:g} %), worst {:.2f} % (at most {:g} %){}: {}\n",
             list.size(), mean, mean_limit, worst, worst_limit,
             untimed ? fmt::format(", {} choices not timed", untimed) : "", met ? "met" : "not met");
  return met;
}

}  // namespace

void add_regret(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "regret", "Says how far the choice from wisdom is from the best of an exhaustive search");
  command->footer(
      "Chooses for each problem of the CSV as decode does, with a wisdom that does not know the problem.\n"
      "Exits with 1 if a limit is exceeded, or if the search did not time the choice.\n"
      "Needs no device.\nExample:\n"
      "  warptune regret out/h200/regret.csv --wisdom results/h200/wisdom.json");
  struct Given {
    std::string csv, wisdom, stale = "refuse";
    double mean = 3, worst = 8;
  };
  const auto given = std::make_shared<Given>();
  command->add_option("RESULTS", given->csv, "The CSV of an exhaustive sweep")->required();
  command->add_option("--wisdom", given->wisdom, "wisdom.json")->required();
  command->add_option("--mean", given->mean, "Limit of the mean, percent")
      ->check(within(0, 1e6))
      ->capture_default_str();
  command->add_option("--worst", given->worst, "Limit of each problem, percent")
      ->check(within(0, 1e6))
      ->capture_default_str();
  command->add_option("--stale-wisdom", given->stale, "Times of other kernel sources: use or refuse")
      ->check(CLI::IsMember({"use", "refuse"}))
      ->capture_default_str();
  command->callback([given, &exit_code] {
    const auto stale = given->stale == "use" ? StaleCode::use : StaleCode::refuse;
    const auto measured = [&](const DeviceFacts& device) {
      return load_device_file(std::filesystem::path(given->csv).parent_path() / "device.json", device);
    };
    if (!print(regrets(ops(), given->csv, Wisdom::load(given->wisdom), stale, measured), given->mean,
               given->worst))
      exit_code = 1;
  });
}

}  // namespace warptune
