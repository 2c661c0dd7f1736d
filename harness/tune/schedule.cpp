#include "harness/tune/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/core/pattern.h"
#include "harness/core/print.h"
#include "harness/core/text.h"
#include "harness/llama/memory_need.h"

namespace warptune {
namespace {

constexpr std::int64_t kMaxExcluded = 10'000'000;   // limit of a variant where each gets a row
constexpr std::size_t kMaxCandidates = 10'000'000;  // limit of a sweep

/// --filter: a regular expression over op/variant. With a '=' or "\[", which no op/variant has, it is one
/// over the keys of problems, too.
class Filter {
 public:
  explicit Filter(const std::string& text)
      : variants_(text, "--filter"),
        problems_(text, "--filter"),
        names_problems_(text.find('=') != std::string::npos || text.find("\\[") != std::string::npos) {}

  bool selects(const SweepItem& item, const Variant& variant) const {
    return variants_.is_in(item.entry->op.name + "/" + variant.name) ||
           (names_problems_ && problems_.is_in(&item.entry->op, item.problem.key()));
  }

 private:
  Pattern variants_;
  ProblemPattern problems_;
  bool names_problems_;
};

/// "FILE:LINE" of a constraint: its own, or the item's where the variant has it built in.
const std::string& place_of(const std::string& constraint, const VariantChoice& choice,
                            const SweepItem& item) {
  const auto it = std::ranges::find(choice.constraints, constraint, &Expression::text);
  const auto at = static_cast<std::size_t>(it - choice.constraints.begin());
  return at < choice.constraint_places.size() ? choice.constraint_places[at] : item.where;
}

/// The number of configurations of a variant before constraints.
double size_before_constraints(const VariantChoice& choice) {
  double size = 1;
  for (const Parameter& p : choice.variant->parameters) {
    const auto given = std::ranges::find(choice.overrides, p.name, &Override::parameter);
    size *= static_cast<double>(given != choice.overrides.end() ? given->values.size()
                                : p.in_step_only                ? 1
                                                                : p.values.size());
  }
  return size;
}

bool same_space(const VariantChoice& a, const VariantChoice& b) {
  return a.variant == b.variant && a.overrides == b.overrides &&
         std::ranges::equal(a.constraints, b.constraints, {}, &Expression::text, &Expression::text);
}

/// The spaces of a sweep. The problems of an item of the file share the compiled constraints.
class Spaces {
 public:
  explicit Spaces(const DeviceFacts& facts) : facts_(&facts) {}
  Space of(const VariantChoice& choice, const Problem& problem) {
    const auto [it, is_new] = last_.try_emplace(choice.variant);
    auto& [known, space] = it->second;
    if (is_new || !same_space(known, choice)) {
      known = choice;
      space.emplace(*choice.variant, problem, *facts_, choice.overrides, choice.constraints);
    }
    return space->of(problem);
  }

 private:
  const DeviceFacts* facts_;
  std::map<const Variant*, std::pair<VariantChoice, std::optional<Space>>> last_;
};

/// Which variants run on the device of a schedule. A kernel from a file is for GPUs, and runs on the host
/// where its file compiles there. sentences() names the ones that do not run.
class Runnable {
 public:
  Runnable(const DeviceFacts& facts, Spaces& spaces) : facts_(facts), spaces_(spaces) {}
  bool operator()(const SweepItem& item, const VariantChoice& choice) {
    const Variant& variant = *choice.variant;
    if (variant.runs(item.problem, facts_.backend)) return true;
    if (facts_.backend != Backend::host || !variant.why_not_on_host || !variant.takes(item.problem.dtype))
      return false;
    const auto [it, is_new] = why_not_.try_emplace({&variant, item.problem.dtype});
    if (is_new) try {
        if (const auto configs = spaces_.of(choice, item.problem).configs(); !configs.empty())
          it->second = {item.entry->op.name, variant.why_not_on_host(item.problem, configs.front())};
      } catch (const InputError&) {  // add_variant() tells of it
      }
    return it->second.why.empty();
  }
  /// "op/variant needs a GPU: ..." of each that does not run.
  std::vector<std::string> sentences() const {
    std::vector<std::string> list;
    for (const auto& [key, reason] : why_not_)
      if (!reason.why.empty())
        list.push_back(fmt::format("{}/{} in {} is not run, since it needs a GPU: {}", reason.op,
                                   key.first->name, name_of(key.second), reason.why));
    return list;
  }

