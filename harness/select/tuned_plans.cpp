#include "harness/select/tuned_plans.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/core/space.h"
#include "harness/results/source_hash.h"

namespace warptune {
namespace {

/// The problem with the default of every dim that only changes the data of a launch.
Problem with_default_data(const Op& op, Problem problem) {
  for (const Dim& dim : op.dims)
    if (dim.role == DimRole::data && dim.fallback && problem.dims.has(dim.name))
      problem.dims.set(dim.name, *dim.fallback, label_at(dim.labels, *dim.fallback));
  return problem;
}

/// The problem without its features.
Problem without_features(const Op& op, const Problem& problem) {
  Assignment dims;
  for (const auto& entry : problem.dims.written())
    if (!op.find_dim(entry.name)->optional) dims.set(entry.name, entry.value);
  return op.problem(dims, problem.dtype);
}

/// The problem with the defaults of the dims that its key omits; empty if the op's dims have changed.
std::optional<Problem> with_defaults(const Op& op, const Problem& problem) {
  Assignment dims;
  for (const auto& dim : problem.dims.written()) dims.set(dim.name, dim.value, dim.label);
  try {
    return op.problem(dims, problem.dtype);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

/// The sum over dims of |log2(a / b)|; kOther for another label, and where one value is 0 or absent.
double distance(const Op& op, const Problem& a, const Problem& b) {
  constexpr double kOther = 2;
  double sum = 0;
  for (const Dim& dim : op.dims) {
    const auto value = [&](const Problem& p) {
      return p.dims.has(dim.name) ? p[dim.name] : dim.fallback.value_or(0);
    };
    const std::int64_t x = value(a), y = value(b);
    if (x == y) continue;
    const bool is_size = dim.labels.empty() && x > 0 && y > 0;
    sum += is_size ? std::abs(std::log2(static_cast<double>(x) / static_cast<double>(y))) : kOther;
  }
  return sum;
}

}  // namespace

std::optional<Config> config_of(const Variant& variant, const VariantTimes& times,
                                const VariantTimes::Row& row) {
  if (times.parameters.size() != variant.parameters.size()) return std::nullopt;
  Config config;
  for (std::size_t i = 0; i < times.parameters.size(); ++i) {
    const Parameter& p = variant.parameters[i];
    if (p.name != times.parameters[i]) return std::nullopt;
    config.set(p.name, row.values[i], label_at(p.labels, row.values[i]));
  }
  return config;
}

std::optional<std::string> why_not_here(const Variant& variant, const Problem& problem,
                                        const DeviceFacts& facts) {
  if (variant.runs(problem, facts.backend)) return std::nullopt;
  if (facts.backend == Backend::host && variant.why_not_on_host && variant.takes(problem.dtype))
    return std::nullopt;  // a kernel from a file: its configuration decides
  return fmt::format("'{}' does not run on this device or with this dtype", variant.name);
}

bool may_win(const Variant& variant, const DeviceFacts& facts) {
  return !facts.is_rehearsal() || !calls_library(variant);
}

std::optional<std::string> why_unfit(const Variant& variant, const Problem& problem, const Config& config,
                                     const DeviceFacts& facts) {
  if (auto why = why_not_here(variant, problem, facts)) return why;
  for (const Parameter& p : variant.parameters)
    if (!p.in_step_only && !config.has(p.name))
      return fmt::format("'{}' now has a parameter '{}'", variant.name, p.name);
  if (const auto why = Space(variant, problem, facts).why_illegal(config))
    return fmt::format("{} {}", quoted(variant.name, config), *why);
  if (facts.backend == Backend::host && variant.why_not_on_host)
    if (const std::string why = variant.why_not_on_host(problem, config); !why.empty())
      return fmt::format("'{}' needs a GPU: {}", variant.name, why);
  return std::nullopt;
}

std::optional<Config> default_config(const OpTable& ops, const DeviceFacts& facts, const Variant& variant,
                                     const Problem& problem, std::string& why) {
  if (const auto not_here = why_not_here(variant, problem, facts)) {
    why = *not_here;
    return std::nullopt;
  }
  if (const auto tiles = ops.default_tiles(problem, facts, variant.name); !tiles.empty())
    return tiles.front().config;
  const auto configs = Space(variant, problem, facts).configs();
  if (!configs.empty()) return configs[configs.size() / 2];
  why = fmt::format("'{}' has no configuration for it", variant.name);
  return std::nullopt;
}

WinnerLookup::Match TunedPlans::match(const Problem& problem, const Problem* left_out) const {
  if (!knows()) return {};
  const Op& op = ops_.find(problem.op).op;
  const WinnerLookup::Match found = lookup_.find(problem, here(), left_out);
  if (found.winner && found.exact) return found;
  const Problem same_plan = with_default_data(op, problem);
  const WinnerLookup::Match same = lookup_.find(same_plan, here(), left_out);
  if (same.winner) return same;
  if (found.winner) return found;
  const Problem featureless = without_features(op, same_plan);
  if (featureless == problem) return found;
  return {lookup_.find(featureless, here(), left_out).winner, false};
}

const std::string& TunedPlans::source_hash_of(const OpEntry& op, const Variant& variant) const {
  const auto [it, is_new] = source_hashes_.try_emplace(&variant);
  if (is_new) it->second = source_hash(compiler_, op, variant);
  return it->second;
}

/// Whether a variant still compiles to the machine code of the wisdom; checks a sample of its winners.
bool TunedPlans::is_same_machine_code(const OpEntry& op, const Variant& variant) const {
  constexpr std::size_t kSamples = 3;
  const auto [it, is_new] = same_machine_code_.try_emplace(&variant, false);
  if (!is_new) return it->second;
  std::vector<const Winner*> winners;
  for (const Winner& w : options_.wisdom.winners())
    if (w.problem.op == op.op.name && w.variant == variant.name && w.made_on.arch == facts_.arch &&
        !w.code_hash.empty())
      winners.push_back(&w);
  const std::size_t samples = std::min(kSamples, winners.size());
  bool same = samples > 0;
  for (std::size_t i = 0; same && i < samples; ++i) {
    const Winner& w = *winners[i * winners.size() / samples];
    same = is_same_code(w, here(), code_now(compiler_, op, w));
  }
  return it->second = same;
}

/// Applies the rules of judge() to the times of any variant.
bool TunedPlans::hold(const Winner& winner, const std::string& variant_name, const std::string& hash) const {
  if (winner.made_on.arch != facts_.arch || winner.cache != CacheMode::cold) return false;
  const OpEntry& op = ops_.find(winner.problem.op);
  const Variant* variant = op.find_variant(variant_name);
  return variant && (options_.stale == StaleCode::use || hash == source_hash_of(op, *variant) ||
                     is_same_machine_code(op, *variant));
}

Judgement TunedPlans::judged(const Winner& winner) const {
  const OpEntry& op = ops_.find(winner.problem.op);
  CodeNow now{.code_hash = [&] { return code_hash(compiler_, op, winner); },
              .impossible_us = impossible_us(op, winner, facts_)};
  if (const Variant* variant = op.find_variant(winner.variant))
    now.source_hash = source_hash_of(op, *variant);
  return judge(winner, here(), now, options_.stale);
}

const StepWinner* TunedPlans::step(const Problem& step, std::string& why) const {
  if (!knows()) return nullptr;
  const StepWinner* found = options_.wisdom.nearest_step(step, facts_.arch, facts_.name);
  if (!found) return nullptr;
  for (const StepPlan& plan : found->plans.plans) {
    const OpEntry* op = ops_.find_if_known(plan.problem.op);
    const Variant* variant = op ? op->find_variant(plan.variant) : nullptr;
    const auto problem = op ? with_defaults(op->op, plan.problem) : std::nullopt;
    if (!variant || !problem) {
      why = fmt::format("this program has no '{}' of {}", plan.variant, plan.problem.key());
    } else if (const Judgement judgement = judged(as_winner(*found, plan)); judgement.use == Use::refused) {
      why = fmt::format("{}: {}", plan.problem.key(), fmt::join(judgement.refusals, "; "));
    } else if (const auto unfit = why_unfit(*variant, *problem, plan.config, facts_)) {
      why = fmt::format("{}: {}", plan.problem.key(), *unfit);
    }
    if (why.empty()) continue;
    why = fmt::format("the plans that were tuned in {} are not used: {}",
                      found->step == step ? "the step" : found->step.key(), why);
    return nullptr;
  }
  return found;
}

std::vector<TiedConfig> TunedPlans::recorded(const Winner& winner) const {
  const OpEntry& op = ops_.find(winner.problem.op);
  std::vector<TiedConfig> all = winner.tied;
  for (const VariantTimes& times : winner.times) {
    const Variant* variant = op.find_variant(times.variant);
    if (!variant || !hold(winner, times.variant, times.source_hash)) continue;
    for (const VariantTimes::Row& row : times.rows)
      if (auto config = config_of(*variant, times, row))
        all.push_back({times.variant, *std::move(config), row.time_us});
  }
  std::ranges::stable_sort(all, {}, &TiedConfig::time_us);
  if (hold(winner, winner.variant, winner.source_hash))
    all.insert(all.begin(), {winner.variant, winner.config, winner.time_us});
  return all;
}

std::vector<std::pair<const Variant*, Config>> TunedPlans::fastest(const Problem& problem,
                                                                   std::size_t count) const {
  const Winner* winner = match(problem).winner;
  if (!winner || judged(*winner).use == Use::refused) return {};
  const OpEntry& op = ops_.find(problem.op);
  std::vector<std::pair<const Variant*, Config>> fastest;
  for (const TiedConfig& one : recorded(*winner)) {
    const Variant* variant = op.find_variant(one.variant);
    if (fastest.size() == count) break;
    if (!variant || why_unfit(*variant, problem, one.config, facts_)) continue;
    if (std::pair candidate(variant, one.config); !contains(fastest, candidate))
      fastest.push_back(std::move(candidate));
  }
  return fastest;
}

std::vector<std::pair<const Variant*, Config>> TunedPlans::likely(const Problem& problem) const {
  constexpr std::size_t kNeighbors = 8, kCompiled = 8, kAll = 12;
  const OpEntry& op = ops_.find(problem.op);
  std::vector<std::pair<const Variant*, Config>> chosen;
  std::size_t compiled = 0;
  const auto add = [&](const Variant& variant, const Config& config) {
    const std::pair candidate(&variant, config);
    const bool compiles = has_machine_code(variant);
    if (chosen.size() == kAll || (compiles && compiled == kCompiled) || contains(chosen, candidate) ||
        why_unfit(variant, problem, config, facts_))
      return;
    chosen.push_back(candidate);
    compiled += compiles;
  };
  const auto tiles = ops_.default_tiles(problem, facts_);
  if (!tiles.empty()) add(*tiles.front().variant, tiles.front().config);
  std::string why;
  for (const Variant& variant : op.variants)
    if (tiles.empty() && !is_naive(variant.name))
      if (const auto config = default_config(ops_, facts_, variant, problem, why)) add(variant, *config);

  std::vector<std::pair<double, const Winner*>> near;
  if (knows())
    for (const Winner& winner : options_.wisdom.winners())
      if (winner.problem.op == problem.op && winner.problem.dtype == problem.dtype &&
          winner.made_on.arch == facts_.arch && winner.cache == CacheMode::cold)
        near.emplace_back(distance(op.op, winner.problem, problem), &winner);
  std::ranges::stable_sort(near, {}, &std::pair<double, const Winner*>::first);
  std::vector<std::vector<TiedConfig>> lists;
  for (const auto& [doublings, winner] : near)
    if (auto list = recorded(*winner); !list.empty() && lists.size() < kNeighbors)
      lists.push_back(std::move(list));
    else if (lists.size() == kNeighbors)
      break;
  bool any = true;
  for (std::size_t rank = 0; any && chosen.size() < kAll; ++rank) {
    any = false;
    for (const auto& list : lists) {
      if (rank >= list.size()) continue;
      any = true;
      if (const Variant* variant = op.find_variant(list[rank].variant)) add(*variant, list[rank].config);
    }
  }
  for (const DefaultTile& tile : tiles) add(*tile.variant, tile.config);
  return chosen;
}

std::optional<double> TunedPlans::time_of(const Winner* winner, const Problem& problem) const {
  const Variant* variant = winner ? ops_.find(problem.op).find_variant(winner->variant) : nullptr;
  if (!variant || judged(*winner).use == Use::refused || why_unfit(*variant, problem, winner->config, facts_))
    return std::nullopt;
  return winner->time_us;
}

std::optional<double> TunedPlans::tuned_us(const Problem& problem) const {
  const auto [winner, exact] = match(problem);
  return exact ? time_of(winner, problem) : std::nullopt;
}

std::optional<double> TunedPlans::expected_us(const Problem& problem) const {
  if (const auto us = tuned_us(problem)) return us;
  const auto [winner, exact] = match(problem);
  return exact ? std::nullopt : time_of(winner, problem);
}

}  // namespace warptune
