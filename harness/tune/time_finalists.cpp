#include "harness/tune/time_finalists.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/core/error.h"

namespace warptune {
namespace {

constexpr int kRounds = 21;

using Indices = std::vector<std::size_t>;

void keep_finalists(const Indices& finalists, std::vector<Measurement>& measurements) {
  for (std::size_t i = 0; i < measurements.size(); ++i)
    if (measurements[i].status == Status::ok && std::ranges::find(finalists, i) == finalists.end())
      measurements[i].abandoned = true;
}

/// From the rows of earlier runs. False where not all finalists have one.
bool recall(const SweepItem& item, const Indices& finalists, Trials& trials, const DeviceRows& rows) {
  std::vector<const KnownRow*> known;
  for (const std::size_t i : finalists) {
    known.push_back(rows.finalist(item, trials.candidates[i]));
    if (!known.back()) return false;
  }
  keep_finalists(finalists, trials.measurements);
  for (std::size_t f = 0; f < finalists.size(); ++f) {
    trials.measurements[finalists[f]] = known[f]->measurement;
    trials.runs[finalists[f]] = known[f]->run_id;
  }
  return true;
}

}  // namespace

void time_finalists(const SweepItem& item, const Indices& finalists, Trials& trials, DeviceWorker& worker,
                    DeviceRows& rows, std::FILE* log) {
  if (finalists.empty() || (!trials.any_new && recall(item, finalists, trials, rows))) return;
  FinalistsJob job{.problem = item.problem, .options = item.options, .rounds = kRounds, .finalists = {}};
  for (const std::size_t i : finalists)
    job.finalists.push_back({trials.candidates[i].variant->name, trials.candidates[i].config});
  std::vector<FinalistTimes> times;
  try {
    times = worker.time(job);
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& e) {
    fmt::print(log, "{}: the finalists could not be timed again ({})\n", item.problem.key(), e.what());
    return;
  }
  keep_finalists(finalists, trials.measurements);
  for (std::size_t f = 0; f < finalists.size(); ++f) {
    const Candidate& candidate = trials.candidates[finalists[f]];
    Measurement& measurement = trials.measurements[finalists[f]];
    FinalistTimes& t = times[f];
    for (Measurement* m : {&t.main, &t.hot, &t.isolated}) {
      m->resources = measurement.resources;
      m->detail = m->detail.empty() ? "finalist" : "finalist; " + m->detail;
    }
    rows.write(item, candidate, t.main);
    if (item.options.cache == CacheMode::cold) rows.write(item, candidate, t.hot, "hot");
    rows.write(item, candidate, t.isolated, "isolated");
    measurement = t.main;
    trials.runs[finalists[f]] = rows.run_id();
  }
}

}  // namespace warptune
