#pragma once
// The tensors and references of one problem on one device, shared by all candidates.
#include <functional>
#include <memory>
#include <vector>

#include "harness/core/variant.h"
#include "harness/measure/bench.h"
#include "harness/measure/impossible.h"
#include "harness/measure/stage_times.h"
#include "harness/verify/oracle.h"

namespace warptune {

/// A graph that is one sample.
struct SampleGraph {
  std::unique_ptr<CapturedGraph> graph;
  int launches = 1;
  bool hot = false;  // all launches use the checked set
};

/// A plan with its workspace, and its arguments for each set of tensors.
struct Prepared {
  std::unique_ptr<Plan> plan;
  Buffer workspace;
  std::vector<Args> args;
};

class Workbench {
 public:
  Workbench(Device& device, const OpEntry& entry, Problem problem, BenchOptions options,
            Seconds now = steady_seconds);

  /// Throws the errors of Device::prepare and Device::allocate.
  Prepared prepare(const Variant& variant, const Config& config);
  /// Call before a candidate runs: refills the tensors if the previous candidate failed.
  void begin();
  /// Call after a candidate without failure: its inputs are unchanged.
  void end() { spoiled_ = false; }

  /// Poisons the outputs of the checked set, runs, and compares; inputs and guard bands must be unchanged.
  Verdict verify(const std::function<void()>& run);
  /// Repeats a verified run to find races: the outputs must have the same bytes, or again be correct. At
  /// least one run, at most `repeats`, fewer if they take long.
  Verdict verify_again(int repeats, const std::function<void()>& run);
  /// Replays a sample, and then the first of its launches, a random number of them, in the same way, and
  /// compares the result of the last: a kernel does not know which of its launches is checked.
  Verdict verify_part(const Prepared& prepared, const SampleGraph& sample);
  /// How long the device took for the slowest launch that verify() checked since begin().
  double slowest_verified_seconds() const { return slowest_verified_seconds_; }
  /// Checks after timing that the inputs of the checked set and of a random part of the others, and the guard
  /// bands of the checked set, are unchanged, and that nothing ran on other streams.
  Verdict check_inputs();
  /// Fills the checked set with the inputs of the other seed.
  void change_inputs();

  /// Records `launches` launches that rotate through the sets and end with the checked one; `hot`: all use
  /// the checked set. `omitted`: this many launches at the end are left out, and outputs are poisoned before
  /// the last launch.
  std::unique_ptr<CapturedGraph> record(const Prepared& prepared, int launches, bool hot = false,
                                        int omitted = 0);
  /// Records as many launches as make a sample of about that length.
  SampleGraph record_sample(const Prepared& prepared, bool hot = false, double sample_us = kSampleUs);
  /// One recorded launch on the checked set. It replaces the timed graph in the check after timing if the op
  /// changes its inputs, since then many launches have no reference.
  std::unique_ptr<CapturedGraph> recorded_once(const Prepared& prepared) { return record(prepared, 1, true); }
  bool changes_inputs() const;

  Device& device() { return device_; }
  const OpEntry& entry() const { return entry_; }
  const Problem& problem() const { return problem_; }
  const BenchOptions& options() const { return options_; }
  Cost cost() const { return entry_.op.cost(problem_); }
  /// Whether caches are flushed before a sample. A sample then uses each set at most once.
  bool flush() const { return flush_; }
  /// Times in microseconds below this are impossible (measure/impossible.h).
  double impossible_us(Timing timing) const;
  /// How long the stages of this problem took.
  StageTimes& times() { return times_; }

 private:
  void reset_outputs();
  void fill_all();
  void fill_other(std::size_t set);
  std::size_t set_of(int launches_after, bool hot) const;
  void replay_as_sample(CapturedGraph& graph);
  /// Compares the outputs; `at_end` are their checksums when the launch had ended.
  Verdict result(const std::vector<std::uint64_t>& at_end);
  /// The inputs of the checked set, then of `others` sets from set `first` on.
  std::vector<Region> inputs(std::size_t first, std::size_t others) const;
  std::vector<Region> outputs() const;
  /// Whether the inputs of the checked set, and of `others` sets from a random one on, are unchanged.
  Verdict unchanged(std::size_t others = 0);
  /// Notes how long other streams have work.
  void wait_for_other_work();

  Device& device_;
  const OpEntry& entry_;
  const Problem problem_;
  const BenchOptions options_;
  const Seconds now_;
  StageTimes times_;
  const Op op_;                  // with the inputs of the options
  const Oracle first_, second_;  // the same problem on two sets of inputs
  std::vector<TensorSpec> specs_;
  std::vector<TensorSet> sets_;      // the last one is the checked set: a replay ends on it
  const Oracle* current_;            // the reference for the inputs of the checked set
  std::vector<std::uint64_t> sums_;  // checksums of the inputs: of the checked set, then of the others
  bool flush_ = false;
  bool spoiled_ = false;
  double slowest_verified_seconds_ = 0, other_work_seconds_ = 0;
  std::uint64_t verified_parts_ = 0, checks_ = 0;
};

}  // namespace warptune
