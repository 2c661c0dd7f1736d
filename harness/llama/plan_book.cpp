#include "harness/llama/plan_book.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/core/error.h"
#include "harness/core/hash.h"

namespace warptune {
namespace {

/// FNV-1a, 32 bits.
std::uint32_t fnv_of(const std::string& text) {
  std::uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

}  // namespace

std::shared_ptr<const PlanEntry> PlanBook::get(const Problem& problem, bool quiet) {
  const std::string key = problem.key();
  const StepPlan* of_step = chooser_.step() ? chooser_.step()->find(problem) : nullptr;
  const std::string name = of_step ? of_step->str() : key;
  if (auto found = entries_[name].lock()) {
    // A plan that two steps share counts as that of the one that is not tuned itself.
    if (const auto made = made_.find(key);
        of_step && chooser_.is_near_step() && made != made_.end() && made->second.source == PlanSource::step)
      made->second.source = PlanSource::near_step;
    return found;
  }
  std::string why = "no variant runs on this device";
  std::shared_ptr<PlanEntry> entry;
  const auto take = [&](const PlanChoice& choice) {
    entry = std::make_shared<PlanEntry>();
    entry->problem = problem;
    entry->variant = choice.variant->name;
    entry->config = choice.config;
    entry->range =
        NvtxName(NvtxKind::op, problem.op, [&] { return problem.key() + " " + choice.variant->name; });
    try {
      entry->plan = device_.prepare(*choice.variant, problem, choice.config);
      if (const auto bytes = static_cast<std::size_t>(entry->plan->workspace_bytes())) {
        entry->workspace = device_.allocate(bytes);
        device_.set_bytes(entry->workspace.data(), 0, bytes, device_.stream());
      }
    } catch (const ResourceError& e) {
      why = e.what();
      chooser_.tell(problem, fmt::format("{} is not used: {}", quoted(entry->variant, entry->config), why));
      if (choice.source == PlanSource::overridden)
        chooser_.refuse(choice.override_index, fmt::format("{}: {}", key, why));
      return false;
    }
    if (choice.source == PlanSource::overridden) used_overrides_.insert(choice.override_index);
    if (!quiet) made_[key] = {choice.source, problem.op, entry->variant + " " + entry->config.str()};
    return true;
  };
  if (!chooser_.choose(problem, quiet, take)) throw InputError("{}: {}", key, why);
  entries_[name] = entry;
  return entry;
}

std::optional<bool> PlanBook::step_option(std::string_view name) const {
  if (!chooser_.step()) return std::nullopt;
  const auto* option = chooser_.step()->options.find(name);
  return option && option->value != 0;  // a step that was recorded before there was the option is without it
}

std::size_t PlanBook::count(PlanSource source) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(made_, [&](const auto& made) { return made.second.source == source; }));
}

std::string PlanBook::plan_set() const {
  if (!chooser_.options().overrides.empty()) {
    std::string text = chooser_.options().naive ? "naive;" : "";
    for (const PlanOverride& o : chooser_.options().overrides)
      text += fmt::format("{}={}:{};", o.op, o.variant, o.config ? o.config->str() : "");
    return fmt::format("overrides-{:08x}", fnv_of(text));
  }
  if (chooser_.options().naive) return "naive";
  const std::size_t of_step = count(PlanSource::step), of_near_step = count(PlanSource::near_step),
                    exact = of_step + of_near_step + count(PlanSource::exact), other = made_.size() - exact;
  const char* const tuned = of_near_step > 0 ? "near_step" : of_step > 0 ? "step" : "tuned";
  if (other == 0) return exact > 0 ? tuned : "default";
  if (other == count(PlanSource::fallback) && exact == 0) return "default";
  std::vector<std::string> parts;
  if (exact > 0) parts.push_back(tuned);
  const auto add = [&](PlanSource source, const char* name) {
    if (const std::size_t n = count(source)) parts.push_back(fmt::format("{}{}", n, name));
  };
  add(PlanSource::nearest, "near");
  add(PlanSource::fallback, "default");
  return fmt::format("{}", fmt::join(parts, "+"));
}

std::string PlanBook::plan_sources() const {
  std::vector<std::string> parts;
  const auto add = [&](PlanSource source, const char* what) {
    if (const std::size_t n = count(source)) parts.push_back(fmt::format("{} {}", n, what));
  };
  add(PlanSource::overridden, "overrides");
  add(PlanSource::step, "tuned in the step");
  add(PlanSource::near_step, "of a near step");
  add(PlanSource::exact, "exact");
  add(PlanSource::nearest, "nearest");
  add(PlanSource::fallback, chooser_.options().naive ? "naive" : "default");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string PlanBook::plan_hash() const {
  std::string text;
  for (const auto& [key, made] : made_) text += key + ' ' + made.plan + '\n';
  return fmt::format("{:016x}", stable_hash(text));
}

std::vector<std::string> PlanBook::plans_of(const std::string& op) const {
  std::vector<std::string> plans;
  for (const auto& [key, made] : made_)
    if (made.op == op) plans.push_back(key + " " + made.plan);
  return plans;
}

std::vector<std::string> PlanBook::untuned() const {
  std::vector<std::string> keys;
  for (const auto& [key, made] : made_)
    if (made.source == PlanSource::fallback) keys.push_back(key);
  return keys;
}

void PlanBook::require_overrides() const {
  for (std::size_t i = 0; i < chooser_.options().overrides.size(); ++i) {
    if (used_overrides_.contains(i)) continue;
    const auto refused = chooser_.refused().find(i);
    throw InputError("--variant {} is never taken: {}", chooser_.options().overrides[i].str(),
                     refused != chooser_.refused().end() ? refused->second
                                                         : fmt::format("no '{}' of this run is left to it",
                                                                       chooser_.options().overrides[i].op));
  }
}

}  // namespace warptune
