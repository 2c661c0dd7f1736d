#include "tune/screening.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "tune/search_order.h"

namespace warptune {
namespace {

constexpr std::size_t kAhead = 64;  // configurations compiled before the worker asks for them
constexpr int kProposals = 4;       // asked of a strategy before the first is measured

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

std::vector<CompileTask> tasks_of(const Sweep& sweep, const std::vector<PlannedProblem>& problems,
                                  const DeviceRows& rows) {
  std::vector<CompileTask> tasks;
  if (sweep.search.searching()) return tasks;
  for (const PlannedProblem& p : problems)
    for (const Candidate& c : p.candidates)
      if (is_compiled(*c.variant) && !rows.tried(*p.item, c))
        tasks.push_back({c.variant, &p.item->problem, &c.config});
  return tasks;
}

}  // namespace

Screening::Screening(const Sweep& sweep, const TuneOptions& options,
                     const std::vector<PlannedProblem>& problems, const Compiler& compiler, int lanes,
                     DeviceWorker& worker, DeviceRows& rows)
    : sweep_(sweep),
      options_(options),
      compiler_(compiler),
      worker_(worker),
      rows_(rows),
      lanes_(compiler, worker.facts(), tasks_of(sweep, problems, rows), lanes, kAhead) {}

Trials Screening::run(const PlannedProblem& planned, Progress& progress, TuneSummary& summary) {
  const SweepItem& item = *planned.item;
  struct Tried {
    Measurement measurement;
    std::string run;
  };
  std::map<std::size_t, Tried> tried;  // in canonical order
  Trials trials;
  Deadline deadline(options_.deadline);
  double best = NAN, best_high = NAN;
  worker_.begin_problem();
  const auto attempt = [&](std::size_t index, const std::function<CompileResult()>& built) {
    const Candidate& c = planned.candidates[index];
    const KnownRow* row = rows_.tried(item, c);
    Tried now = row ? Tried{row->measurement, row->run_id}
                    : Tried{try_one(item, c, built(), best_high, deadline), rows_.run_id()};
    if (!row) rows_.write(item, c, now.measurement);
    const Measurement& m = now.measurement;
    trials.any_new |= !row;
    summary.known += row != nullptr;
    ++summary.configurations;
    if (m.status == Status::ok) {
      ++summary.ok;
      best = std::fmin(best, m.time_us);
      best_high = std::fmin(best_high, m.ci_high_us);
    }
    progress.step(item.problem.key(), best);
    return tried.insert_or_assign(index, std::move(now)).first->second.measurement;
  };
  if (sweep_.search.searching()) {
    SearchOrder order(planned, sweep_.search, compiler_, worker_.facts(), kProposals);
    while (const auto proposal = order.next()) {
      const Measurement m = attempt(proposal->candidate, [&] { return proposal->built; });
      order.tell(proposal->candidate, m.status == Status::ok ? std::optional(m.time_us) : std::nullopt);
    }
  } else {
    for (std::size_t i = 0; i < planned.candidates.size(); ++i)
      attempt(i, [&] {
        return is_compiled(*planned.candidates[i].variant) ? lanes_.take(task_++, options_.compile_seconds)
                                                           : CompileResult{};
      });
  }
  for (auto& [index, t] : tried) {
    trials.candidates.push_back(planned.candidates[index]);
    trials.measurements.push_back(std::move(t.measurement));
    trials.runs.push_back(std::move(t.run));
  }
  return trials;
}

Measurement Screening::try_one(const SweepItem& item, const Candidate& candidate, const CompileResult& built,
                               double best_us, Deadline& deadline) {
  if (built.kind != CompileResult::Kind::ok) return {.status = status_of(built.kind), .detail = built.detail};
  Measurement m = worker_.measure(
      {item.problem, item.options, candidate.variant->name, candidate.config, best_us}, deadline);
  if (built.resources.registers > 0 && m.resources.registers == 0) m.resources = built.resources;
  m.resources.compile_ms = std::max(m.resources.compile_ms, built.resources.compile_ms);
  return m;
}

}  // namespace warptune