 private:
  struct Reason {
    std::string op, why;
  };
  const DeviceFacts& facts_;
  Spaces& spaces_;
  std::map<std::pair<const Variant*, DType>, Reason> why_not_;
};

/// At most max_configs of the legal configurations: evenly spread ones, and the variant's default tile.
std::vector<std::int64_t> chosen_configs(const std::vector<std::int64_t>& legal, const SweepItem& item,
                                         const Variant& variant, const Space& space, const OpTable* ops,
                                         const DeviceFacts& facts) {
  auto chosen = spread(legal, item.max_configs);
  if (chosen.size() == legal.size() || !ops) return chosen;
  const auto tiles = ops->default_tiles(item.problem, facts, variant.name);
  const auto index = tiles.empty() ? std::nullopt : space.index_of(tiles.front().config);
  if (!index || !std::ranges::binary_search(legal, *index)) return chosen;
  const auto next = std::ranges::lower_bound(chosen, *index);
  *(next == chosen.end() ? next - 1 : next) = *index;
  return chosen;
}

/// Adds the configurations of a variant to a problem. Returns the largest number of their rows.
std::size_t add_variant(ScheduledProblem& problem, const VariantChoice& choice, Spaces& spaces,
                        const Sweep& sweep, const DeviceFacts& facts) {
  const bool constraint_rows = sweep.constraint_rows;
  const SweepItem& item = *problem.item;
  const Variant& variant = *choice.variant;
  const auto shared_space = std::make_shared<const Space>(spaces.of(choice, item.problem));
  const Space& space = *shared_space;
  const auto too_large = [&](std::string_view why) {
    return InputError("{}: variant '{}/{}' has {} configurations before constraints; {}", item.where,
                      item.entry->op.name, variant.name, space.size(), why);
  };
  if (constraint_rows && space.size() > kMaxExcluded)
    throw too_large(fmt::format("at most {} are possible with 'constraint_rows'", kMaxExcluded));
  if (constraint_rows)
    for (std::int64_t i = 0; i < space.size(); ++i)
      if (const auto broken = space.broken_constraint(space.at(i)))
        problem.excluded.push_back({{variant, shared_space, i}, *broken});
  auto configs = [&] {
    try {
      return space.legal();
    } catch (const NotANumber&) {
      throw;
    } catch (const InputError& e) {
      throw too_large(e.what());
    }
  }();
  const auto legal = static_cast<std::int64_t>(configs.size());
  if (legal == 0 && space.size() > 0 && problem.why_none.empty())
    problem.why_none = fmt::format("{}: {}/{}: {}", item.where, item.problem.key(), variant.name,
                                   space.why_excluded(space.at(0)));
  configs = chosen_configs(configs, item, variant, space, sweep.ops, facts);
  const std::size_t planned = configs.size();
  problem.counts.push_back({&variant, space.size(), legal, static_cast<std::int64_t>(planned)});
  problem.candidates.reserve(problem.candidates.size() + planned);
  for (const std::int64_t index : configs) problem.candidates.emplace_back(variant, shared_space, index);
  return planned + (constraint_rows ? static_cast<std::size_t>(space.size() - legal) : 0);
}

/// Whether a model may do without this problem: it has the same GEMM without what is fused.
bool is_fused_in_model(const SweepItem& item) {
  const Assignment& dims = item.problem.dims;
  return item.share > 0 && (dims.get("prologue", 0) != 0 || dims.get("epilogue", 0) != 0);
}

}  // namespace

Schedule make_schedule(const Sweep& sweep, const DeviceFacts& facts, const std::string& filter) {
  const Filter pattern(filter);
  Schedule schedule;
  Spaces spaces(facts);
  Runnable runs(facts, spaces);
  const auto matches = [&](const SweepItem& item, const Variant& variant) {
    return pattern.selects(item, variant);
  };
  bool any_match = false;
  std::size_t total = 0;
  for (const SweepItem& item : sweep.items) {
    ScheduledProblem problem{.item = &item, .counts = {}, .candidates = {}, .excluded = {}, .why_none = {}};
    bool fits = false;
    for (const VariantChoice& choice : item.choices) {
      const Variant& variant = *choice.variant;
      const bool is_wanted = matches(item, variant);
      if (!is_wanted || !runs(item, choice)) {
        fits |= !is_wanted;
        continue;
      }
      fits = true;
      any_match = true;
      try {
        total += add_variant(problem, choice, spaces, sweep, facts);
      } catch (const NotANumber& e) {
        throw InputError("{}: variant '{}/{}': {}", place_of(e.constraint, choice, item), item.entry->op.name,
                         variant.name, e.what());
      }
      if (total > kMaxCandidates) {
        double all = 0;
        for (const SweepItem& other : sweep.items)
          for (const VariantChoice& c : other.choices)
            if (matches(other, *c.variant) && runs(other, c)) all += size_before_constraints(c);
        throw InputError(
            "{}: more than {} configurations up to here, of {:.16g} before constraints; a "
            "sweep takes no more",
            item.where, kMaxCandidates, all);
      }
    }
    if (!fits && item.named)
      throw InputError("{}: none of the variants named for op '{}' runs on device '{}' in {}{}", item.where,
                       item.entry->op.name, facts.name, name_of(item.problem.dtype),
                       runs.sentences().empty() ? "" : "; " + runs.sentences().front());
    const bool is_optional = is_fused_in_model(item) && problem.candidates.empty();
    if (!problem.counts.empty() && !is_optional) schedule.push_back(std::move(problem));
  }
  if (!any_match && !filter.empty())
    throw InputError("--filter '{}' matches no op/variant and no problem of this sweep on device '{}'",
                     brief(filter), facts.name);
  for (const std::string& sentence : runs.sentences()) print_note(sentence);
  return schedule;
}

InputError no_configuration(const Sweep& sweep, const Schedule& schedule, const DeviceFacts& facts) {
  const auto excluded =
      std::ranges::find_if(schedule, [](const ScheduledProblem& p) { return !p.why_none.empty(); });
  return InputError("sweep '{}' has no configuration for device '{}'{}", sweep.name, facts.name,
                    excluded == schedule.end() ? "" : "; " + excluded->why_none);
}

Shard parse_shard(const std::string& text) {
  const std::vector<std::string> parts = split(text, '/');
  const Shard shard{.index = parse_number<int>(parts.front()).value_or(0),
                    .count = parse_number<int>(parts.back()).value_or(0)};
  if (parts.size() != 2 || shard.index < 1 || shard.index > shard.count)
    throw InputError("--shard '{}' must be I/N with I from 1 to N, for example 1/4", brief(text));
  return shard;
}

Schedule keep_shard(Schedule schedule, Shard shard) {
  if (shard.count == 1) return schedule;
  Schedule kept;
  for (ScheduledProblem& p : schedule) {
    const std::string problem = fmt::format("{} {} ", p.item->problem.key(), name_of(p.item->options.cache));
    const auto elsewhere = [&](const Candidate& c) {
      const auto hash = stable_hash(problem + c.variant->name + ' ' + c.config().str());
      return hash % static_cast<std::uint64_t>(shard.count) != static_cast<std::uint64_t>(shard.index - 1);
    };
    std::erase_if(p.candidates, elsewhere);
    std::erase_if(p.excluded, [&](const Excluded& e) { return elsewhere(e.candidate); });
    for (SpaceCount& count : p.counts)
      count.planned = std::ranges::count(p.candidates, count.variant, &Candidate::variant);
    if (!p.candidates.empty() || !p.excluded.empty()) kept.push_back(std::move(p));
  }
  return kept;
}

void sort_by_share(Schedule& schedule) {
  std::ranges::stable_sort(schedule, std::greater<>(),
                           [](const ScheduledProblem& p) { return p.item->share; });
}

std::vector<std::string> leave_out_too_large(Schedule& schedule, const DeviceFacts& facts) {
  std::vector<std::string> sentences;
  std::erase_if(schedule, [&](const ScheduledProblem& p) {
    double bytes = 0;
    for (const TensorSpec& spec : p.item->entry->op.tensors(p.item->problem, p.item->options.seed))
      bytes += static_cast<double>(spec.bytes());
    const std::string lack = lack_of_memory(p.item->problem.key(), bytes, facts);
    if (!lack.empty()) sentences.push_back(lack);
    return !lack.empty();
  });
  return sentences;
}

std::vector<Schedule> distribute(Schedule schedule, int devices) {
  const auto count = static_cast<std::size_t>(devices);
  std::vector<std::size_t> order(schedule.size()), work(count, 0), owner(schedule.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t i) { return schedule[i].candidates.size(); });
  for (const std::size_t i : order) {
    const auto least = static_cast<std::size_t>(std::ranges::min_element(work) - work.begin());
    owner[i] = least;
    work[least] += std::max<std::size_t>(schedule[i].candidates.size(), 1);
  }
  std::vector<Schedule> parts(count);
  for (std::size_t i = 0; i < schedule.size(); ++i) parts[owner[i]].push_back(std::move(schedule[i]));
  return parts;
}

}  // namespace warptune
