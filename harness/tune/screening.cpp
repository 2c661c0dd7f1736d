#include "harness/tune/screening.h"

#include <algorithm>
#include <cmath>

#include "harness/tune/search_order.h"

namespace warptune {
namespace {

constexpr std::size_t kAhead = 256;  // configurations compiled before the worker asks for them
constexpr int kProposals = 4;        // asked of a strategy before the first is measured

Status status_of(CompileResult::Kind kind) {
  switch (kind) {
    case CompileResult::Kind::resource:
      return Status::resource;
    case CompileResult::Kind::timeout:
      return Status::timeout;
    default:
      return Status::compile_error;
  }
}

/// What a strategy may know of a candidate; without registers its resources are not known.
SearchCandidate search_candidate(const Candidate& c, const Resources& resources) {
  SearchCandidate candidate{.variant = c.variant->name, .config = c.config};
  if (resources.registers == 0) return candidate;
  candidate.registers = resources.registers;
  candidate.shared_bytes = static_cast<double>(resources.shared_bytes);
  candidate.spill_bytes = static_cast<double>(resources.spill_bytes);
  candidate.occupancy_pct = resources.occupancy_pct;
  return candidate;
}

}  // namespace

/// Tries the candidates of one problem and keeps what comes out.
class Screening::Attempts {
 public:
  Attempts(Screening& screening, const PlannedProblem& planned, Progress& progress, TuneSummary& summary)
      : screening_(screening),
        planned_(planned),
        progress_(progress),
        summary_(summary),
        deadline_(screening.options_.deadline) {}

  /// Takes its row of an earlier run, or measures it and writes its row.
  const Measurement& attempt(std::size_t index, Builds& builds) {
    const SweepItem& item = *planned_.item;
    const Candidate& c = planned_.candidates[index];
    const KnownRow* row = screening_.known(item, c);
    Tried now = row ? Tried{row->measurement, row->run_id}
                    : Tried{screening_.try_one(item, c, builds.take(index), best_high_, deadline_),
                            screening_.rows_.run_id()};
    if (!row) screening_.rows_.write(item, c, now.measurement);
    const Measurement& m = now.measurement;
    const bool pruned = m.status == Status::constraint;
    any_new_ |= !row && !pruned;
    summary_.known += row != nullptr;
    summary_.pruned += pruned;
    ++summary_.configurations;
    if (m.status == Status::ok) {
      ++summary_.ok;
      best_ = std::fmin(best_, m.time_us);
      best_high_ = std::fmin(best_high_, m.ci_high_us);
    }
    progress_.step(item.problem.key(), best_);
    return tried_.insert_or_assign(index, std::move(now)).first->second.measurement;
  }

  Trials take() {
    Trials trials{.any_new = any_new_};
    for (auto& [index, t] : tried_) {
      trials.candidates.push_back(planned_.candidates[index]);
      trials.measurements.push_back(std::move(t.measurement));
      trials.runs.push_back(std::move(t.run));
    }
    return trials;
  }

 private:
  struct Tried {
    Measurement measurement;
    std::string run;
  };

