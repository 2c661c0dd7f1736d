#include "harness/llama/plan_chooser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/space.h"
#include "harness/results/source_hash.h"
#include "variants/table.h"
#include "variants/tile_table.h"

namespace warptune {
namespace {

/// Names of variants from good to plain, for devices without wisdom where the tile table has no row.
std::vector<std::string> preferences(const Problem& problem) {
  if (problem.op == "linear" && problem["tokens"] <= 8)
    return {"gemv_vectorized", "gemv_split_k", "cublaslt", "tiled", "host_threaded", "host_blocked"};
  return {"split_seq",    "flash_mma", "cublaslt",      "tiled",       "vectorized",
          "warp_per_row", "scan",      "host_threaded", "host_blocked"};
}

bool runs_on(const Variant& variant, const Problem& problem, Backend backend) {
  return variant.backend == backend &&
         (variant.dtypes.empty() || std::ranges::find(variant.dtypes, problem.dtype) != variant.dtypes.end());
}

/// Uneven lengths change what a plan meets, not how it is built: they share the wisdom of even ones.
Problem even(Problem problem) {
  if (problem.dims.has("uneven")) problem.dims.set("uneven", 0, "no");
  return problem;
}

/// The problem without its features: what a key says only where it is not the fallback.
Problem plain(const Problem& problem) {
  const Op& op = find_op(problem.op).op;
  Assignment dims;
  for (const auto& entry : problem.dims.said())
    if (!op.find_dim(entry.name)->optional) dims.set(entry.name, entry.value);
  return op.problem(dims, problem.dtype);
}

std::string elsewhere(const Variant& variant) {
  return fmt::format("'{}' does not run on this device or with this dtype", variant.name);
}

/// Why the variant cannot solve the problem with this configuration, if it cannot.
std::optional<std::string> unfit(const Variant& variant, const Problem& problem, const Config& config,
                                 const DeviceFacts& facts) {
  if (!runs_on(variant, problem, facts.backend)) return elsewhere(variant);
  for (const Parameter& p : variant.parameters)
    if (!config.has(p.name)) return fmt::format("'{}' now has a parameter '{}'", variant.name, p.name);
  if (auto broken = Space(variant, problem, facts).broken_constraint(config))
    return fmt::format("'{}' with {} breaks {}", variant.name, config.str(), *broken);
  return std::nullopt;
}

const Variant* find_variant(const OpEntry& entry, const std::string& name) {
  const auto it = std::ranges::find(entry.variants, name, &Variant::name);
  return it == entry.variants.end() ? nullptr : &*it;
}

}  // namespace

PlanOverride parse_plan_override(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw InputError(
        fmt::format("'{}' is not of the form op=variant or op=variant:name=value,..", brief(text)));
  const auto colon = text.find(':', equals);
  PlanOverride parsed{.op = text.substr(0, equals), .variant = text.substr(equals + 1, colon - equals - 1)};
  const Variant& variant = find_op(parsed.op).variant(parsed.variant);
  if (colon != std::string::npos) parsed.config = parse_config(variant, text.substr(colon + 1));
  return parsed;
}

std::string PlanOverride::str() const {
  const std::string name = fmt::format("{}={}", op, variant);
  return config ? fmt::format("{}:{}", name, config->str()) : name;
}

void PlanChooser::refuse(std::size_t override_index, const std::string& why) {
  refused_because_.try_emplace(override_index, why);
}

void PlanChooser::tell(const Problem& problem, const std::string& what) {
  tell_once(fmt::format("{}: {}", problem.key(), what));
}

void PlanChooser::tell_once(const std::string& what) {
  if (options_.tell && told_.insert(what).second) options_.tell(what);
}

Wisdom::Match PlanChooser::match(const Problem& problem) const {
  if (!options_.has_wisdom || options_.naive) return {};
  const Provenance here{facts_.name, facts_.arch, facts_.driver, facts_.toolkit, {}};
  const Problem* left_out = options_.untuned ? &problem : nullptr;
  const Wisdom::Match found = options_.wisdom.find(problem, here, left_out);
  if (found.winner && found.exact) return found;
  const Wisdom::Match even_one = options_.wisdom.find(even(problem), here, left_out);
  if (even_one.winner) return even_one;
  if (found.winner) return found;
  // What is fast without features is a good start with them, where its constraints admit that.
  const Problem without = plain(even(problem));
  return without == problem ? found
                            : Wisdom::Match{options_.wisdom.find(without, here, left_out).winner, false};
}

const std::string& PlanChooser::hash_of(const std::string& op, const Variant& variant) const {
  const auto [it, is_new] = hashes_.try_emplace(&variant);
  if (is_new) it->second = source_hash(compiler_, op, variant);
  return it->second;
}

/// Whether the machine code of a variant is what the wisdom was made with, judged by a few of its winners.
bool PlanChooser::is_unchanged(const std::string& op, const Variant& variant) const {
  constexpr std::size_t kSamples = 3;
  const auto [it, is_new] = unchanged_.try_emplace(&variant, false);
  if (!is_new) return it->second;
  std::vector<const Winner*> winners;
  for (const Winner& w : options_.wisdom.winners())
    if (w.problem.op == op && w.variant == variant.name && w.made_on.arch == facts_.arch &&
        !w.code_hash.empty())
      winners.push_back(&w);
  const Provenance here{facts_.name, facts_.arch, facts_.driver, facts_.toolkit, {}};
  const std::size_t samples = std::min(kSamples, winners.size());
  bool same = samples > 0;
  for (std::size_t i = 0; same && i < samples; ++i) {
    const Winner& w = *winners[i * winners.size() / samples];
    same = is_same_code(w, here, code_now(compiler_, w));
  }
  return it->second = same;
}

/// The rules of judge(), for times of other variants than the winner's.
bool PlanChooser::holds(const Winner& winner, const VariantTimes& times) const {
  if (winner.made_on.arch != facts_.arch || winner.cache != CacheMode::cold) return false;
  const std::string& op = winner.problem.op;
  const Variant& variant = find_op(op).variant(times.variant);
  return options_.stale == StaleCode::use || times.source_hash == hash_of(op, variant) ||
         is_unchanged(op, variant);
}

std::optional<PredictedConfig> PlanChooser::predicted(const Problem& problem) const {
  if (!options_.has_wisdom || options_.naive) return std::nullopt;
  const auto holds_here = [this](const Winner& w, const VariantTimes& t) { return holds(w, t); };
  const auto [it, is_new] = predictors_.try_emplace({problem.op, problem.dtype}, options_.wisdom, problem.op,
                                                    problem.dtype, facts_, holds_here);
  return it->second.at(problem);
}

Judgement PlanChooser::judged(const Winner& winner) const {
  CodeNow now{.code_hash = [&] { return code_hash(compiler_, winner); }};
  if (const Variant* variant = find_variant(find_op(winner.problem.op), winner.variant))
    now.source_hash = hash_of(winner.problem.op, *variant);
  return judge(winner, {facts_.name, facts_.arch, facts_.driver, facts_.toolkit, {}}, now, options_.stale);
}

std::optional<double> PlanChooser::time_of(const Winner* winner, const Problem& problem) const {
  const Variant* variant = winner ? find_variant(find_op(problem.op), winner->variant) : nullptr;
  if (!variant || judged(*winner).use == Use::refused || unfit(*variant, problem, winner->config, facts_))
    return std::nullopt;
  return winner->time_us;
}

std::optional<double> PlanChooser::tuned_us(const Problem& problem) const {
  const auto [found, exact] = match(problem);
  return exact ? time_of(found, problem) : std::nullopt;
}

std::optional<double> PlanChooser::expected_us(const Problem& problem) const {
  if (const auto us = tuned_us(problem)) return us;
  if (const auto guess = predicted(problem)) return guess->time_us;
  const auto [found, exact] = match(problem);
  return exact ? std::nullopt : time_of(found, problem);
}

bool PlanChooser::prefers(const Problem& whole, std::span<const Problem> parts) const {
  using Time = std::optional<double> (PlanChooser::*)(const Problem&) const;
  const auto sum = [&](Time time) {
    std::optional<double> us = 0;
    for (const Problem& part : parts) {
      const auto of_part = (this->*time)(part);
      us = us && of_part ? std::optional(*us + *of_part) : std::nullopt;
    }
    return us;
  };
  const auto tuned = tuned_us(whole), tuned_parts = sum(&PlanChooser::tuned_us);
  if (tuned || tuned_parts) return tuned && (!tuned_parts || *tuned < *tuned_parts);
  const auto expected = expected_us(whole), expected_parts = sum(&PlanChooser::expected_us);
  return expected && (!expected_parts || *expected < *expected_parts);
}

bool PlanChooser::choose(const Problem& problem, bool quiet,
                         const std::function<bool(const PlanChoice&)>& take) {
  const OpEntry& entry = find_op(problem.op);
  std::vector<PlanChoice> list;
  const auto add = [&](const Variant& variant, const Config& config, PlanSource source,
                       std::size_t index = 0) -> std::optional<std::string> {
    if (auto why = unfit(variant, problem, config, facts_)) return why;
    list.push_back({&variant, config, source, index});
    return std::nullopt;
  };
  const auto add_default = [&](const Variant& variant, PlanSource source,
                               std::size_t index = 0) -> std::optional<std::string> {
    if (!runs_on(variant, problem, facts_.backend)) return elsewhere(variant);
    if (const auto tiles = default_tiles(problem, facts_, variant.name); !tiles.empty()) {
      list.push_back({&variant, tiles.front().config, source, index});
      return std::nullopt;
    }
    const auto configs = Space(variant, problem, facts_).configs();
    if (configs.empty()) return fmt::format("'{}' has no configuration for it", variant.name);
    list.push_back({&variant, configs[configs.size() / 2], source, index});
    return std::nullopt;
  };

  const auto [tuned, exact] = match(problem);
  for (std::size_t i = 0; i < options_.overrides.size(); ++i) {
    const PlanOverride& o = options_.overrides[i];
    if (o.op != problem.op) continue;
    const Variant& variant = entry.variant(o.variant);
    const bool tuned_one = tuned && tuned->variant == o.variant && judged(*tuned).use != Use::refused;
    const auto why = o.config || tuned_one
                         ? add(variant, o.config ? *o.config : tuned->config, PlanSource::overridden, i)
                         : add_default(variant, PlanSource::overridden, i);
    if (why) {
      refuse(i, fmt::format("{}: {}", problem.key(), *why));
      tell(problem, "the override is not taken: " + *why);
    }
  }
  const auto take_winner = [&] {
    const Variant* variant = find_variant(entry, tuned->variant);
    const Judgement judgement = variant ? judged(*tuned) : Judgement{};
    auto why =
        variant ? std::nullopt : std::optional(fmt::format("there is no variant '{}'", tuned->variant));
    if (judgement.use == Use::refused)
      why = fmt::format("{}", fmt::join(judgement.refusals, "; "));
    else if (variant)
      why = add(*variant, tuned->config, exact ? PlanSource::tuned : PlanSource::nearest);
    if (why) return tell(problem, "the wisdom is not taken: " + *why);
    for (const std::string& warning : judgement.warnings) tell_once("the wisdom was " + warning);
    if (!exact && !quiet)
      tell(problem, "takes the winner of the nearest tuned problem, " + tuned->problem.key());
  };
  if (list.empty() && exact) take_winner();
  if (list.empty())
    if (const auto guess = predicted(problem)) {
      list.push_back({guess->variant, guess->config, PlanSource::predicted});
      if (!quiet)
        tell(problem, fmt::format("takes '{}' with {}, the fastest by the times of tuned problems",
                                  guess->variant->name, guess->config.str()));
    }
  if (list.empty() && tuned && !exact) take_winner();
  if (list.empty() && !tuned && options_.has_wisdom && !quiet)
    tell(problem, "the wisdom has nothing near; takes a default");
  if (std::ranges::any_of(list, take)) return true;
  const auto takes_default = [&](const Variant& variant) {
    list.clear();
    return !add_default(variant, PlanSource::fallback) && take(list.front());
  };
  const auto takes_tile = [&](const DefaultTile& tile) {
    if (!take({tile.variant, tile.config, PlanSource::fallback})) return false;
    if (!quiet)
      tell(problem, fmt::format("takes the default '{}' with {} ({})", tile.variant->name, tile.config.str(),
                                tile.origin()));
    return true;
  };
  if (!options_.naive) {
    if (std::ranges::any_of(default_tiles(problem, facts_), takes_tile)) return true;
    for (const std::string& name : preferences(problem))
      if (const Variant* variant = find_variant(entry, name); variant && takes_default(*variant)) return true;
  }
  for (const bool naive : {true, false})
    for (const Variant& variant : entry.variants)
      if (is_naive(variant.name) == naive && takes_default(variant)) return true;
  return false;
}

}  // namespace warptune
