// warptune wisdom show|check|export|watch: prints the winners, checks which are still valid, exports them to
// other programs, or chooses what the regression gate times. push, pull and list are in wisdom_share.cpp.
#include "harness/results/wisdom.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/recorded_speed.h"
#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/core/parallel.h"
#include "harness/core/print.h"
#include "harness/results/source_hash.h"
#include "harness/results/wisdom_export.h"
#include "harness/select/tuned_plans.h"
#include "harness/tune/device_file.h"
#include "harness/tune/winners_sweep.h"

namespace warptune {
namespace {

struct WisdomArguments {
  std::string file, op, problem, variant, format = "json";
  bool compile = false;
  KernelOption kernels;
  OutputOption output, sweep;
};

TextTable winners_table(const OpTable& ops, const Wisdom& wisdom, const std::vector<Winner>& winners,
                        const std::optional<DeviceFacts>& facts) {
  std::vector<TextTable::Column> columns = {text_column("problem")};
  for (auto& column : speed_columns()) columns.push_back(std::move(column));
  TextTable table(std::move(columns));
  for (const Winner& w : winners) {
    const OpEntry* entry = ops.find_if_known(w.problem.op);
    std::vector<Cell> cells = {entry ? label_of(entry->op, w.problem) : w.problem.key()};
    const bool same_device = facts && facts->name == w.made_on.device;
    const Speed speed =
        entry ? recorded_speed(*entry, w.problem, w.time_us, &w, same_device ? facts : std::nullopt)
              : Speed{.time_us = w.time_us};
    for (Cell& cell : speed_cells(speed)) cells.push_back(std::move(cell));
    std::string plan = w.variant + (w.config.empty() ? "" : " ") + w.config.str();
    const Provenance &made = w.made_on, &common = wisdom.provenance();
    if (made.device != common.device || made.driver != common.driver || made.toolkit != common.toolkit)
      plan += fmt::format("  (tuned on {}, driver {}, toolkit {})", made.device, made.driver, made.toolkit);
    table.add(std::move(cells), std::move(plan));
  }
  return table;
}

/// Each step with the plans that differ from the winners of its ops alone.
void print_steps(const Wisdom& wisdom) {
  for (const StepWinner& step : wisdom.steps()) {
    print("\n{}: {:.1f} us, {:.1f} us with the winners of its ops alone; {}\n", step.step.key(), step.time_us,
          step.alone_us, step.plans.options.str());
    for (const StepPlan& plan : step.plans.plans) {
      const Winner* alone = wisdom.winner_on(plan.problem, step.made_on.device);
      if (!alone || alone->variant != plan.variant || !(alone->config == plan.config))
        print("  {}\n", plan.str());
    }
  }
}

void show_wisdom(const WisdomArguments& given) {
  const Wisdom wisdom = Wisdom::load(given.file);
  for (const std::string& sentence : unknown_winners(given.kernels.ops(), wisdom)) print_error(sentence);
  auto winners =
      wisdom.winners().empty() ? wisdom.winners() : winners_of(given.kernels.ops(), wisdom, given.problem);
  const auto keep = [&](const std::string& what, const std::string& wanted, auto name_of) {
    if (wanted.empty()) return;
    std::vector<std::string> names;
    for (const Winner& w : winners)
      if (!contains(names, name_of(w))) names.push_back(name_of(w));
    if (!contains(names, wanted))
      throw InputError("no {} '{}' among these winners{}", what, brief(wanted), did_you_mean(wanted, names));
    std::erase_if(winners, [&](const Winner& w) { return name_of(w) != wanted; });
  };
  keep("op", given.op, [](const Winner& w) { return w.problem.op; });
  keep("variant", given.variant, [](const Winner& w) { return w.variant; });
  const Provenance& p = wisdom.provenance();
  const auto or_dash = [](const std::string& text) { return text.empty() ? std::string("-") : text; };
  print("{} ({}), driver {}, toolkit {}, sources {}: {} of {} winners\n\n", p.device, p.arch,
        or_dash(p.driver), or_dash(p.toolkit), or_dash(p.git_commit), winners.size(),
        wisdom.winners().size());
  const auto facts = read_device_file(std::filesystem::path(given.file).parent_path() / "device.json");
  print(stdout, winners_table(given.kernels.ops(), wisdom, winners, facts));
  if (given.op.empty() && given.problem.empty() && given.variant.empty()) print_steps(wisdom);
}

/// The facts of the device of a winner: measured ones, else those of a GPU of its architecture.
std::optional<DeviceFacts> device_of(const Winner& winner, const DeviceFacts& measured) try {
  return measured.name == winner.made_on.device ? measured : known_device(winner.made_on.arch);
} catch (const InputError&) {  // a host, or a GPU that is not known
  return std::nullopt;
}

/// Which constraint of its variant a winner breaks on its device; empty if none is known.
std::string why_excluded(const OpEntry& entry, const Winner& winner, const DeviceFacts& measured) try {
  const auto facts = device_of(winner, measured);
  if (!facts) return {};
  const Problem problem = entry.op.problem(winner.problem.dims, winner.problem.dtype);
  return why_unfit(entry.variant(winner.variant), problem, winner.config, *facts).value_or("");
} catch (const InputError& e) {
  return e.what();
}

/// A winner compared with this program: its code, its constraints, and its times with the peaks of its
/// device.
enum class State { same_sources, same_code, other_code, unknown, too_fast, excluded };
constexpr const char* kStates[] = {"the same sources",
                                   "the same machine code",
                                   "other code",
                                   "no such variant",
                                   "a time that its device cannot reach",
                                   "a broken constraint"};

struct Check {
  State state = State::unknown;
  std::string why_excluded = {};
};

/// `compile`: compares the machine code even if the sources are the same.
Check checked(const OpTable& ops, const Compiler& compiler, const Winner& winner, const DeviceFacts& peaks,
              bool compile) {
  const CodeNow now = code_now(compiler, ops, winner, peaks);
  if (now.source_hash.empty()) return {State::unknown};
  if (!why_too_fast(winner, now.impossible_us).empty()) return {State::too_fast};
  if (std::string why = why_excluded(ops.find(winner.problem.op), winner, peaks); !why.empty())
    return {State::excluded, std::move(why)};
  const bool same_sources = now.source_hash == winner.source_hash;
  if (same_sources && (!compile || winner.code_hash.empty())) return {State::same_sources};
  const bool same_code = !winner.code_hash.empty() && now.code_hash() == winner.code_hash;
  return {same_code ? State::same_code : State::other_code};
}

/// The problem of a winner; empty if this program does not know its op or dims.
std::optional<Problem> known_problem(const OpTable& ops, const Winner& winner) try {
  return ops.find(winner.problem.op).op.problem(winner.problem.dims, winner.problem.dtype);
} catch (const InputError&) {
  return std::nullopt;
}

/// Whether a winner has no time of the variant that is the default of its problem: its sweep did not try it.
bool lacks_the_default(const OpTable& ops, const Winner& winner, const DeviceFacts& measured) {
  const auto facts = device_of(winner, measured);
  const auto problem = known_problem(ops, winner);
  if (!facts || !problem) return false;
  const auto tiles = ops.default_tiles(*problem, *facts);
  if (tiles.empty() || tiles.front().variant->name == winner.variant) return false;
  return !contains(winner.times, tiles.front().variant->name, &VariantTimes::variant);
}

/// Needs no GPU. Returns whether the code of every winner is known and unchanged, its constraints hold, and
/// its times are possible.
bool check_wisdom(const WisdomArguments& given) {
  constexpr const char* kHeading =
      "# Problems whose winners do not hold, or have no time of their default variant.\n";
  std::optional<TextOutput> sweep;
  if (!given.sweep.path().empty())
    sweep = given.sweep.open(kind_that_begins("a sweep", {kHeading}), {given.file});
  const Wisdom wisdom = Wisdom::load(given.file);
  const Compiler compiler(KernelSources(), default_cache_folder());
  std::vector<Winner> winners = wisdom.winners();
  for (const StepWinner& step : wisdom.steps())
    for (const StepPlan& plan : step.plans.plans) winners.push_back(as_winner(step, plan));
  const auto peaks = read_device_file(std::filesystem::path(given.file).parent_path() / "device.json");
  std::vector<Check> checks(winners.size());
  const OpTable& ops = given.kernels.ops();
  const auto jobs = static_cast<int>(std::thread::hardware_concurrency());
  parallel_for(winners.size(), jobs, [&](std::size_t i) {
    checks[i] = checked(ops, compiler, winners[i], peaks.value_or(DeviceFacts{}), given.compile);
  });
  bool all_hold = true;
  std::vector<Winner> to_tune, without_default;
  for (std::size_t i = 0; i < winners.size(); ++i) {
    const auto& [state, why] = checks[i];
    const bool is_of_a_step = i >= wisdom.winners().size();
    if (!is_of_a_step && lacks_the_default(ops, winners[i], peaks.value_or(DeviceFacts{})))
      without_default.push_back(winners[i]);
    if (state < State::other_code) continue;
    all_hold = false;
    if (!is_of_a_step && known_problem(ops, winners[i])) to_tune.push_back(winners[i]);
    print("{} {} {}: {}\n", winners[i].problem.key(), winners[i].variant, winners[i].config.str(),
          why.empty() ? kStates[static_cast<std::size_t>(state)] : why);
  }
  print("{} winners:", winners.size());
  for (std::size_t i = 0; i < std::size(kStates); ++i)
    print("{} {} with {}", i == 0 ? "" : ",",
          std::ranges::count(checks, static_cast<State>(i), &Check::state), kStates[i]);
  print("\n{} winners have no time of the default variant of their problem\n", without_default.size());
  to_tune.insert(to_tune.end(), without_default.begin(), without_default.end());
  if (sweep && to_tune.empty())
    print("'{}' is not written: no problem needs to be tuned again\n", given.sweep.path());
  else if (sweep)
    sweep->write(to_sweep_text(to_tune, kHeading));
  return all_hold;
}

std::string exported(const Wisdom& wisdom, const WisdomArguments& given) {
  if (given.format == "json") return wisdom.to_json();
  if (given.format == "header") return to_header(wisdom);
  const std::string& device = wisdom.provenance().device;
  const auto others = std::ranges::count_if(
      wisdom.winners(), [&](const Winner& winner) { return winner.made_on.device != device; });
  if (others > 0) print_error("leaves out {} winners of other devices than {}", others, brief(device));
  return to_benchmark_json(given.kernels.ops(), wisdom, std::filesystem::path(given.file).parent_path());
}

/// Another wisdom is replaced with --force only: nothing tells an exported one from one that `tune` wrote.
OutputKind kind_of_format(const std::string& format) {
  if (format == "json") return {.name = "a wisdom", .is_earlier = [](std::string_view) { return false; }};
  if (format == "header") return kind_that_begins("a header", {"// Winners of warptune, written by "});
  return kind_that_begins("a file of benchmarks",
                          {"{\n  \"context\": {\n    \"executable\": \"warptune wisdom export\""});
}

void export_wisdom(const WisdomArguments& given) {
  const TextOutput output = given.output.open(kind_of_format(given.format), {given.file});
  const Wisdom wisdom = Wisdom::load(given.file);
  if (const auto unknown = unknown_winners(given.kernels.ops(), wisdom); !unknown.empty())
    throw InputError("'{}' is not exported: {}", given.file, unknown.front());
  output.write(exported(wisdom, given));
}

void add_wisdom_watch(CLI::App& wisdom) {
  struct Given {
    std::string file;
    OutputOption output{"watched.json"};
    std::size_t per_variant = 3;
  };
  const auto given = std::make_shared<Given>();
  auto* command = wisdom.add_subcommand(
      "watch",
      "Writes the steps, and of each kernel the problems that take longest, for the regression gate");
  command->add_option("WISDOM", given->file, "wisdom.json")->required();
  given->output.add_to(*command, "The wisdom file to write; default watched.json");
  command->add_option("--per-kernel", given->per_variant, "Problems of each kernel (op/variant)")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->callback([given] {
    const OutputKind kind{.name = "a wisdom", .is_earlier = [](std::string_view) { return false; }};
    const TextOutput output = given->output.open(kind, {given->file});
    const Watched watched = watched_part(Wisdom::load(given->file), given->per_variant);
    output.write(watched.wisdom.to_json());
    print("{}", Lines{summary_of(watched)});
  });
}

}  // namespace

void add_wisdom(CLI::App& app, int& exit_code) {
  auto* command =
      app.add_subcommand("wisdom", "Shows, checks, exports or shares the winners of a wisdom file");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n"
      "  warptune wisdom show results/h200/wisdom.json --op linear --problem 'tokens=1,'\n"
      "  warptune wisdom check results/h200/wisdom.json\n"
      "  warptune wisdom export results/h200/wisdom.json --format header -o warptune_wisdom.h\n"
      "  warptune wisdom export results/h200/wisdom.json --format benchmark -o tuned.json\n"
      "  warptune wisdom watch results/h200/wisdom.json -o watched.json\n"
      "  warptune wisdom push /mnt/team/wisdom --wisdom results/h200/wisdom.json\n"
      "  warptune wisdom pull /mnt/team/wisdom --wisdom results/h200/wisdom.json");
  const auto given = std::make_shared<WisdomArguments>();
  auto* show = command->add_subcommand("show", "Prints a table of the winners with their speed");
  show->add_option("WISDOM", given->file, "wisdom.json")->required();
  show->add_option("--op", given->op, "Only winners of this op");
  add_problem_filter(*show, given->problem);
  show->add_option("--variant", given->variant, "Only winners that use this variant");
  given->kernels.add_to(*show);
  show->callback([given] { show_wisdom(*given); });
  auto* check = command->add_subcommand(
      "check", "Checks which winners are still valid, by sources, else by machine code (no GPU needed)");
  check->add_option("WISDOM", given->file, "wisdom.json")->required();
  check->add_flag("--compile", given->compile,
                  "Compares the machine code of winners with the same sources too");
  given->sweep.add_to(*check, "Also writes a sweep of the problems to tune again");
  given->kernels.add_to(*check);
  check->callback([given, &exit_code] { exit_code = check_wisdom(*given) ? 0 : 1; });
  auto* save = command->add_subcommand("export", "Writes the winners for another program");
  save->add_option("WISDOM", given->file, "wisdom.json")->required();
  save->add_option("--format", given->format,
                   "json; header: a C++17 header without dependencies; benchmark: Google Benchmark's JSON")
      ->check(CLI::IsMember({"json", "header", "benchmark"}))
      ->capture_default_str();
  given->output.add_to(*save, "The file; by default standard output");
  given->kernels.add_to(*save);
  save->callback([given] { export_wisdom(*given); });
  add_wisdom_watch(*command);
  add_wisdom_share(*command);
}

}  // namespace warptune
