#include "harness/tune/summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/tune/progress.h"

namespace warptune {

TuneSummary added_up(std::vector<TuneSummary> parts) {
  TuneSummary sum = std::move(parts.front());
  for (std::size_t i = 1; i < parts.size(); ++i) {
    sum.configurations += parts[i].configurations;
    sum.ok += parts[i].ok;
    sum.pruned += parts[i].pruned;
    sum.known += parts[i].known;
    sum.kept_cold += parts[i].kept_cold;
    sum.busy_seconds += parts[i].busy_seconds;
    sum.worker_seconds += parts[i].worker_seconds;
    std::ranges::move(parts[i].winners, std::back_inserter(sum.winners));
    std::ranges::move(parts[i].unsolved, std::back_inserter(sum.unsolved));
  }
  return sum;
}

void print_summary(std::FILE* log, const TuneSummary& summary) {
  std::size_t widest = 7;
  for (const ProblemWinner& w : summary.winners) widest = std::max(widest, w.problem.key().size());
  fmt::print(log, "\n{:<{}}  {:>10}  {:>7}  winner\n", "problem", widest, "time us", "% floor");
  for (const ProblemWinner& w : summary.winners) {
    const Measurement& m = w.measurement;
    const bool slowed = !m.clocks.throttled.empty() && m.clocks.throttled != "none";
    fmt::print(log, "{:<{}}  {:>10.3f}  {:>7}  {} {}{}\n", w.problem.key(), widest, m.time_us,
               m.floor_us > 0 ? fmt::format("{:.1f}", 100 * m.floor_us / m.time_us) : "", w.variant,
               w.config.str(), slowed ? fmt::format("  (clocks held down: {})", m.clocks.throttled) : "");
  }
  for (const Problem& p : summary.unsolved) fmt::print(log, "{:<{}}  no winner\n", p.key(), widest);
  const std::string pruned = summary.pruned > 0 ? fmt::format(", {} pruned", summary.pruned) : "";
  fmt::print(log, "\n{} configurations, {} ok, {} failed{}, {} ({:.1f} a second)\n", summary.configurations,
             summary.ok, summary.configurations - summary.ok - summary.pruned, pruned,
             clock_text(summary.seconds),
             static_cast<double>(summary.configurations - summary.known) / summary.seconds);
  if (summary.known > 0)
    fmt::print(
        log, "{} of them were known from an earlier run (--fresh measures them again, --retry failed ones)\n",
        summary.known);
  if (summary.worker_seconds > 0)
    fmt::print(log, "the workers were measuring {:.0f} % of the time since their first jobs\n",
               100 * summary.busy_seconds / summary.worker_seconds);
  if (summary.kept_cold > 0)
    fmt::print(log, "the wisdom keeps the cold winners of {} problem{} that this sweep timed hot\n",
               summary.kept_cold, summary.kept_cold > 1 ? "s" : "");
  fmt::print(log, "CSV:    {}\nwisdom: {}\n", summary.csv.string(), summary.wisdom.string());
  std::fflush(log);
}

}  // namespace warptune
