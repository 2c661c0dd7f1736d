#include "harness/tune/summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/core/print.h"
#include "harness/core/text_table.h"
#include "harness/tune/progress.h"

namespace warptune {

TuneSummary added_up(std::vector<TuneSummary> parts) {
  TuneSummary sum = std::move(parts.front());
  for (std::size_t i = 1; i < parts.size(); ++i) {
    sum.configurations += parts[i].configurations;
    sum.ok += parts[i].ok;
    sum.other_csvs.push_back(parts[i].csv);
    sum.pruned += parts[i].pruned;
    sum.known += parts[i].known;
    sum.kept_cold += parts[i].kept_cold;
    sum.searched_before += parts[i].searched_before;
    sum.problems_left += parts[i].problems_left;
    sum.busy_seconds += parts[i].busy_seconds;
    sum.worker_seconds += parts[i].worker_seconds;
    sum.tuning_seconds += parts[i].tuning_seconds;
    sum.stages += parts[i].stages;
    std::ranges::move(parts[i].winners, std::back_inserter(sum.winners));
    std::ranges::move(parts[i].unsolved, std::back_inserter(sum.unsolved));
    std::ranges::move(parts[i].shared, std::back_inserter(sum.shared));
  }
  return sum;
}

namespace {

void print_winners(std::FILE* log, const TuneSummary& summary) {
  std::vector<TextTable::Column> columns = {text_column("problem")};
  for (auto& column : speed_columns()) columns.push_back(std::move(column));
  TextTable table(std::move(columns));
  for (const ProblemWinner& w : summary.winners) {
    std::vector<Cell> cells = {w.label};
    for (Cell& cell : speed_cells(w.speed)) cells.push_back(std::move(cell));
    const std::string& throttled = w.measurement.clocks.throttled;
    const bool slowed = !throttled.empty() && throttled != "none";
    table.add(std::move(cells), fmt::format("{} {}{}", w.variant, w.config.str(),
                                            slowed ? fmt::format("  (throttled: {})", throttled) : ""));
  }
  for (const Problem& p : summary.unsolved) table.add({p.key()}, "no winner");
  print(log, "\n");
  print(log, table);
}

/// `other` is what no stage has: messages between the processes, choosing winners, lost workers.
void print_stages(std::FILE* log, const TuneSummary& summary) {
  const auto measured = static_cast<double>(summary.configurations - summary.known);
  TextTable table({text_column("stage"), {"s"}, {"ms per configuration"}, {"% of the time"}});
  const auto add = [&](std::string_view name, double seconds) {
    table.add({std::string(name), fmt::format("{:.2f}", seconds),
               measured > 0 ? fmt::format("{:.2f}", 1e3 * seconds / measured) : "-",
               fmt::format("{:.1f}", 100 * seconds / summary.tuning_seconds)});
  };
  for (std::size_t i = 0; i < kTuningStages; ++i)
    add(name_of(TuningStage(i)), summary.stages[TuningStage(i)]);
  add("other", summary.tuning_seconds - summary.stages.sum());
  add("all", summary.tuning_seconds);
  print(log, "\n");
  print(log, table);
}

}  // namespace

void print_summary(std::FILE* log, const TuneSummary& summary, bool verbose) {
  print_winners(log, summary);
  const std::string pruned = summary.pruned > 0 ? fmt::format(", {} pruned", summary.pruned) : "";
  print(log, "\n{} configurations, {} ok, {} failed{}, {} ({:.1f} per second)\n", summary.configurations,
        summary.ok, summary.configurations - summary.ok - summary.pruned, pruned, clock_text(summary.seconds),
        static_cast<double>(summary.configurations - summary.known) / summary.seconds);
  if (summary.known > 0)
    print(log, "{} of them are from an earlier run (--fresh measures them again, --retry only failed ones)\n",
          summary.known);
  if (verbose && summary.worker_seconds > 0) {
    print_stages(log, summary);
    print(log, "the workers measured {:.0f} % of the time since their first jobs\n",
          100 * summary.busy_seconds / summary.worker_seconds);
  }
  if (summary.kept_cold > 0)
    print(log, "the wisdom keeps the cold winners of {} that this sweep timed hot\n",
          counted(summary.kept_cold, "problem"));
  if (summary.searched_before > 0)
    print(log, "{} {} searched by an earlier run; --fresh searches again\n",
          counted(summary.searched_before, "problem"), summary.searched_before > 1 ? "were" : "was");
  if (summary.problems_left + summary.steps_left > 0)
    print(log, "the budget is spent: {} and {} are left; the same command goes on\n",
          counted(summary.problems_left, "problem"), counted(summary.steps_left, "step"));
  print(log, "CSV:    {}\nwisdom: {}\n", summary.csv.string(), summary.wisdom.string());
  std::fflush(log);
}

}  // namespace warptune
