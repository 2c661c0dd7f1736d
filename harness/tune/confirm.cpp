#include "harness/tune/confirm.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "harness/core/error.h"
#include "harness/core/print.h"
#include "harness/results/durable_file.h"
#include "harness/results/run_info.h"
#include "harness/results/sweep_file.h"
#include "harness/tune/profile.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

/// The winners and steps that are the configurations of these rows.
Wisdom winners_among(const Wisdom& wisdom, const std::vector<const RowChange*>& rows) {
  std::set<std::string> wanted;
  const auto name = [](const std::string& problem, const std::string& variant, const std::string& config) {
    return problem + '\n' + variant + '\n' + config;
  };
  for (const RowChange* row : rows) wanted.insert(name(row->now.problem, row->now.variant, row->now.config));
  Wisdom chosen(wisdom.provenance());
  for (const Winner& winner : wisdom.winners())
    if (wanted.contains(name(winner.problem.key(), winner.variant, winner.config.str()))) chosen.put(winner);
  for (const StepWinner& step : wisdom.steps())
    if (wanted.contains(name(step.step.key(), kStepPlans, step.plans.options.str()))) chosen.put(step);
  return chosen;
}

std::string last_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line, last;
  while (std::getline(in, line))
    if (!line.empty()) last = line;
  return last;
}

/// The rows of one more run of the winners.
std::vector<TimedConfig> run_once(const fs::path& program, const fs::path& wisdom, const std::string& name,
                                  const ConfirmOptions& options) {
  const fs::path folder = wisdom.parent_path(), log = folder / (name + ".log");
  std::vector<std::string> words = {program.string(), "rerun",         wisdom.string(), "--name",      name,
                                    "--out",          folder.string(), "--device",      options.device};
  for (const std::string& model : options.models) words.insert(words.end(), {"--model", model});
  const std::string command = shell_text(words);
  const int status = std::system((command + " > " + shell_text({log.string()}) + " 2>&1").c_str());
  for (const auto& entry : fs::directory_iterator(folder))
    if (const fs::path csv = entry.path() / (name + ".csv"); fs::exists(csv)) return read_timed_configs(csv);
  throw InputError("'{}' timed no row again (exit code {}): {}", program.string(),
                   WIFEXITED(status) ? WEXITSTATUS(status) : -1, last_line(log));
}

/// Adds the runs. Every row of `rerun` counts as such, of an older program too.
void add(std::vector<TimedConfig>& all, std::vector<TimedConfig> more) {
  for (TimedConfig& config : more) {
    config.sampling = SamplingClass::rerun;
    all.push_back(std::move(config));
  }
}

void expect_comparable(const std::vector<const RowChange*>& rows, const ConfirmOptions& options) {
  if (!options.base_program.empty()) return;
  for (const RowChange* row : rows)
    if (row->base.sampling != SamplingClass::rerun)
      throw InputError(
          "--confirm: the base's row of {} is a {} of tune, which rerun cannot be compared "
          "with; give --base-program, or compare two files of rerun",
          row->base.problem, name_of(row->base.sampling));
}

}  // namespace

Comparison confirm(const Comparison& comparison, const Wisdom& wisdom, const ConfirmOptions& options) {
  const std::vector<const RowChange*> rows = suspects(comparison);
  const Wisdom winners = winners_among(wisdom, rows);
  const std::size_t count = winners.winners().size() + winners.steps().size();
  if (count == 0) return comparison;
  expect_comparable(rows, options);
  const fs::path folder = options.output / ("confirm-" + new_run().run_id);
  make_folder(folder);
  const fs::path file = folder / "winners.json";
  winners.save(file);
  const fs::path program =
      fs::is_symlink(options.program) ? fs::read_symlink(options.program) : options.program;

  std::vector<TimedConfig> base, now;
  for (int run = 1; run <= options.runs; ++run) {
    print(options.log, "warptune: times {} rows again, run {} of {}\n", count, run, options.runs);
    if (!options.base_program.empty())
      add(base, run_once(options.base_program, file, fmt::format("base_{}", run), options));
    add(now, run_once(program, file, fmt::format("new_{}", run), options));
  }
  const std::vector<TimedConfig> again = grouped(now);
  std::map<std::string, const TimedConfig*> timed;
  for (const TimedConfig& config : again) timed[config.key()] = &config;
  if (options.base_program.empty())
    for (const RowChange* row : rows)
      if (timed.contains(row->row().key())) base.push_back(row->base);
  if (base.empty())
    throw InputError("--confirm: the rows are from '{}', and this machine has '{}'",
                     rows.front()->row().device, again.empty() ? "" : again.front().device);
  CompareOptions compare_options = comparison.options;
  compare_options.interleaved = !options.base_program.empty();
  return confirmed(comparison, compare(grouped(base), again, compare_options));
}

}  // namespace warptune
