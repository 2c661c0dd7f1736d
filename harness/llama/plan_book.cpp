#include "llama/plan_book.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/brief.h"
#include "core/error.h"
#include "core/space.h"
#include "results/source_hash.h"
#include "table.h"

namespace warptune {
namespace {

/// Names of variants from good to plain, for devices without wisdom.
std::vector<std::string> preferences(const Problem& problem) {
  if (problem.op == "linear" && problem["tokens"] <= 8)
    return {"gemv_vectorized", "gemv_split_k", "cublaslt", "tiled", "host_threaded", "host_blocked"};
  return {"cublaslt",     "split_seq", "flash_mma",     "tiled",       "vectorized",
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

/// FNV-1a, 32 bits.
std::uint32_t hash_of(const std::string& text) {
  std::uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
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

void PlanBook::refuse(std::size_t index, const Problem& problem, const std::string& why) {
  refused_because_.try_emplace(index, fmt::format("{}: {}", problem.key(), why));
  tell(problem, "the override is not taken: " + why);
}

void PlanBook::tell(const Problem& problem, const std::string& what) {
  tell_once(fmt::format("{}: {}", problem.key(), what));
}

void PlanBook::tell_once(const std::string& what) {
  if (options_.tell && told_.insert(what).second) options_.tell(what);
}

Wisdom::Match PlanBook::match(const Problem& problem) const {
  if (!options_.has_wisdom || options_.naive) return {};
  const DeviceFacts& facts = device_.facts();
  const Provenance here{facts.name, facts.arch, facts.driver, facts.toolkit, {}};
  const Wisdom::Match found = options_.wisdom.find(problem, here);
  if (found.winner && found.exact) return found;
  const Wisdom::Match even_one = options_.wisdom.find(even(problem), here);
  if (even_one.winner) return even_one;
  if (found.winner) return found;
  // What is fast without features is a good start with them, where its constraints admit that.
  const Problem without = plain(even(problem));
  return without == problem ? found : Wisdom::Match{options_.wisdom.find(without, here).winner, false};
}

Judgement PlanBook::judged(const Winner& winner) const {
  const DeviceFacts& facts = device_.facts();
  std::string hash;
  if (const Variant* variant = find_variant(find_op(winner.problem.op), winner.variant)) {
    const auto [it, is_new] = hashes_.try_emplace(variant);
    if (is_new) it->second = source_hash(sources_, winner.problem.op, *variant);
    hash = it->second;
  }
  return judge(winner, {facts.name, facts.arch, facts.driver, facts.toolkit, {}}, hash, options_.stale);
}

std::optional<double> PlanBook::expected_us(const Problem& problem) const {
  const Winner* found = match(problem).winner;
  if (!found || judged(*found).use == Use::refused) return std::nullopt;
  const Variant* variant = find_variant(find_op(problem.op), found->variant);
  if (!variant || unfit(*variant, problem, found->config, device_.facts())) return std::nullopt;
  return found->time_us;
}

/// What to try, best first: a choice may turn out to need more than the device has.
std::vector<PlanBook::Choice> PlanBook::choices(const Problem& problem, bool quiet) {
  const OpEntry& entry = find_op(problem.op);
  const DeviceFacts& facts = device_.facts();
  std::vector<Choice> list;
  const auto add = [&](const Variant& variant, const Config& config, PlanSource source,
                       std::size_t index = 0) -> std::optional<std::string> {
    if (auto why = unfit(variant, problem, config, facts)) return why;
    list.push_back({&variant, config, source, index});
    return std::nullopt;
  };
  const auto add_middle = [&](const Variant& variant, PlanSource source,
                              std::size_t index = 0) -> std::optional<std::string> {
    if (!runs_on(variant, problem, facts.backend)) return elsewhere(variant);
    const auto configs = Space(variant, problem, facts).configs();
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
                         : add_middle(variant, PlanSource::overridden, i);
    if (why) refuse(i, problem, *why);
  }
  if (tuned && list.empty()) {
    const Variant* variant = find_variant(entry, tuned->variant);
    const Judgement judgement = variant ? judged(*tuned) : Judgement{};
    auto why =
        variant ? std::nullopt : std::optional(fmt::format("there is no variant '{}'", tuned->variant));
    if (judgement.use == Use::refused)
      why = fmt::format("{}", fmt::join(judgement.refusals, "; "));
    else if (variant)
      why = add(*variant, tuned->config, exact ? PlanSource::tuned : PlanSource::nearest);
    if (why) {
      tell(problem, "the wisdom is not taken: " + *why);
    } else {
      for (const std::string& warning : judgement.warnings) tell_once("the wisdom was " + warning);
      if (!exact && !quiet)
        tell(problem, "takes the winner of the nearest tuned problem, " + tuned->problem.key());
    }
  } else if (options_.has_wisdom && list.empty() && !quiet) {
    tell(problem, "the wisdom has nothing near; takes a default");
  }
  if (!options_.naive)
    for (const std::string& name : preferences(problem))
      if (const Variant* variant = find_variant(entry, name)) add_middle(*variant, PlanSource::fallback);
  for (const bool naive : {true, false})
    for (const Variant& variant : entry.variants)
      if (is_naive(variant.name) == naive) add_middle(variant, PlanSource::fallback);
  return list;
}

std::shared_ptr<const PlanEntry> PlanBook::get(const Problem& problem, bool quiet) {
  const std::string key = problem.key();
  if (auto found = entries_[key].lock()) return found;
  std::string why = "no variant runs on this device";
  for (const Choice& choice : choices(problem, quiet)) {
    auto entry = std::make_shared<PlanEntry>();
    entry->problem = problem;
    entry->variant = choice.variant->name;
    entry->config = choice.config;
    try {
      entry->plan = device_.prepare(*choice.variant, problem, choice.config);
      if (const auto bytes = static_cast<std::size_t>(entry->plan->workspace_bytes())) {
        entry->workspace = device_.allocate(bytes);
        device_.set_bytes(entry->workspace.data(), 0, bytes, device_.stream());
      }
    } catch (const ResourceError& e) {
      why = e.what();
      tell(problem, fmt::format("'{}' with {} is not taken: {}", entry->variant, entry->config.str(), why));
      if (choice.source == PlanSource::overridden)
        refused_because_.try_emplace(choice.override_index, fmt::format("{}: {}", key, why));
      continue;
    }
    if (choice.source == PlanSource::overridden) used_overrides_.insert(choice.override_index);
    if (!quiet) made_[key] = choice.source;
    entries_[key] = entry;
    return entry;
  }
  throw InputError(fmt::format("{}: {}", key, why));
}

std::size_t PlanBook::count(PlanSource source) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(made_, [&](const auto& made) { return made.second == source; }));
}

std::string PlanBook::plan_set() const {
  if (!options_.overrides.empty()) {
    std::string text = options_.naive ? "naive;" : "";
    for (const PlanOverride& o : options_.overrides)
      text += fmt::format("{}={}:{};", o.op, o.variant, o.config ? o.config->str() : "");
    return fmt::format("overrides-{:08x}", hash_of(text));
  }
  if (options_.naive) return "naive";
  const std::size_t tuned = count(PlanSource::tuned) + count(PlanSource::nearest);
  if (tuned == 0) return "default";
  return tuned == made_.size() ? "tuned" : fmt::format("tuned-{}-of-{}", tuned, made_.size());
}

std::string PlanBook::plan_sources() const {
  std::vector<std::string> parts;
  const auto add = [&](PlanSource source, const char* what) {
    if (const std::size_t n = count(source)) parts.push_back(fmt::format("{} {}", n, what));
  };
  add(PlanSource::overridden, "by override");
  add(PlanSource::tuned, "tuned");
  add(PlanSource::nearest, "by the nearest tuned problem");
  add(PlanSource::fallback, options_.naive ? "naive" : "by default");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<std::string> PlanBook::untuned() const {
  std::vector<std::string> keys;
  for (const auto& [key, source] : made_)
    if (source == PlanSource::fallback) keys.push_back(key);
  return keys;
}

void PlanBook::require_overrides() const {
  for (std::size_t i = 0; i < options_.overrides.size(); ++i) {
    if (used_overrides_.contains(i)) continue;
    const auto refused = refused_because_.find(i);
    throw InputError(
        fmt::format("--variant {} is never taken: {}", options_.overrides[i].str(),
                    refused != refused_because_.end()
                        ? refused->second
                        : fmt::format("no '{}' of this run is left to it", options_.overrides[i].op)));
  }
}

}  // namespace warptune
