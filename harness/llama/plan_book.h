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
  std::optional<Config> config;
};
/// Throws InputError for an unknown op, variant or parameter.
PlanOverride parse_plan_override(const std::string& text);

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
  /// "tuned", "naive", "default" or "overrides-" and a hash.
  std::string plan_set() const;

 private:
  struct Choice {
    const Variant* variant;
    Config config;
  };
  std::vector<Choice> choices(const Problem& problem, bool quiet);
  Wisdom::Match match(const Problem& problem) const;
  Judgement judged(const Winner& winner) const;
  void tell(const Problem& problem, const std::string& what);
  void tell_once(const std::string& what);

  Device& device_;
  Options options_;
  Compiler sources_{KernelSources(), {}};  // hashes them; compiles nothing
  mutable std::map<const Variant*, std::string> hashes_;
  std::map<std::string, std::weak_ptr<const PlanEntry>> entries_;
  std::set<std::string> told_;
};

}  // namespace warptune
