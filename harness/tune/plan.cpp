#include "harness/tune/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/pattern.h"

namespace warptune {
namespace {

constexpr std::int64_t kMostExcluded = 1'000'000;   // of a variant, where each gets a row
constexpr std::size_t kMostCandidates = 2'000'000;  // of a sweep

bool takes(const Variant& variant, DType dtype) {
  return variant.dtypes.empty() || std::ranges::find(variant.dtypes, dtype) != variant.dtypes.end();
}

}  // namespace

std::vector<Config> spread(std::vector<Config> configs, int most) {
  const std::size_t count = configs.size(), want = static_cast<std::size_t>(most);
  if (most <= 0 || count <= want) return configs;
  std::vector<Config> chosen;
  for (std::size_t i = 0; i < want; ++i)
    chosen.push_back(configs[want == 1 ? 0 : i * (count - 1) / (want - 1)]);
  return chosen;
}

std::vector<PlannedProblem> plan_sweep(const Sweep& sweep, const DeviceFacts& facts,
                                       const std::string& filter) {
  const std::regex pattern = pattern_of(filter, "--filter");
  std::vector<PlannedProblem> planned;
  bool any_match = false;
  std::size_t total = 0;
  for (const SweepItem& item : sweep.items) {
    PlannedProblem problem{.item = &item, .counts = {}, .candidates = {}, .excluded = {}, .why_none = {}};
    bool fits = false;
    for (const VariantChoice& choice : item.choices) {
      const Variant& variant = *choice.variant;
      if (variant.backend != facts.backend || !takes(variant, item.problem.dtype)) continue;
      fits = true;
      if (!std::regex_search(item.entry->op.name + "/" + variant.name, pattern)) continue;
      any_match = true;
      const Space space(variant, item.problem, facts, choice.overrides, choice.constraints);
      const auto too_large = [&](std::string_view why) {
        return InputError(fmt::format("{}: variant '{}/{}' has {} configurations before constraints; {}",
                                      item.where, item.entry->op.name, variant.name, space.size(), why));
      };
      if (sweep.constraint_rows && space.size() > kMostExcluded)
        throw too_large(fmt::format("at most {} are possible with 'constraint_rows'", kMostExcluded));
      if (sweep.constraint_rows)
        for (std::int64_t i = 0; i < space.size(); ++i)
          if (const Config config = space.at(i); const auto broken = space.broken_constraint(config))
            problem.excluded.push_back({{&variant, config}, *broken});
      auto configs = [&] {
        try {
          return space.configs();
        } catch (const InputError& e) {
          throw too_large(e.what());
        }
      }();
      const auto after = static_cast<std::int64_t>(configs.size());
      if (after == 0 && space.size() > 0 && problem.why_none.empty())
        problem.why_none = fmt::format("{}: {}/{}: {}", item.where, item.problem.key(), variant.name,
                                       space.why_excluded(space.at(0)));
      configs = spread(std::move(configs), item.most);
      total += configs.size() + (sweep.constraint_rows ? static_cast<std::size_t>(space.size() - after) : 0);
      if (total > kMostCandidates)
        throw InputError(fmt::format("{}: more than {} configurations up to here; a sweep takes no more",
                                     item.where, kMostCandidates));
      problem.counts.push_back({&variant, space.size(), after, static_cast<std::int64_t>(configs.size())});
      for (Config& config : configs) problem.candidates.push_back({&variant, std::move(config)});
    }
    if (!fits && item.named)
      throw InputError(fmt::format("{}: none of the variants named for op '{}' runs on device '{}' in {}",
                                   item.where, item.entry->op.name, facts.name, name_of(item.problem.dtype)));
    if (!problem.counts.empty()) planned.push_back(std::move(problem));
  }
  if (!any_match && !filter.empty())
    throw InputError(fmt::format("--filter '{}' matches no op/variant of this sweep on device '{}'",
                                 brief(filter), facts.name));
  return planned;
}

}  // namespace warptune
