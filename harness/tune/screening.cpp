#include "harness/tune/screening.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "harness/select/tuned_plans.h"

namespace warptune {
namespace {

constexpr std::size_t kAhead = 256;        // configurations compiled before the worker needs them
constexpr std::size_t kProblemsAhead = 4;  // searches whose first proposals idle compile jobs compile

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

ProblemScreening::ProblemScreening(const ScheduledProblem& problem, ScreeningContext& context)
    : problem_(problem), item_(*problem.item), context_(context), deadline_(context.options.deadline) {}

/// The row of an earlier run that tried the candidate or pruned it by a rule that still holds; else nullptr.
const KnownRow* ProblemScreening::known(std::size_t candidate) const {
  const KnownRow* row = context_.rows.known(item_, problem_.candidates[candidate]);
  if (!row || row->rows < context_.options.rerun) return nullptr;
  const Measurement& m = row->measurement;
  const bool is_pruned = m.detail.starts_with(kPruned) && context_.prune.broken(m.resources);
  return m.status == Status::constraint && !is_pruned ? nullptr : row;
}

/// The search does not follow what cannot win.
bool ProblemScreening::may_win(std::size_t candidate) const {
  return warptune::may_win(*problem_.candidates[candidate].variant, context_.worker.facts());
}

/// Queues the compilation of a candidate that has kernels of its own and no row.
void ProblemScreening::compile(std::size_t candidate) {
  const Candidate& c = problem_.candidates[candidate];
  if (is_compiled(*c.variant) && !known(candidate) && !builds_.contains(candidate))
    builds_.emplace(candidate, Build{context_.pool.add({c.variant, &item_.problem, c.config()})});
}

void ProblemScreening::compile_all() {
  for (std::size_t i = 0; i < problem_.candidates.size(); ++i) compile(i);
}

/// Waits for a compilation. What is not compiled is ok and has no resources.
const CompileResult& ProblemScreening::built(std::size_t candidate) {
  static const CompileResult kNotCompiled;
  const auto build = builds_.find(candidate);
  if (build == builds_.end()) return kNotCompiled;
  auto& [task, result] = build->second;
  if (!result) {
    const StageTimer timer(context_.stages, TuningStage::compile);
    result = context_.pool.take(task, context_.options.compile_seconds);
  }
  return *result;
}

/// The prune rule that a candidate meets. Candidates without kernels of their own meet none.
std::optional<std::string> ProblemScreening::broken_rule(std::size_t candidate,
                                                         const Resources& resources) const {
  return is_compiled(*problem_.candidates[candidate].variant) ? context_.prune.broken(resources)
                                                              : std::nullopt;
}

/// The resources of a candidate, from its row or its code; nothing where it does not compile or is pruned.
std::optional<Resources> ProblemScreening::resources_to_run(std::size_t candidate) {
  if (const KnownRow* row = known(candidate))
    return row->measurement.status == Status::constraint ? std::nullopt
                                                         : std::optional(row->measurement.resources);
  const CompileResult& build = built(candidate);
  const bool runs = build.kind == CompileResult::Kind::ok && !broken_rule(candidate, build.resources);
  return runs ? std::optional(build.resources) : std::nullopt;
}

/// Whether an earlier run has ended a search with a budget in seconds: it has tried every variant and timed
/// the finalists.
bool ProblemScreening::search_has_ended() const {
  const TuneOptions& options = context_.options;
  if (context_.sweep.search.budget.unit != Budget::Unit::seconds || !options.retry.empty() ||
      options.rerun > 0)
    return false;
  bool has_finalists = false;
  std::set<const Variant*> variants, tried;
  for (std::size_t i = 0; i < problem_.candidates.size(); ++i) {
    const Candidate& c = problem_.candidates[i];
    variants.insert(c.variant);
    if (known(i)) tried.insert(c.variant);
    has_finalists |= context_.rows.finalist(item_, c) != nullptr;
  }
  return has_finalists && tried == variants;
}

/// The search starts with the default tiles of the problem.
void ProblemScreening::begin_search() {
  if (order_ || search_has_ended()) return;
  const SearchChoice& search = context_.sweep.search;
  const DeviceFacts& facts = context_.worker.facts();
  SearchSpace space{.problem = item_.problem.key(),
                    .floor_us = floor_us(facts, item_.entry->op.cost(item_.problem), item_.problem)};
  for (const VariantChoice& choice : item_.choices) {
    auto& texts = space.constraints[choice.variant->name];
    for (const auto* constraints : {&choice.variant->constraints, &choice.constraints})
      for (const Expression& constraint : *constraints) texts.push_back(constraint.text());
  }
  for (std::size_t i = 0; i < problem_.candidates.size(); ++i) {
    const auto resources = search.resources ? resources_to_run(i) : Resources{};
    if (!resources) continue;
    space.candidates.push_back(search_candidate(problem_.candidates[i], *resources));
    searched_.push_back(i);
  }
  for (const DefaultTile& tile : context_.sweep.ops->default_tiles(item_.problem, facts))
    for (std::size_t i = 0; i < space.candidates.size(); ++i)
      if (space.candidates[i].variant == tile.variant->name && space.candidates[i].config == tile.config)
        space.likely.push_back(i);
  const StageTimer timer(context_.stages, TuningStage::search);
  const int ahead = proposals_ahead(search.budget, searched_.size(), context_.compile_jobs);
  order_.emplace(std::move(space), search, ahead, [this](std::size_t i) { compile(searched_[i]); });
}

/// What the search tries next, as an index into `searched_`.
std::optional<std::size_t> ProblemScreening::next_proposal() {
  if (!order_) return std::nullopt;
  const StageTimer timer(context_.stages, TuningStage::search);
  return order_->next();
}

Measurement ProblemScreening::measure(std::size_t candidate) {
  const CompileResult& build = built(candidate);
  if (build.kind != CompileResult::Kind::ok) return {.status = status_of(build.kind), .detail = build.detail};
  if (const auto why = broken_rule(candidate, build.resources))
    return {.status = Status::constraint, .detail = *why, .resources = build.resources};
  const Candidate& c = problem_.candidates[candidate];
  const bool is_timed_again = item_.finalists > 0 && problem_.candidates.size() > 1;
  Measurement m = context_.worker.measure({item_.problem, item_.options, c.variant->name, c.config(),
                                           best_high_us_, is_timed_again ? kScreeningSampleUs : kSampleUs},
                                          deadline_, [this] {
                                            if (order_) order_->propose();
                                          });
  if (build.resources.registers > 0 && m.resources.registers == 0) m.resources = build.resources;
  m.resources.code_hash = build.resources.code_hash;
  m.resources.compile_ms = std::max(m.resources.compile_ms, build.resources.compile_ms);
  return m;
}

/// Takes the row of an earlier run, or measures the candidate and writes its row.
const Measurement& ProblemScreening::attempt(std::size_t candidate, Progress& progress,
                                             TuneSummary& summary) {
  const KnownRow* row = known(candidate);
  Trial& trial = trials_[candidate];
  trial = row ? Trial{row->measurement, row->run_id} : Trial{measure(candidate), context_.rows.run_id()};
  Measurement& m = trial.measurement;
  if (!row && problem_.candidates.size() == 1 && m.sampling == SamplingClass::screened)
    m.sampling = context_.options.rerun > 0 ? SamplingClass::rerun : SamplingClass::single;
  if (!row) {
    const StageTimer timer(context_.stages, TuningStage::row);
    context_.rows.write(item_, problem_.candidates[candidate], m);
  }
  const bool is_pruned = m.status == Status::constraint;
  any_new_ |= !row && !is_pruned;
  summary.known += row != nullptr;
  summary.pruned += is_pruned;
  ++summary.configurations;
  summary.ok += m.status == Status::ok;
  if (m.status == Status::ok && may_win(candidate)) {
    best_us_ = std::fmin(best_us_, m.time_us);
    best_high_us_ = std::fmin(best_high_us_, m.ci_high_us);
  }
  progress.step(item_.problem.key(), best_us_);
  return m;
}

Trials ProblemScreening::run(Progress& progress, TuneSummary& summary) {
  const bool is_search = context_.sweep.search.searching(), has_ended = is_search && search_has_ended();
  context_.worker.begin_problem();
  if (is_search) begin_search();
  summary.searched_before += has_ended;
  // A search spends no budget on candidates that do not compile or are pruned.
  for (std::size_t i = 0; i < problem_.candidates.size(); ++i)
    if (has_ended ? known(i) != nullptr : !std::ranges::binary_search(searched_, i))
      attempt(i, progress, summary);
  while (const auto i = next_proposal()) {
    const Measurement& m = attempt(searched_[*i], progress, summary);
    order_
        ->propose();  // the same ones where the worker measured nothing, so that a resumed search is the same
    const bool counts = m.status == Status::ok && may_win(searched_[*i]);
    order_->tell(*i, counts ? std::optional(m.time_us) : std::nullopt);
  }
  Trials trials{.any_new = any_new_};
  for (auto& [candidate, trial] : trials_) {
    if (!may_win(candidate)) trials.peers.push_back(trials.candidates.size());
    trials.candidates.push_back(problem_.candidates[candidate]);
    trials.first_us.push_back(trial.measurement.time_us);
    trials.measurements.push_back(std::move(trial.measurement));
    trials.runs.push_back(std::move(trial.run));
  }
  return trials;
}

Screening::Screening(const Sweep& sweep, const TuneOptions& options, const Schedule& schedule,
                     CompilePool::Compile compile, int compile_jobs, DeviceWorker& worker, DeviceRows& rows)
    : schedule_(schedule),
      context_{sweep,
               options,
               worker,
               rows,
               PruneRules(sweep.prune),
               compile_jobs,
               {std::move(compile), compile_jobs, kAhead}} {
  for (const ScheduledProblem& p : schedule) {
    ProblemScreening& problem = problems_.try_emplace(&p, p, context_).first->second;
    if (!sweep.search.searching() || sweep.search.resources) problem.compile_all();
  }
}

Trials Screening::run(const ScheduledProblem& problem, Progress& progress, TuneSummary& summary) {
  const SearchChoice& search = context_.sweep.search;
  if (search.searching() && !search.resources) {
    const auto at = static_cast<std::size_t>(&problem - schedule_.data());
    for (const ScheduledProblem& p : schedule_.subspan(at, std::min(kProblemsAhead, schedule_.size() - at)))
      problems_.at(&p).begin_search();
  }
  Trials trials = problems_.at(&problem).run(progress, summary);
  problems_.erase(&problem);
  return trials;
}

}  // namespace warptune
