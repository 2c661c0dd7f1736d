// warptune regret RESULTS.csv: the regret of choosing from wisdom on untuned problems.
#include "harness/select/regret.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "harness/cli/commands.h"
#include "harness/cli/validators.h"
#include "harness/cli/wisdom_in_use.h"
#include "harness/core/print.h"
#include "harness/results/sweep_file.h"
#include "harness/tune/device_file.h"
#include "variants/table.h"

namespace warptune {
namespace {

/// The regret of several problems.
struct Total {
  std::size_t problems = 0, untimed = 0;
  double sum = 0, worst = 0;  // percent

  void add(const Regret& r) {
    ++problems;
    if (r.chosen_us > 0) {
      sum += 100 * r.value();
      worst = std::max(worst, 100 * r.value());
    } else {
      ++untimed;
    }
  }
  double mean() const { return problems > untimed ? sum / static_cast<double>(problems - untimed) : 0; }
  std::string note() const { return untimed ? fmt::format(", {} choices not timed", untimed) : ""; }
};

void print_regret(const Regret& r) {
  print("{}\n  {:<9} {:>9} us  {}\n  best      {:>9.3f} us  {}\n", r.problem, name_of(r.source),
        r.chosen_us > 0 ? fmt::format("{:.3f}", r.chosen_us) : "?", r.chosen, r.best_us, r.best);
  if (r.chosen_us > 0)
    print("  regret    {:>9.2f} %\n", 100 * r.value());
  else
    print("  regret            ?: the search did not time it\n");
}

/// Prints every problem, one line per op if there are several, and the totals. Returns whether both limits
/// (percent) are met.
bool print_regrets(const std::vector<Regret>& list, double mean_limit, double worst_limit) {
  Total all;
  std::map<std::string, Total> by_op;
  for (const Regret& r : list) {
    print_regret(r);
    all.add(r);
    by_op[r.problem.substr(0, r.problem.find('['))].add(r);
  }
  if (by_op.size() > 1)
    for (const auto& [op, total] : by_op)
      print("{:<20} {:>4} problems, mean regret {:>6.2f} %, worst {:>6.2f} %{}\n", op, total.problems,
            total.mean(), total.worst, total.note());
  const bool met = all.untimed == 0 && all.mean() <= mean_limit && all.worst <= worst_limit;
  print("{} problems, mean regret {:.2f} % (at most {:g} %), worst {:.2f} % (at most {:g} %){}: {}\n",
        all.problems, all.mean(), mean_limit, all.worst, worst_limit, all.note(), met ? "met" : "not met");
  return met;
}

/// The device of the rows, as far as they tell; of several the first.
DeviceFacts device_of(const std::filesystem::path& csv) {
  const auto rows = read_sweep(csv);
  DeviceFacts facts;
  if (rows.empty()) return facts;
  facts.name = rows.front().at("device");
  facts.arch = rows.front().at("arch");
  facts.driver = rows.front().at("driver");
  facts.toolkit = rows.front().at("toolkit");
  return facts;
}

}  // namespace

void add_regret(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "regret", "Prints how much slower the choice from wisdom is than the best of an exhaustive search");
  command->footer(
      "Chooses for each problem of the CSV as decode does, with a wisdom without that problem.\n"
      "Exits with 1 if a limit is exceeded, or if the search did not time the choice.\n"
      "Needs no device.\nExample:\n"
      "  warptune regret out/h200/regret.csv --wisdom results/h200/wisdom.json");
  struct Given {
    std::string csv, wisdom, stale = "refuse";
    double mean = 3, worst = 8;
  };
  const auto given = std::make_shared<Given>();
  command->add_option("RESULTS", given->csv, "The CSV of an exhaustive sweep")->required();
  command->add_option("--wisdom", given->wisdom, "wisdom.json; default: the files of WARPTUNE_WISDOM");
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
    const DeviceFacts facts = given->wisdom.empty() ? device_of(given->csv) : DeviceFacts{};
    const Wisdom wisdom = required_wisdom(given->wisdom, facts, "--wisdom FILE").wisdom;
    if (!print_regrets(regrets(ops(), given->csv, wisdom, stale, measured), given->mean, given->worst))
      exit_code = 1;
  });
}

}  // namespace warptune
