#pragma once
// Queries a wisdom for a problem on one device: its winner, the nearest winner, likely configurations, times.
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/device/compile.h"
#include "harness/results/staleness.h"
#include "harness/results/wisdom.h"
#include "harness/select/winner_lookup.h"

namespace warptune {

/// "op=variant" or "op=variant:block=256,vec=8".
struct PlanOverride {
  std::string op, variant;
  std::optional<Config> config = {};
  /// The text that parse_plan_override() takes.
  std::string str() const;
};
/// Throws InputError for an unknown op, variant or parameter.
PlanOverride parse_plan_override(const OpTable& ops, const std::string& text);

/// A configuration in a sentence: "'tiled' with block=256", or "'host_naive'" where there is nothing to
/// configure.
std::string quoted(std::string_view variant, const Config& config);

/// The policy that a plan comes from (PlanChooser::Policies).
enum class PlanSource { overridden, step, near_step, exact, nearest, fallback };
/// "override", "step", "near_step", "exact", "nearest" or "default".
std::string_view name_of(PlanSource source);

struct PlanOptions {
  Wisdom wisdom = {};
  bool has_wisdom = false;
  StaleCode stale = StaleCode::refuse;
  std::vector<PlanOverride> overrides = {};
  bool naive = false;  // use the naive variant of every op
  std::function<void(const std::string&)> tell = {};
};

struct PlanChoice {
  const Variant* variant = nullptr;
  Config config;
  PlanSource source = PlanSource::fallback;
  std::size_t override_index = 0;
  const Winner* winner = nullptr;  // the recorded one that it comes from
  std::string reason = {};         // reported if the choice is taken; may be empty
  std::string why_not = {};        // why the first winner before it is not used
};

/// Why the variant cannot run the problem with this configuration; empty if it can.
std::optional<std::string> why_unfit(const Variant& variant, const Problem& problem, const Config& config,
                                     const DeviceFacts& facts);
/// Why the variant cannot run the problem with any configuration: wrong device or dtype.
std::optional<std::string> why_not_here(const Variant& variant, const Problem& problem,
                                        const DeviceFacts& facts);
/// Whether a variant may become a winner or a default. On a GPU that rehearses another a library cannot: it
/// runs code of the real one.
bool may_win(const Variant& variant, const DeviceFacts& facts);

/// The configuration of a variant's first default tile that fits, else the middle one of its space. Sets
/// `why` if there is none.
std::optional<Config> default_config(const OpTable& ops, const DeviceFacts& facts, const Variant& variant,
                                     const Problem& problem, std::string& why);
/// The configuration of a recorded time, with labels; empty if the variant's parameters have changed.
std::optional<Config> config_of(const Variant& variant, const VariantTimes& times,
                                const VariantTimes::Row& row);

class TunedPlans {
 public:
  /// All arguments must outlive it. Without wisdom, or with PlanOptions::naive, all queries return nothing.
  TunedPlans(const OpTable& ops, const DeviceFacts& facts, const PlanOptions& options)
      : ops_(ops), facts_(facts), options_(options), lookup_(ops, options.wisdom) {}
  TunedPlans(const TunedPlans&) = delete;
  TunedPlans& operator=(const TunedPlans&) = delete;

  /// The winner of the problem, or of the nearest one. Problems that differ only in their data
  /// (DimRole::data) share a winner. Without a match, returns the winner of the problem without its features.
  /// `left_out`: ignores the winner of this problem.
  WinnerLookup::Match match(const Problem& problem, const Problem* left_out = nullptr) const;
  /// Whether a winner may be used here.
  Judgement judged(const Winner& winner) const;

  /// The winner of a model step on this device, else on this architecture, else of the same step at the
  /// nearest context, which differs by a factor of at most 8, if all of its plans may be used; else nullptr,
  /// and `why` says why one may not be.
  const StepWinner* step(const Problem& step, std::string& why) const;
  /// The `count` fastest recorded configurations of the problem, or of the nearest one, that may be used
  /// here: the winner, then the configurations that tied with it and the others of its search, fastest first.
  std::vector<std::pair<const Variant*, Config>> fastest(const Problem& problem, std::size_t count) const;

  /// Configurations that are likely to be fast for a problem without times of its own, the likeliest first:
  /// the default tile, or each variant's default where no tile fits, then the fastest recorded configurations
  /// of the 8 nearest problems of this architecture: each one's fastest, each one's second, and so on. At
  /// most 8 that are compiled and 12 in all. The distance of two problems is the sum over dims of |log2(a /
  /// b)|; another label adds 2.
  std::vector<std::pair<const Variant*, Config>> likely(const Problem& problem) const;

  /// The recorded time of the problem's own winner, if it may be used.
  std::optional<double> tuned_us(const Problem& problem) const;
  /// tuned_us(), else the time of the nearest winner.
  std::optional<double> expected_us(const Problem& problem) const;

 private:
  bool knows() const { return options_.has_wisdom && !options_.naive; }
  std::optional<double> time_of(const Winner* winner, const Problem& problem) const;
  /// Whether times of a variant that were recorded with a winner are still valid here.
  bool hold(const Winner& winner, const std::string& variant, const std::string& source_hash) const;
  /// The winner and the other recorded configurations of its search that may be used here, fastest first.
  std::vector<TiedConfig> recorded(const Winner& winner) const;
  bool is_same_machine_code(const OpEntry& op, const Variant& variant) const;
  const std::string& source_hash_of(const OpEntry& op, const Variant& variant) const;
  Provenance here() const { return {facts_.name, facts_.arch, facts_.driver, facts_.toolkit, {}}; }

  const OpTable& ops_;
  const DeviceFacts& facts_;
  const PlanOptions& options_;
  WinnerLookup lookup_;
  Compiler compiler_{KernelSources(), default_cache_folder()};
  mutable std::map<const Variant*, std::string> source_hashes_;
  mutable std::map<const Variant*, bool> same_machine_code_;  // by variant whose sources differ
};

}  // namespace warptune
