#include "harness/tune/finalists.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/core/print.h"
#include "harness/measure/clock_watch.h"

namespace warptune {
namespace {

constexpr int kRounds = 21;
constexpr int kContenders = 3;       // that a fresh process times
constexpr double kCannotWin = 1.05;  // the lower end of an interval over the upper end of the fastest one

using Indices = std::vector<std::size_t>;

bool may_win(const Measurement& m) {
  return m.status == Status::ok && std::isfinite(m.time_us) && m.sampling != SamplingClass::abandoned;
}

/// What the objective wants least of.
double value_of(const Measurement& m, Objective objective) {
  if (objective == Objective::time) return m.time_us;
  return objective == Objective::energy ? m.energy_uj : m.energy_uj * m.time_us;
}

/// Whether m ties with `fastest`, the best of all.
bool is_tied(const Measurement& m, const Measurement& fastest, Objective objective) {
  if (objective != Objective::time)
    return value_of(m, objective) <= value_of(fastest, objective) * (1 + kSameEnergy);
  const double high = std::isfinite(fastest.ci_high_us) ? fastest.ci_high_us : fastest.time_us;
  const double low = std::isfinite(m.ci_low_us) ? m.ci_low_us : m.time_us;
  return low <= high || m.time_us <= fastest.time_us * (1 + kSameTime);
}

void keep_finalists(const Indices& finalists, std::vector<Measurement>& measurements) {
  for (std::size_t i = 0; i < measurements.size(); ++i)
    if (measurements[i].status == Status::ok && !contains(finalists, i))
      measurements[i].sampling = SamplingClass::abandoned;
}

/// Takes the times from rows of earlier runs. False where a finalist has none, lacks a sustained time, or an
/// energy that the device measures.
bool recall(const SweepItem& item, const Indices& finalists, Trials& trials, const DeviceRows& rows,
            bool measures_energy) {
  std::vector<const KnownRow*> known;
  for (const std::size_t i : finalists) {
    known.push_back(rows.finalist(item, trials.candidates[i]));
    if (!known.back()) return false;
    const bool lacks =
        item.objective != Objective::time && !std::isfinite(known.back()->measurement.energy_uj);
    if (measures_energy && lacks) return false;
    if (item.sustained && !std::isfinite(known.back()->measurement.sustained_us)) return false;
  }
  keep_finalists(finalists, trials.measurements);
  for (std::size_t f = 0; f < finalists.size(); ++f) {
    trials.measurements[finalists[f]] = known[f]->measurement;
    trials.runs[finalists[f]] = known[f]->run_id;
  }
  return true;
}

/// Times configurations interleaved. Nothing where that fails; the log then has the reason.
std::vector<FinalistTimes> interleaved_times(const SweepItem& item, const Indices& indices,
                                             const Trials& trials, FinalistExtras extras,
                                             DeviceWorker& worker, std::FILE* log) {
  extras.energy = item.objective != Objective::time;
  FinalistsJob job{
      .problem = item.problem, .options = item.options, .rounds = kRounds, .finalists = {}, .extras = extras};
  for (const std::size_t i : indices)
    job.finalists.push_back({trials.candidates[i].variant->name, trials.candidates[i].config()});
  try {
    return worker.time(job);
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& e) {
    print(log, "{}: the finalists could not be timed again ({})\n", item.problem.key(), e.what());
    return {};
  }
}

/// The winner and the fastest others, which may replace it.
Indices contenders(const Trials& trials, const Choice& choice) {
  Indices all = choose_finalists(trials.measurements, kContenders);
  if (!contains(all, choice.winner)) all.back() = choice.winner;
  return all;
}

}  // namespace

std::string difference_in_fresh_process(const Measurement& before, const Measurement& fresh) {
  if (fresh.status != Status::ok || before.status != Status::ok) return {};
  const auto [low, high] = std::minmax(before.time_us, fresh.time_us);
  const bool overlap = before.ci_low_us <= fresh.ci_high_us && fresh.ci_low_us <= before.ci_high_us;
  if (overlap || high <= low * (1 + kSameTime)) return {};
  return fmt::format("{:.4g} us in the process of the sweep, {:.4g} us in a fresh one", before.time_us,
                     fresh.time_us);
}

std::optional<Choice> choice_after(std::span<const Measurement> fresh, std::size_t winner,
                                   Objective objective) {
  const auto choice = choose_winner(fresh, objective);
  if (!choice || choice->winner == winner || contains(choice->tied, winner)) return std::nullopt;
  return choice;
}

bool time_in_fresh_process(const SweepItem& item, Choice& choice, Trials& trials, DeviceWorker& worker,
                           DeviceRows& rows, std::FILE* log) {
  const Indices timed = contenders(trials, choice);
  const std::vector<FinalistTimes> times =
      interleaved_times(item, timed, trials, {.other_caches = false}, worker, log);
  if (times.empty()) return false;
  std::vector<Measurement> fresh = trials.measurements;
  keep_finalists(timed, fresh);
  for (std::size_t t = 0; t < timed.size(); ++t) {
    const std::size_t i = timed[t];
    const Measurement& before = trials.measurements[i];
    fresh[i] = times[t].main;
    fresh[i].resources = before.resources;
    fresh[i].sampling = SamplingClass::fresh_process;
    if (const std::string note = difference_in_fresh_process(before, fresh[i]); !note.empty())
      fresh[i].detail += (fresh[i].detail.empty() ? "" : "; ") + note;
    rows.write(item, trials.candidates[i], fresh[i]);
  }
  const auto better = choice_after(fresh, choice.winner, item.objective);
  if (!better) return false;
  choice = *better;
  trials.measurements = std::move(fresh);
  for (const std::size_t i : timed) trials.runs[i] = rows.run_id();
  return true;
}

std::vector<std::size_t> choose_finalists(std::span<const Measurement> measurements, int count,
                                          std::span<const std::size_t> peers) {
  std::vector<std::size_t> chosen;
  if (count <= 0) return chosen;
  double fastest_high = INFINITY;
  for (std::size_t i = 0; i < measurements.size(); ++i) {
    if (!may_win(measurements[i])) continue;
    chosen.push_back(i);
    const bool is_peer = contains(peers, i);
    if (!is_peer) fastest_high = std::fmin(fastest_high, measurements[i].ci_high_us);
  }
  std::erase_if(chosen, [&](std::size_t i) {
    return !contains(peers, i) && measurements[i].ci_low_us > kCannotWin * fastest_high;
  });
  std::ranges::stable_sort(chosen, {}, [&](std::size_t i) { return measurements[i].time_us; });
  int left = count, peers_left = 1;
  std::erase_if(chosen, [&](std::size_t i) {
    int& places = !contains(peers, i) ? left : peers_left;
    return places-- <= 0;
  });
  return chosen;
}

bool lacks_energy(std::span<const Measurement> measurements, Objective objective) {
  return objective != Objective::time && std::ranges::any_of(measurements, [](const Measurement& m) {
           return may_win(m) && !std::isfinite(m.energy_uj);
         });
}

std::optional<Choice> choose_winner(std::span<const Measurement> measurements, Objective objective) {
  if (lacks_energy(measurements, objective)) objective = Objective::time;
  const Measurement* best = nullptr;
  for (const Measurement& m : measurements)
    if (may_win(m) && (!best || value_of(m, objective) < value_of(*best, objective))) best = &m;
  if (!best) return std::nullopt;
  std::vector<std::size_t> tied;
  for (std::size_t i = 0; i < measurements.size(); ++i)
    if (may_win(measurements[i]) && is_tied(measurements[i], *best, objective)) tied.push_back(i);
  const auto winner = std::ranges::min_element(tied, {}, [&](std::size_t i) {
    const Resources& r = measurements[i].resources;
    const bool library = r.registers == 0;  // its needs are unknown
    return std::tuple(library, r.shared_bytes, r.registers, i);
  });
  Choice choice{.winner = *winner, .tied = {}, .throttled = false};
  choice.throttled = is_throttling(measurements[choice.winner].clocks.throttled);
  for (const std::size_t i : tied)
    if (i != choice.winner) choice.tied.push_back(i);
  return choice;
}

void time_finalists(const SweepItem& item, const Indices& finalists, Trials& trials, DeviceWorker& worker,
                    DeviceRows& rows, std::FILE* log) {
  const bool measures_energy = worker.facts().backend == Backend::cuda;
  if (finalists.empty() || (!trials.any_new && recall(item, finalists, trials, rows, measures_energy)))
    return;
  std::vector<FinalistTimes> times = interleaved_times(
      item, finalists, trials, {.other_caches = item.other_caches, .sustained = item.sustained}, worker, log);
  if (times.empty()) return;
  keep_finalists(finalists, trials.measurements);
  for (std::size_t f = 0; f < finalists.size(); ++f) {
    const Candidate& candidate = trials.candidates[finalists[f]];
    Measurement& measurement = trials.measurements[finalists[f]];
    FinalistTimes& t = times[f];
    for (Measurement* m : {&t.main, &t.hot, &t.isolated}) {
      m->resources = measurement.resources;
      m->sampling = m == &t.main ? SamplingClass::finalist : SamplingClass::other_cache;
    }
    rows.write(item, candidate, t.main);
    if (item.other_caches) {
      if (item.options.cache == CacheMode::cold) rows.write(item, candidate, t.hot, "hot");
      rows.write(item, candidate, t.isolated, "isolated");
    }
    measurement = t.main;
    trials.runs[finalists[f]] = rows.run_id();
  }
}

}  // namespace warptune
