#pragma once
// The rows that one run writes for one device: their keys, and the rows of earlier runs with the same keys.
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "harness/device/compile.h"
#include "harness/measure/launch_floor.h"
#include "harness/results/row_store.h"
#include "harness/results/wisdom.h"
#include "harness/tune/schedule.h"

namespace warptune {

class DeviceRows {
 public:
  /// All but `retry` must outlive it. Nothing is written yet. Rows with a status of `retry` are ignored.
  DeviceRows(const Compiler& compiler, const DeviceFacts& facts, RowStore& store, const Schedule& schedule,
             std::set<Status> retry = {});

  /// Call it before the first row.
  void begin(const Schedule& schedule);
  /// The row of an earlier run that tried or excluded the candidate, or nullptr.
  const KnownRow* known(const SweepItem& item, const Candidate& candidate) const;
  /// The newest row of the candidate as a finalist, or nullptr.
  const KnownRow* finalist(const SweepItem& item, const Candidate& candidate) const;
  /// Its newest row of a fresh process, or nullptr.
  const KnownRow* in_fresh_process(const SweepItem& item, const Candidate& candidate) const;
  /// `cache`: the value of the column `cache`, if it is not the item's.
  void write(const SweepItem& item, const Candidate& candidate, const Measurement& measurement,
             const char* cache = nullptr);

  /// Whether an earlier run has the rows of the launch floors.
  bool has_launch_floors() const;
  /// Writes a row of each launch floor that was measured.
  void write(const LaunchFloors& floors);

  /// Waits until all rows are on the disk. Throws the error of a row that failed.
  void flush() { store_.flush(); }

  const std::string& run_id() const { return run_.run_id; }
  Provenance provenance() const;

 private:
  using CodeKey = std::tuple<const SweepItem*, const Variant*, std::string>;

  void recognize_code(const Schedule& schedule);
  void append(const Problem& problem, const std::string& variant, const Config& config,
              const std::string& cache, const Cost& cost, const Measurement& measurement);
  std::string key(const Problem& problem, const std::string& variant, const Config& config,
                  const std::string& cache, const std::string& stamp) const;
  std::string stamp(const SweepItem& item, const Variant& variant) const;
  std::string key(const SweepItem& item, const Candidate& candidate) const;

  const Compiler& compiler_;
  const DeviceFacts& facts_;
  RowStore& store_;
  const std::set<Status> retry_;
  const RunInfo run_ = new_run();
  mutable std::map<const Variant*, std::string> sources_;  // hashes
  std::map<CodeKey, std::string> code_;  // code hashes, of configurations whose sources have changed
};

}  // namespace warptune