  Screening& screening_;
  const PlannedProblem& planned_;
  Progress& progress_;
  TuneSummary& summary_;
  Deadline deadline_;
  std::map<std::size_t, Tried> tried_;  // in canonical order
  bool any_new_ = false;
  double best_ = NAN, best_high_ = NAN;
};

Screening::Screening(const Sweep& sweep, const TuneOptions& options,
                     const std::vector<PlannedProblem>& problems, CompileLanes::Compile compile, int lanes,
                     DeviceWorker& worker, DeviceRows& rows)
    : sweep_(sweep),
      options_(options),
      prune_(sweep.prune),
      worker_(worker),
      rows_(rows),
      lanes_(std::move(compile), lanes, kAhead) {
  const bool all = !sweep.search.searching() || sweep.search.resources;
  for (const PlannedProblem& p : problems) {
    Builds& builds = builds_.try_emplace(&p, p, lanes_, options.compile_seconds).first->second;
    for (std::size_t i = 0; all && i < p.candidates.size(); ++i)
      if (!known(*p.item, p.candidates[i])) builds.begin(i);
  }
}

Trials Screening::run(const PlannedProblem& planned, Progress& progress, TuneSummary& summary) {
  Attempts attempts(*this, planned, progress, summary);
  worker_.begin_problem();
  if (sweep_.search.searching()) {
    search(planned, attempts);
  } else {
    Builds& builds = builds_.at(&planned);
    for (std::size_t i = 0; i < planned.candidates.size(); ++i) attempts.attempt(i, builds);
  }
  return attempts.take();
}

/// Where resources are wanted, those that do not compile or are pruned have their rows before the search,
/// which does not spend its budget on them.
void Screening::search(const PlannedProblem& planned, Attempts& attempts) {
  const SweepItem& item = *planned.item;
  Builds& builds = builds_.at(&planned);
  SearchSpace space{.floor_us =
                        floor_us(worker_.facts(), item.entry->op.cost(item.problem), item.problem.dtype)};
  std::vector<std::size_t> searched;  // candidates in the space
  for (std::size_t i = 0; i < planned.candidates.size(); ++i) {
    const auto resources = sweep_.search.resources ? resources_to_run(item, planned.candidates[i], i, builds)
                                                   : std::optional(Resources{});
    if (!resources) {
      attempts.attempt(i, builds);
      continue;
    }
    space.candidates.push_back(search_candidate(planned.candidates[i], *resources));
    searched.push_back(i);
  }
  SearchOrder order(std::move(space), sweep_.search, kProposals, [&](std::size_t candidate) {
    const std::size_t i = searched[candidate];
    if (!known(item, planned.candidates[i])) builds.begin(i);
  });
  while (const auto candidate = order.next()) {
    const Measurement& m = attempts.attempt(searched[*candidate], builds);
    order.tell(*candidate, m.status == Status::ok ? std::optional(m.time_us) : std::nullopt);
  }
}

/// The row of an earlier run that tried it, or by which it is pruned as it would be today; else nullptr.
const KnownRow* Screening::known(const SweepItem& item, const Candidate& candidate) const {
  const KnownRow* row = rows_.known(item, candidate);
  if (!row || row->measurement.status != Status::constraint) return row;
  return row->measurement.detail.starts_with(kPruned) && prune_.broken(row->measurement.resources) ? row
                                                                                                   : nullptr;
}

/// Why a candidate is not to be run, though it compiles; nothing where it is, or has no kernels of its own.
std::optional<std::string> Screening::pruned(const Candidate& candidate, const Resources& resources) const {
  return is_compiled(*candidate.variant) ? prune_.broken(resources) : std::nullopt;
}

/// What a candidate takes, from its row or its code; nothing where it does not compile or is pruned.
std::optional<Resources> Screening::resources_to_run(const SweepItem& item, const Candidate& candidate,
                                                     std::size_t index, Builds& builds) const {
  if (const KnownRow* row = known(item, candidate))
    return row->measurement.status == Status::constraint ? std::nullopt
                                                         : std::optional(row->measurement.resources);
  const CompileResult& built = builds.take(index);
  const bool runs = built.kind == CompileResult::Kind::ok && !pruned(candidate, built.resources);
  return runs ? std::optional(built.resources) : std::nullopt;
}

Measurement Screening::try_one(const SweepItem& item, const Candidate& candidate, const CompileResult& built,
                               double best_us, Deadline& deadline) {
  if (built.kind != CompileResult::Kind::ok) return {.status = status_of(built.kind), .detail = built.detail};
  if (const auto why = pruned(candidate, built.resources))
    return {.status = Status::constraint, .detail = *why, .resources = built.resources};
  Measurement m = worker_.measure(
      {item.problem, item.options, candidate.variant->name, candidate.config, best_us}, deadline);
  if (built.resources.registers > 0 && m.resources.registers == 0) m.resources = built.resources;
  m.resources.code_hash = built.resources.code_hash;
  m.resources.compile_ms = std::max(m.resources.compile_ms, built.resources.compile_ms);
  return m;
}

}  // namespace warptune
