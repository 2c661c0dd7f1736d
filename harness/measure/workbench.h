#pragma once
// The tensors and references of one problem on one device, and what every candidate is held against.
#include <functional>
#include <memory>
#include <vector>

#include "harness/core/variant.h"
#include "harness/measure/bench.h"
#include "harness/verify/oracle.h"

namespace warptune {

/// A plan with its workspace, and its arguments for each set of tensors.
struct Prepared {
  std::unique_ptr<Plan> plan;
  Buffer workspace;
  std::vector<Args> args;
};

/// What is timed: a row as the sweep's cache mode says, or one of a finalist's other times.
enum class Timing { main, hot, isolated };

class Workbench {
 public:
  Workbench(Device& device, const OpEntry& entry, Problem problem, BenchOptions options);

  /// Throws what Device::prepare and allocate throw.
  Prepared prepare(const Variant& variant, const Config& config);
  /// Before a candidate may run: makes good what one that failed may have spoiled.
  void begin();
  /// The candidate did nothing wrong: the tensors are as they should be.
  void end() { spoiled_ = false; }

  /// Poisons the outputs of the checked set, runs, and compares; inputs and guard bands must be as before.
  Verdict verify(const std::function<void()>& run);
  /// More runs after one that was verified must give the same bytes, or again right ones: races show.
  /// At least one run, at most `repeats`, fewer where they take long.
  Verdict verify_again(int repeats, const std::function<void()>& run);
  /// What timing left behind: inputs of all sets and the guard bands of the checked one.
  Verdict check_inputs();
  /// Fills the checked set with the inputs of the other seed.
  void change_inputs();

  /// `launches` launches, one set after the other, the last on the checked set; `hot`: all on it.
  std::unique_ptr<CapturedGraph> record(const Prepared& prepared, int launches, bool hot = false);
  /// How many launches make a sample long enough to time.
  int launches_per_sample(const Prepared& prepared, bool hot = false);
  /// What is checked after timing: the timed replay, or a recorded launch where an op changes its inputs,
  /// which has no right answer after many.
  std::unique_ptr<CapturedGraph> recorded_once(const Prepared& prepared) { return record(prepared, 1, true); }
  bool changes_inputs() const;

  Device& device() { return device_; }
  const OpEntry& entry() const { return entry_; }
  const Problem& problem() const { return problem_; }
  const BenchOptions& options() const { return options_; }
  Cost cost() const { return entry_.op.cost(problem_); }
  /// Whether caches are flushed before a sample, which then comes to no set twice.
  bool flush() const { return flush_; }
  /// Times below this are impossible, microseconds: neither memory nor the L2 delivers so fast, with a
  /// margin.
  double impossible_us(Timing timing) const;

 private:
  void reset_outputs();
  void decide_cache_states();
  void fill_all();
  std::vector<Region> inputs(bool all_sets) const;
  std::vector<Region> outputs() const;
  Verdict unchanged(bool all_sets);

  Device& device_;
  const OpEntry& entry_;
  const Problem problem_;
  const BenchOptions options_;
  const Oracle first_, second_;  // the same problem on two sets of inputs
  std::vector<TensorSpec> specs_;
  std::vector<TensorSet> sets_;  // the last one is checked, since it is the last that a replay runs on
  const Oracle* current_;        // whose inputs are in the last set
  std::vector<std::uint64_t> checked_sums_, all_sums_;  // of the inputs of the last set, and of all
  bool flush_ = false;
  bool spoiled_ = false;
  double cold_bytes_floor_ = 0;  // compulsory bytes that cannot come from a cache
};

}  // namespace warptune
