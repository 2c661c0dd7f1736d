#pragma once
// Makes the plan of each problem, as it was chosen, and its workspace once.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/device/device.h"
#include "harness/select/plan_chooser.h"

namespace warptune {

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
  using Options = PlanOptions;
  /// The table and the device must outlive it.
  PlanBook(const OpTable& ops, Device& device, Options options)
      : device_(device), chooser_(ops, device.facts(), std::move(options)) {}
  const OpTable& ops() const { return chooser_.ops(); }

  /// The entry lives as long as someone holds it, and is shared while it does. `quiet`: a problem too small
  /// to be worth a remark.
  std::shared_ptr<const PlanEntry> get(const Problem& problem, bool quiet = false);
  /// The time that the wisdom gives or predicts for what get() would take from it, if anything.
  std::optional<double> expected_us(const Problem& problem) const { return chooser_.expected_us(problem); }
  /// As PlanChooser::prefers().
  bool prefers(const Problem& fused, std::span<const Problem> parts) const {
    return chooser_.prefers(fused, parts);
  }
  /// The sources of the plans made so far, quiet ones aside: "tuned" where all are winners of their very
  /// problems, "tuned+7near+3predicted+2default" where some are not, "default" where none comes from the
  /// wisdom, else "7near+2default"; "naive"; or "overrides-" and a hash of the overrides.
  std::string plan_set() const;
  /// How many there are of each source: "12 exact, 3 predicted, 8 nearest, 1 default".
  std::string plan_sources() const;
  /// The plans made so far for an op, as "problem variant configuration".
  std::vector<std::string> plans_of(const std::string& op) const;
  /// Keys of the problems whose plan comes neither from the wisdom nor from an override.
  std::vector<std::string> untuned() const;
  const Wisdom& wisdom() const { return chooser_.options().wisdom; }
  /// Throws InputError where no plan made so far took one of the overrides.
  void require_overrides() const;

 private:
  std::size_t count(PlanSource source) const;

  Device& device_;
  PlanChooser chooser_;
  std::map<std::string, std::weak_ptr<const PlanEntry>> entries_;
  struct Made {
    PlanSource source;
    std::string op, plan;
  };
  std::map<std::string, Made> made_;      // by the key of the problem, quiet ones aside
  std::set<std::size_t> used_overrides_;  // by their places in the options
};

}  // namespace warptune
