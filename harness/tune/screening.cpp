#include "harness/tune/screening.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "harness/search/shuffled.h"
#include "harness/select/tuned_plans.h"
#include "harness/tune/search_order.h"

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
  SearchCandidate candidate{.variant = c.variant->name, .config = c.config()};
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
        builds_(screening.builds_.at(&problem)),
        deadline_(screening.options_.deadline) {}

  /// Takes the row of an earlier run, or measures the candidate and writes its row.
  const Measurement& attempt(std::size_t index) {
    const SweepItem& item = *problem_.item;
    const Candidate& c = problem_.candidates[index];
    const KnownRow* row = screening_.known(item, c);
    Tried now = row ? Tried{row->measurement, row->run_id}
                    : Tried{screening_.try_one(item, c, builds_.take(index), best_high_, deadline_),
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
    summary_.ok += m.status == Status::ok;
    if (m.status == Status::ok && may_win(*c.variant, screening_.worker_.facts())) {
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
  Builds& builds_;
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
      schedule_(schedule),
      problems_ahead_(1 + static_cast<std::size_t>(compile_jobs / kProposals)),
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
    for (std::size_t i = 0; i < problem.candidates.size(); ++i) attempts.attempt(i);
  }
  return attempts.take();
}

/// A strategy's search among some of a problem's candidates.
class Screening::Search {
 public:
  Search(Screening& screening, const ScheduledProblem& problem, SearchSpace space,
         std::vector<std::size_t> candidates)
      : screening_(screening),
        problem_(problem),
        candidates_(std::move(candidates)),
        order_(std::move(space), screening.sweep_.search, kProposals, [this](std::size_t i) {
          const std::size_t candidate = candidates_[i];
          if (!screening_.known(*problem_.item, problem_.candidates[candidate]))
            screening_.builds_.at(&problem_).begin(candidate);
        }) {}

  void run(Attempts& attempts) {
    while (const auto i = order_.next()) {
      const Measurement& m = attempts.attempt(candidates_[*i]);
      // The search does not follow what cannot win.
      const bool counts = m.status == Status::ok &&
                          may_win(*problem_.candidates[candidates_[*i]].variant, screening_.worker_.facts());
      order_.tell(*i, counts ? std::optional(m.time_us) : std::nullopt);
    }
  }

 private:
  Screening& screening_;
  const ScheduledProblem& problem_;
  const std::vector<std::size_t> candidates_;  // of the problem; the order has their indices in this list
  SearchOrder order_;
};

Screening::~Screening() = default;

/// Where the strategy knows resources, candidates that do not compile or are pruned get their rows before the
/// search, which spends no budget on them.
void Screening::search(const ScheduledProblem& problem, Attempts& attempts, TuneSummary& summary) {
  if (search_has_ended(problem)) {
    ++summary.searched_before;
    for (std::size_t i = 0; i < problem.candidates.size(); ++i)
      if (known(*problem.item, problem.candidates[i])) attempts.attempt(i);
    return;
  }
  if (sweep_.search.resources) {
    std::vector<std::size_t> candidates;
    for (std::size_t i = 0; i < problem.candidates.size(); ++i)
      if (resources_to_run(problem, i))
        candidates.push_back(i);
      else
        attempts.attempt(i);
    begin_search(problem, std::move(candidates));
  } else {
    const auto at = static_cast<std::size_t>(&problem - schedule_.data());
    for (const ScheduledProblem& p : schedule_.subspan(at, std::min(problems_ahead_, schedule_.size() - at)))
      if (!searches_.contains(&p) && !search_has_ended(p)) begin_search(p, listed(p.candidates.size()));
  }
  searches_.at(&problem)->run(attempts);
  searches_.erase(&problem);
}

/// Begins to compile the first proposals for a problem. The search starts with the default tiles of the
/// problem.
void Screening::begin_search(const ScheduledProblem& problem, std::vector<std::size_t> candidates) {
  const SweepItem& item = *problem.item;
  SearchSpace space{.floor_us = floor_us(worker_.facts(), item.entry->op.cost(item.problem), item.problem)};
  for (const std::size_t i : candidates)
    space.candidates.push_back(search_candidate(
        problem.candidates[i], sweep_.search.resources ? *resources_to_run(problem, i) : Resources{}));
  for (const DefaultTile& tile : sweep_.ops->default_tiles(item.problem, worker_.facts()))
    for (std::size_t i = 0; i < candidates.size(); ++i)
      if (const Candidate& c = problem.candidates[candidates[i]];
          c.variant == tile.variant && c.config() == tile.config)
        space.likely.push_back(i);
  searches_[&problem] = std::make_unique<Search>(*this, problem, std::move(space), std::move(candidates));
}

/// Whether an earlier run has ended a search with a budget in seconds: it has tried every variant and timed
/// the finalists.
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
std::optional<Resources> Screening::resources_to_run(const ScheduledProblem& problem, std::size_t index) {
  const Candidate& candidate = problem.candidates[index];
  if (const KnownRow* row = known(*problem.item, candidate))
    return row->measurement.status == Status::constraint ? std::nullopt
                                                         : std::optional(row->measurement.resources);
  const CompileResult& built = builds_.at(&problem).take(index);
  const bool runs = built.kind == CompileResult::Kind::ok && !pruned(candidate, built.resources);
  return runs ? std::optional(built.resources) : std::nullopt;
}

Measurement Screening::try_one(const SweepItem& item, const Candidate& candidate, const CompileResult& built,
                               double best_us, Deadline& deadline) {
  if (built.kind != CompileResult::Kind::ok) return {.status = status_of(built.kind), .detail = built.detail};
  if (const auto why = pruned(candidate, built.resources))
    return {.status = Status::constraint, .detail = *why, .resources = built.resources};
  Measurement m = worker_.measure(
      {item.problem, item.options, candidate.variant->name, candidate.config(), best_us}, deadline);
  if (built.resources.registers > 0 && m.resources.registers == 0) m.resources = built.resources;
  m.resources.code_hash = built.resources.code_hash;
  m.resources.compile_ms = std::max(m.resources.compile_ms, built.resources.compile_ms);
  return m;
}

}  // namespace warptune
