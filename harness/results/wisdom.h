#pragma once
// The winners of one or more devices, with their provenance, in wisdom.json.
#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "harness/core/problem.h"
#include "harness/measure/cache_mode.h"

namespace warptune {

/// A configuration whose time does not differ from the winner's significantly.
struct TiedConfig {
  std::string variant;
  Config config;
  double time_us = 0;
};

/// The times of a variant's configurations: a row is a value of each parameter and a time.
struct VariantTimes {
  struct Row {
    std::vector<std::int64_t> values;
    double time_us = 0;
    bool operator==(const Row&) const = default;
  };
  std::string variant;
  std::string source_hash;  // its kernels, at the time
  std::vector<std::string> parameters;
  std::vector<Row> rows;
  bool operator==(const VariantTimes&) const = default;
};

/// Adds times of the same problem and device. Newer times replace all of a variant whose sources or
/// parameters differ, and the time of the same configuration; older ones only add what is missing.
enum class Added { newer, older };
void add_times(std::vector<VariantTimes>& times, const std::vector<VariantTimes>& more,
               Added added = Added::newer);

struct Provenance {
  std::string device, arch, driver, toolkit, git_commit;
  bool operator==(const Provenance&) const = default;
};

struct Winner {
  Problem problem;
  std::string variant;
  Config config;
  double time_us = 0;
  std::string source_hash;               // the variant's kernels
  std::string run_id, csv;               // the run and the file that hold its row
  Provenance made_on = {};               // empty: the provenance of its wisdom
  CacheMode cache = CacheMode::cold;     // the state it was timed in
  std::string throttled = {};            // throttle reasons during its timing; empty: none
  std::vector<TiedConfig> tied = {};     // finalists whose times do not differ significantly
  std::vector<VariantTimes> times = {};  // the fastest tried configurations
  std::string code_hash = {};            // Resources::code_hash of the configuration; empty for a library
};

/// The op of the problem that a step is: "step[model=llama3.2-1b,batch=1,context=512,dtype=bf16]".
inline constexpr const char* kStepOp = "step";

/// The configuration that solves a problem of the step.
struct StepPlan {
  Problem problem;
  std::string variant;
  Config config;
  std::string source_hash = {}, code_hash = {};  // as those of a winner

  std::string str() const {
    return problem.key() + " " + variant + (config.empty() ? "" : " ") + config.str();
  }
};

/// What a tuned step is made of: its options (llama/fusion.h) and a plan for each of its problems.
struct StepPlans {
  Assignment options = {};  // an option without a value here is chosen by the times of the ops alone
  std::vector<StepPlan> plans = {};

  const StepPlan* find(const Problem& problem) const {
    const auto it = std::ranges::find(plans, problem, &StepPlan::problem);
    return it == plans.end() ? nullptr : &*it;
  }
  /// All of it as one text: equal steps have equal texts.
  std::string str() const {
    std::string text = options.str();
    for (const StepPlan& plan : plans) text += "; " + plan.str();
    return text;
  }
};

/// The plans of a model's decode step that are the fastest together.
struct StepWinner {
  Problem step;  // its op is kStepOp
  StepPlans plans;
  double time_us = 0;
  double alone_us = 0;      // the step with the winners of its ops alone, timed interleaved with it
  std::string run_id, csv;  // the run and the file that hold its rows
  Provenance made_on = {};  // empty: the provenance of its wisdom
};

/// A plan of a step as a winner, for judge() and for hashes of its code.
Winner as_winner(const StepWinner& step, const StepPlan& plan);

struct ProblemHash {
  std::size_t operator()(const Problem& problem) const;
};
/// Indices into a list of winners, by problem.
using ProblemIndex = std::unordered_map<Problem, std::vector<std::size_t>, ProblemHash>;

class Wisdom {
 public:
  Wisdom() = default;
  explicit Wisdom(Provenance provenance) : provenance_(std::move(provenance)) {}
  /// Throws InputError with the file and its error (no such file, not JSON, unknown schema).
  static Wisdom load(const std::filesystem::path& path);
  /// Replaces the file atomically (replace_file(), results/durable_file.h). Writes a winner's provenance only
  /// if it differs from the file's.
  void save(const std::filesystem::path& path) const;
  /// The text that save() writes: JSON, one line per winner.
  std::string to_json() const;

  const Provenance& provenance() const { return provenance_; }
  const std::vector<Winner>& winners() const& { return winners_; }
  /// Moves them out of a wisdom that is not used again.
  std::vector<Winner> winners() && {
    by_hash_.clear();
    return std::move(winners_);
  }
  void reserve(std::size_t winners) { winners_.reserve(winners); }
  /// Adds a winner, or replaces the one of the same problem and device.
  void put(Winner winner);
  /// The winner of exactly this problem made on this device, or nullptr.
  const Winner* winner_on(const Problem& problem, const std::string& device) const;
  /// The winner of the same problem or step and the same device as this one, or nullptr.
  const Winner* rival(const Winner& winner) const { return winner_on(winner.problem, winner.made_on.device); }
  const StepWinner* rival(const StepWinner& step) const { return step_on(step.step, step.made_on.device); }
  /// The winner of exactly this problem, of the first device that has one.
  const Winner* exact(const Problem& problem) const;
  /// Indices in winners() of the winners of exactly this problem, one per device.
  std::vector<std::size_t> indices(const Problem& problem) const;

  const std::vector<StepWinner>& steps() const& { return steps_; }
  std::vector<StepWinner> steps() && { return std::move(steps_); }
  /// Adds a step's winner, or replaces the one of the same step and device.
  void put(StepWinner winner);
  /// The winner of exactly this step made on this device, or nullptr.
  const StepWinner* step_on(const Problem& step, const std::string& device) const;
  /// The winner of this step made on this architecture, else that of the same step at the nearest context,
  /// which differs by a factor of at most 8, or nullptr. A winner of this device comes before one of another.
  const StepWinner* nearest_step(const Problem& step, const std::string& arch,
                                 const std::string& device) const;

 private:
  Provenance provenance_;
  std::vector<Winner> winners_;
  std::vector<StepWinner> steps_;
  std::unordered_multimap<std::size_t, std::size_t> by_hash_;  // indices of winners by ProblemHash
};

/// The wisdom in a text that Wisdom::to_json() wrote. Throws InputError that begins with `origin`, which
/// names the file.
Wisdom parse_wisdom(std::string_view text, const std::string& origin);

/// A winner with its provenance as one line: equal winners have equal lines.
std::string record_of(const Winner& winner);
std::string record_of(const StepWinner& winner);

}  // namespace warptune
