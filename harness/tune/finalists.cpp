#include "harness/tune/finalists.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "harness/measure/clock_watch.h"

namespace warptune {
namespace {

bool timed(const Measurement& m) { return m.status == Status::ok && std::isfinite(m.time_us); }

/// Whether m, which is not faster than `fastest`, cannot be told from it.
bool is_tied(const Measurement& m, const Measurement& fastest) {
  const double high = std::isfinite(fastest.ci_high_us) ? fastest.ci_high_us : fastest.time_us;
  const double low = std::isfinite(m.ci_low_us) ? m.ci_low_us : m.time_us;
  return low <= high || m.time_us <= fastest.time_us * (1 + kSameTime);
}

}  // namespace

std::vector<std::size_t> choose_finalists(std::span<const Measurement> measurements, int most) {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < measurements.size(); ++i)
    if (timed(measurements[i]) && !measurements[i].abandoned) chosen.push_back(i);
  std::ranges::stable_sort(chosen, {}, [&](std::size_t i) { return measurements[i].time_us; });
  if (chosen.size() > static_cast<std::size_t>(std::max(most, 0)))
    chosen.resize(static_cast<std::size_t>(std::max(most, 0)));
  return chosen;
}

std::optional<Choice> choose_winner(std::span<const Measurement> measurements) {
  const Measurement* fastest = nullptr;
  for (const Measurement& m : measurements)
    if (timed(m) && !m.abandoned && (!fastest || m.time_us < fastest->time_us)) fastest = &m;
  if (!fastest) return std::nullopt;
  std::vector<std::size_t> tied;
  for (std::size_t i = 0; i < measurements.size(); ++i)
    if (timed(measurements[i]) && !measurements[i].abandoned && is_tied(measurements[i], *fastest))
      tied.push_back(i);
  const auto winner = std::ranges::min_element(tied, {}, [&](std::size_t i) {
    const Resources& r = measurements[i].resources;
    const bool library = r.registers == 0;  // which does not say what it needs
    return std::tuple(library, r.shared_bytes, r.registers, i);
  });
  Choice choice{.winner = *winner, .tied = {}, .throttled = false};
  choice.throttled = held_down(measurements[choice.winner].clocks.throttled);
  for (const std::size_t i : tied)
    if (i != choice.winner) choice.tied.push_back(i);
  return choice;
}

}  // namespace warptune
