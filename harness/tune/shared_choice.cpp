#include "harness/tune/shared_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "harness/core/lookup.h"
#include "harness/core/print.h"
#include "harness/core/text_table.h"
#include "harness/results/csv.h"

namespace warptune {
namespace {

/// What the problems of a family have in common.
std::string family_of(const ProblemTimes& times, const std::vector<std::string>& share) {
  Problem rest = times.problem;
  rest.dims = {};
  for (const auto& dim : times.problem.dims)
    if (!contains(share, dim.name)) rest.dims.set(dim.name, dim.value, dim.label, dim.omitted);
  return times.cache + " " + rest.key();
}

double best_of(const ProblemTimes& times) {
  double best = INFINITY;
  for (const auto& [config, us] : times.us) best = std::min(best, us);
  return best;
}

SharedChoice choice_of(const std::vector<const ProblemTimes*>& family) {
  SharedChoice choice;
  for (const auto& [config, first_us] : family.front()->us) {
    double logs = 0;
    const bool is_everywhere = std::ranges::all_of(family, [&](const ProblemTimes* times) {
      const auto found = times->us.find(config);
      if (found != times->us.end()) logs += std::log(found->second / best_of(*times));
      return found != times->us.end();
    });
    const double loss = std::exp(logs / static_cast<double>(family.size()));
    if (!is_everywhere || (!choice.variant.empty() && loss >= choice.loss)) continue;
    choice.loss = loss;
    std::tie(choice.variant, choice.config) = config;
  }
  for (const ProblemTimes* times : family) {
    const auto found = times->us.find({choice.variant, choice.config});
    choice.parts.push_back({times->problem, found == times->us.end() ? NAN : found->second, best_of(*times)});
  }
  return choice;
}

std::string number_or_nothing(double value) { return std::isnan(value) ? "" : fmt::format("{:.4f}", value); }

}  // namespace

std::vector<SharedChoice> shared_choices(const std::vector<ProblemTimes>& problems,
                                         const std::vector<std::string>& share) {
  std::vector<std::vector<const ProblemTimes*>> families;
  std::map<std::string, std::size_t> at;
  for (const ProblemTimes& times : problems) {
    const auto [family, is_new] = at.try_emplace(family_of(times, share), families.size());
    if (is_new) families.emplace_back();
    families[family->second].push_back(&times);
  }
  std::vector<SharedChoice> choices;
  for (const auto& family : families)
    if (family.size() > 1) choices.push_back(choice_of(family));
  return choices;
}

void report_shared_choices(std::FILE* log, const std::vector<ProblemTimes>& problems,
                           const std::vector<std::string>& share) {
  std::map<std::filesystem::path, std::vector<ProblemTimes>> by_device;
  for (const ProblemTimes& times : problems) by_device[times.csv].push_back(times);
  for (const auto& [sweep_csv, of_device] : by_device) {
    std::filesystem::path file = sweep_csv;
    file.replace_extension(".shared.csv");
    const std::filesystem::path next = file.string() + ".new";
    std::filesystem::remove(next);
    CsvFile csv(next, {"problem", "variant", "config", "time_us", "best_us", "loss", "mean_loss"});
    TextTable table({text_column("problem"), {"us"}, {"best us"}, {"loss %"}});
    for (const SharedChoice& choice : shared_choices(of_device, share)) {
      for (const SharedChoice::Part& part : choice.parts) {
        const bool is_last = &part == &choice.parts.back();
        const double loss = part.us / part.best_us;
        table.add({part.problem.key(), std::isnan(loss) ? "" : fmt::format("{:.2f}", part.us),
                   fmt::format("{:.2f}", part.best_us),
                   std::isnan(loss) ? "" : fmt::format("{:.1f}", 100 * (loss - 1))},
                  !is_last ? ""
                  : choice.variant.empty()
                      ? "no configuration was tried on each of these; an exhaustive sweep tries all"
                      : fmt::format("{} {}: {:.1f} % in the geometric mean", choice.variant, choice.config,
                                    100 * (choice.loss - 1)));
        csv.append({part.problem.key(), choice.variant, choice.config, number_or_nothing(part.us),
                    number_or_nothing(part.best_us), number_or_nothing(loss),
                    choice.variant.empty() ? "" : number_or_nothing(choice.loss)});
      }
    }
    std::filesystem::rename(next, file);
    if (table.empty()) continue;
    print(log, "\none configuration for each family ({})\n", file.string());
    print(log, table);
  }
}

}  // namespace warptune
