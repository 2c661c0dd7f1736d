#pragma once
// Chooses how each problem runs: an override, the wisdom, what the times of the wisdom promise, the nearest
// winner, or a default: the tile table's (variants/tile_table.h), else the middle of a space.
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/device/compile.h"
#include "harness/results/predictor.h"
#include "harness/results/staleness.h"
#include "harness/results/wisdom.h"

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

/// Where a plan comes from. `predicted`: from the times of tuned problems (Predictor); `nearest`: from the
/// winner of the nearest one.
enum class PlanSource { overridden, tuned, predicted, nearest, fallback };

struct PlanOptions {
  Wisdom wisdom = {};
  bool has_wisdom = false;
  StaleCode stale = StaleCode::refuse;
  std::vector<PlanOverride> overrides = {};
  bool naive = false;    // the plainest variant of every op
  bool untuned = false;  // as if the wisdom did not know the very problem
  std::function<void(const std::string&)> tell = {};
};

struct PlanChoice {
  const Variant* variant = nullptr;
  Config config;
  PlanSource source = PlanSource::fallback;
  std::size_t override_index = 0;
};

class PlanChooser {
 public:
  /// The facts must outlive it; nothing else of a device is needed.
  PlanChooser(const DeviceFacts& facts, PlanOptions options) : facts_(facts), options_(std::move(options)) {}

  const PlanOptions& options() const { return options_; }
  /// Offers what is to be tried, best first, until one is taken: a choice may turn out to need more than the
  /// device has. Returns whether one was. `quiet`: without remarks.
  bool choose(const Problem& problem, bool quiet, const std::function<bool(const PlanChoice&)>& take);
  /// The time that the wisdom gives or predicts for what it would choose, if anything.
  std::optional<double> expected_us(const Problem& problem) const;
  /// Whether one launch that does all should be faster than the launches that do its parts. What was measured
  /// decides; where only one side was, it is taken: a prediction may promise too much.
  bool prefers(const Problem& whole, std::span<const Problem> parts) const;
  /// Remarks on a problem; each is told once.
  void tell(const Problem& problem, const std::string& what);
  /// Notes why an override is not taken.
  void refuse(std::size_t override_index, const std::string& why);
  /// The first reason of each override that was not taken.
  const std::map<std::size_t, std::string>& refused() const { return refused_because_; }

 private:
  std::optional<double> time_of(const Winner* winner, const Problem& problem) const;
  std::optional<double> tuned_us(const Problem& problem) const;  // of an exact winner
  Wisdom::Match match(const Problem& problem) const;
  std::optional<PredictedConfig> predicted(const Problem& problem) const;
  Judgement judged(const Winner& winner) const;
  bool holds(const Winner& winner, const VariantTimes& times) const;
  const std::string& hash_of(const std::string& op, const Variant& variant) const;
  bool is_unchanged(const std::string& op, const Variant& variant) const;
  void tell_once(const std::string& what);

  const DeviceFacts& facts_;
  PlanOptions options_;
  Compiler compiler_{KernelSources(), default_cache_folder()};
  mutable std::map<const Variant*, std::string> hashes_;
  mutable std::map<const Variant*, bool>
      unchanged_;  // variants whose sources differ from those of the wisdom
  mutable std::map<std::pair<std::string, DType>, Predictor> predictors_;  // as they are asked for
  std::set<std::string> told_;
  std::map<std::size_t, std::string> refused_because_;
};

}  // namespace warptune
