#pragma once
// Chooses how each problem runs: an override, the wisdom, the nearest wisdom, or a default; and makes its
// plan and workspace once.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "device/compile.h"
#include "device/device.h"
#include "results/staleness.h"
#include "results/wisdom.h"

namespace warptune {

/// "op=variant" or "op=variant:block=256,vec=8".
struct PlanOverride {
  std::string op, variant;
  std::optional<Config> config = {};
  /// As it was given.
  std::string str() const;
};
/// Throws InputError for an unknown op, variant or parameter.
PlanOverride parse_plan_override(const std::string& text);

/// Where a plan comes from. `nearest`: from the winner of the nearest tuned problem.
enum class PlanSource { overridden, tuned, nearest, fallback };

/// A plan with the memory it works in. Launches of one entry must follow each other on one stream.
struct PlanEntry {
  Problem problem;
  std::string variant;
  Config config;
  std::unique_ptr<Plan> plan;
  Buffer workspace;
};

class PlanBook {
 public:
  struct Options {
    Wisdom wisdom = {};
    bool has_wisdom = false;
    StaleSources stale = StaleSources::refuse;
    std::vector<PlanOverride> overrides = {};
    bool naive = false;  // the plainest variant of every op
    std::function<void(const std::string&)> tell = {};
  };
  PlanBook(Device& device, Options options) : device_(device), options_(std::move(options)) {}

  /// The entry lives as long as someone holds it, and is shared while it does. `quiet`: a problem too small
  /// to be worth a remark.
  std::shared_ptr<const PlanEntry> get(const Problem& problem, bool quiet = false);
  /// The time of the winner that get() would take from the wisdom, if any.
  std::optional<double> expected_us(const Problem& problem) const;
  /// What the plans made so far are, quiet ones aside: "tuned" where all come from the wisdom, "tuned-7-of-9"
  /// where some do, "default" where none does; "naive"; or "overrides-" and a hash of the overrides.
  std::string plan_set() const;
  /// How many there are of each source: "9 tuned, 2 by the nearest tuned problem, 1 default".
  std::string plan_sources() const;
  /// Keys of the problems whose plan is neither tuned nor an override.
  std::vector<std::string> untuned() const;
  /// Throws InputError where no plan made so far took one of the overrides.
  void require_overrides() const;

 private:
  struct Choice {
    const Variant* variant;
    Config config;
    PlanSource source;
    std::size_t override_index = 0;
  };
  std::vector<Choice> choices(const Problem& problem, bool quiet);
  Wisdom::Match match(const Problem& problem) const;
  Judgement judged(const Winner& winner) const;
  std::size_t count(PlanSource source) const;
  void refuse(std::size_t override_index, const Problem& problem, const std::string& why);
  void tell(const Problem& problem, const std::string& what);
  void tell_once(const std::string& what);

  Device& device_;
  Options options_;
  Compiler sources_{KernelSources(), {}};  // hashes them; compiles nothing
  mutable std::map<const Variant*, std::string> hashes_;
  std::map<std::string, std::weak_ptr<const PlanEntry>> entries_;
  std::set<std::string> told_;
  std::map<std::string, PlanSource> made_;              // by the key of the problem, quiet ones aside
  std::set<std::size_t> used_overrides_;                // by their places in the options
  std::map<std::size_t, std::string> refused_because_;  // the first reason
};

}  // namespace warptune
