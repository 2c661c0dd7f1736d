#include "harness/tune/screening.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace warptune {

std::string Trials::why_none() const {
  std::map<std::string, int> counts;
  for (const Measurement& m : measurements) ++counts[std::string(name_of(m.status))];
  std::vector<std::string> parts;
  for (const auto& [status, n] : counts) parts.push_back(fmt::format("{} {}", n, status));
  std::string first = measurements.front().detail.substr(0, 200);
  std::ranges::replace(first, '\n', ' ');
  return fmt::format("no configuration is correct: {} (first: {})", fmt::join(parts, ", "), first);
}

SearchOrder::SearchOrder(SearchSpace space, const SearchChoice& choice, int ahead,
                         std::function<void(std::size_t)> begin)
    : begin_(std::move(begin)),
      ahead_(static_cast<std::size_t>(std::max(ahead, 1))),
      left_(choice.budget.evaluations(space.candidates.size())),
      seconds_(choice.budget.unit == Budget::Unit::seconds ? choice.budget.amount : INFINITY),
      strategy_(make_strategy(choice.strategy, std::move(space), choice.seed)) {}

std::optional<std::size_t> SearchOrder::next() {
  if (watch_.seconds() >= seconds_) return std::nullopt;
  while (left_ > 0 && pending_.size() < ahead_) {
    const auto candidate = strategy_->next();
    if (!candidate) break;
    --left_;
    begin_(*candidate);
    pending_.push_back(*candidate);
  }
  if (pending_.empty()) return std::nullopt;
  const std::size_t first = pending_.front();
  pending_.pop_front();
  return first;
}

namespace {

constexpr std::size_t kAhead = 256;  // configurations compiled before the worker needs them
constexpr int kProposals = 4;  // proposals in flight: a strategy proposes so many before the first result

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

/// The candidate as a strategy sees it. Zero registers mean that its resources are unknown.
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

/// Tries the candidates of one problem and keeps the results.
class Screening::Attempts {
 public:
  Attempts(Screening& screening, const ScheduledProblem& problem, Progress& progress, TuneSummary& summary)
      : screening_(screening),
        problem_(problem),
        progress_(progress),
        summary_(summary),
        deadline_(screening.options_.deadline) {}

  /// Takes the row of an earlier run, or measures the candidate and writes its row.
  const Measurement& attempt(std::size_t index, Builds& builds) {
    const SweepItem& item = *problem_.item;
    const Candidate& c = problem_.candidates[index];
    const KnownRow* row = screening_.known(item, c);
    Tried now = row ? Tried{row->measurement, row->run_id}
                    : Tried{screening_.try_one(item, c, builds.take(index), best_high_, deadline_),
                            screening_.rows_.run_id()};
    if (!row && problem_.candidates.size() == 1 && now.measurement.sampling == SamplingClass::screened)
      now.measurement.sampling = screening_.options_.rerun > 0 ? SamplingClass::rerun : SamplingClass::single;
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
      trials.candidates.push_back(problem_.candidates[index]);
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
  const ScheduledProblem& problem_;
  Progress& progress_;
  TuneSummary& summary_;
  Deadline deadline_;
  std::map<std::size_t, Tried> tried_;  // in canonical order
  bool any_new_ = false;
  double best_ = NAN, best_high_ = NAN;
};

Screening::Screening(const Sweep& sweep, const TuneOptions& options, const Schedule& schedule,
                     CompilePool::Compile compile, int compile_jobs, DeviceWorker& worker, DeviceRows& rows)
    : sweep_(sweep),
      options_(options),
      prune_(sweep.prune),
      worker_(worker),
      rows_(rows),
      pool_(std::move(compile), compile_jobs, kAhead) {
  const bool all = !sweep.search.searching() || sweep.search.resources;
  for (const ScheduledProblem& p : schedule) {
    Builds& builds = builds_.try_emplace(&p, p, pool_, options.compile_seconds).first->second;
    for (std::size_t i = 0; all && i < p.candidates.size(); ++i)
      if (!known(*p.item, p.candidates[i])) builds.begin(i);
  }
}

Trials Screening::run(const ScheduledProblem& problem, Progress& progress, TuneSummary& summary) {
  Attempts attempts(*this, problem, progress, summary);
  worker_.begin_problem();
  if (sweep_.search.searching()) {
    search(problem, attempts, summary);
  } else {
    Builds& builds = builds_.at(&problem);
    for (std::size_t i = 0; i < problem.candidates.size(); ++i) attempts.attempt(i, builds);
  }
  return attempts.take();
}

/// Where the strategy knows resources, candidates that do not compile or are pruned get their rows before the
/// search, which spends no budget on them.
void Screening::search(const ScheduledProblem& problem, Attempts& attempts, TuneSummary& summary) {
  const SweepItem& item = *problem.item;
  const bool has_ended = search_has_ended(problem);
  summary.searched_before += has_ended;
  Builds& builds = builds_.at(&problem);
  SearchSpace space{.floor_us = floor_us(worker_.facts(), item.entry->op.cost(item.problem), item.problem)};
  std::vector<std::size_t> searched;  // candidates in the space
  for (std::size_t i = 0; i < problem.candidates.size(); ++i) {
    const auto resources = sweep_.search.resources ? resources_to_run(item, problem.candidates[i], i, builds)
                                                   : std::optional(Resources{});
    if (!resources) {
      attempts.attempt(i, builds);
      continue;
    }
    space.candidates.push_back(search_candidate(problem.candidates[i], *resources));
    searched.push_back(i);
  }
  SearchOrder order(std::move(space), sweep_.search, kProposals, [&](std::size_t candidate) {
    const std::size_t i = searched[candidate];
    if (!known(item, problem.candidates[i])) builds.begin(i);
  });
  while (const auto candidate = order.next()) {
    if (has_ended && !known(item, problem.candidates[searched[*candidate]])) break;
    const Measurement& m = attempts.attempt(searched[*candidate], builds);
    order.tell(*candidate, m.status == Status::ok ? std::optional(m.time_us) : std::nullopt);
  }
}

/// Whether an earlier run has ended a search with a budget in seconds: it has tried every variant and timed
/// the finalists. The strategy then repeats its proposals, whose rows are known.
bool Screening::search_has_ended(const ScheduledProblem& problem) const {
  if (sweep_.search.budget.unit != Budget::Unit::seconds || !options_.retry.empty() || options_.rerun > 0)
    return false;
  bool has_finalists = false;
  std::set<const Variant*> variants, tried;
  for (const Candidate& c : problem.candidates) {
    variants.insert(c.variant);
    if (known(*problem.item, c)) tried.insert(c.variant);
    has_finalists |= rows_.finalist(*problem.item, c) != nullptr;
  }
  return has_finalists && tried == variants;
}

/// The row of an earlier run that tried the candidate or pruned it by a rule that still holds; else nullptr.
const KnownRow* Screening::known(const SweepItem& item, const Candidate& candidate) const {
  const KnownRow* row = rows_.known(item, candidate);
  if (row && row->rows < options_.rerun) return nullptr;
  if (!row || row->measurement.status != Status::constraint) return row;
  return row->measurement.detail.starts_with(kPruned) && prune_.broken(row->measurement.resources) ? row
                                                                                                   : nullptr;
}

/// The prune rule that a compiled candidate meets. Candidates without kernels of their own meet none.
std::optional<std::string> Screening::pruned(const Candidate& candidate, const Resources& resources) const {
  return is_compiled(*candidate.variant) ? prune_.broken(resources) : std::nullopt;
}

/// The resources of a candidate, from its row or its code; nothing where it does not compile or is pruned.
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
