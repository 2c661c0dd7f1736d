// warptune export --wisdom FILE --arch sm_90a -o DIR: the winners as cubins with all that a launch needs.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "cli/options.h"
#include "harness/core/error.h"
#include "harness/core/parallel.h"
#include "harness/core/pattern.h"
#include "harness/core/print.h"
#include "harness/exchange/aic.h"
#include "harness/export/export_files.h"
#include "harness/llama/model_problems.h"
#include "harness/llama/step_problem.h"
#include "harness/results/output_file.h"
#include "harness/tune/device_file.h"
#include "harness/tune/sweep_models.h"
#include "harness/tune/winners_sweep.h"

namespace warptune {
namespace {

struct ExportArguments {
  std::string wisdom, problem, model, dtype = "bf16", arch, output, stale = "refuse", format = "cubins";
  std::vector<int> batches = {1};
  std::vector<std::int64_t> contexts, prompt_lens;
  std::vector<std::string> covers;
  int jobs = 0;
  bool force = false;
  KernelOption kernels;
};

/// The device of the wisdom, with its measured peaks, if it has this architecture; else a known one. The
/// toolkit is that of this program, which compiles the kernels.
DeviceFacts facts_of(const ExportArguments& given) {
  const auto measured = read_device_file(std::filesystem::path(given.wisdom).parent_path() / "device.json");
  DeviceFacts facts = measured && measured->arch == given.arch ? *measured : known_device(given.arch);
  facts.toolkit = Compiler::toolkit();
  return facts;
}

/// The problems of a model's decode steps and prefills, and those of steps that were tuned as a whole.
std::vector<Problem> model_problems(const ExportArguments& given, ExportChooser& chooser) {
  const ModelConfig model = model_named(given.model);
  const DType dtype = parse_dtype(given.dtype);
  std::vector<Problem> problems;
  const auto append = [&](const std::vector<Problem>& more) {
    problems.insert(problems.end(), more.begin(), more.end());
  };
  for (const int batch : given.batches) {
    for (const std::int64_t context : given.contexts)
      append(chooser.add_step(step_problem(model, dtype, batch, context, {})));
    if (!given.contexts.empty()) append(decode_problems(chooser.ops(), model, dtype, batch, given.contexts));
    if (!given.prompt_lens.empty())
      append(prefill_problems(chooser.ops(), model, dtype, batch, given.prompt_lens));
  }
  return problems;
}

/// Compiles on all cores what the wisdom holds of these problems, so that the cubin cache has it.
void compile_ahead(const OpTable& ops, const Wisdom& wisdom, const std::vector<Problem>& problems,
                   const Compiler& compiler, const DeviceFacts& facts, int jobs) {
  std::vector<std::pair<const Variant*, const Winner*>> winners;
  std::vector<const Problem*> of;
  for (const Problem& problem : problems)
    if (const Winner* winner = wisdom.exact(problem); winner && winner->made_on.arch == facts.arch)
      if (const Variant* variant = ops.find(problem.op).find_variant(winner->variant);
          variant && has_machine_code(*variant)) {
        winners.emplace_back(variant, winner);
        of.push_back(&problem);
      }
  parallel_for(winners.size(), jobs, [&](std::size_t i) {
    const auto& [variant, winner] = winners[i];
    try {
      inspect(compiler, *variant, *of[i], winner->config, facts);
    } catch (const std::exception&) {  // the choice reports it
    }
  });
}

/// The problems of the winners. Adds a sentence for each that this program does not have.
std::vector<Problem> wisdom_problems(const OpTable& ops, const Wisdom& wisdom, const std::string& pattern,
                                     std::vector<std::string>& lost) {
  std::vector<Problem> problems;
  for (const Winner& winner : winners_of(ops, wisdom, pattern)) try {
      if (const auto ranks = ranks_of(winner.problem); ranks > 1)
        throw InputError("it runs on {} ranks; exported folders hold plans of one GPU", ranks);
      problems.push_back(ops.find(winner.problem.op).op.problem(winner.problem.dims, winner.problem.dtype));
    } catch (const InputError& e) {
      lost.push_back(fmt::format("{}: the winner '{}' is not exported: {}", winner.problem.key(),
                                 winner.variant, e.what()));
    }
  return problems;
}

void print_summary(const PlanTable& table, std::size_t cubins, const ExportArguments& given,
                   const DeviceFacts& facts) {
  std::map<std::string, std::size_t> sources;
  for (const ExportedPlan& plan : table.plans) ++sources[plan.choice.source];
  std::string list;
  for (const auto& [source, count] : sources)
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", count, source);
  print("{}: {} plans ({}) in {} cubins for {} ({})\n", given.output, table.plans.size(), list, cubins,
        facts.arch, facts.name);
}

/// Writes the winners as tables of times, without code.
void export_aic(const ExportArguments& given) {
  if (!given.arch.empty() || !given.model.empty() || !given.covers.empty() || given.stale != "refuse" ||
      given.jobs > 0)
    throw InputError(
        "--format aic writes times only: it takes --wisdom, --problem, --kernels, --output and --force");
  const std::filesystem::path folder = given.output;
  Wisdom wisdom = Wisdom::load(given.wisdom);
  Wisdom chosen(wisdom.provenance());
  for (Winner& winner : winners_of(given.kernels.ops(), wisdom, given.problem)) chosen.put(std::move(winner));
  const auto tables = aic_tables(given.kernels.ops(), chosen);
  if (tables.empty())
    throw InputError("the tables of AIConfigurator have a column for none of these winners");
  std::vector<std::pair<OutputFile, const std::string*>> files;
  for (const auto& [name, text] : tables)
    files.emplace_back(OutputFile(folder / name, kind_that_begins("a table of AIConfigurator", {kAicColumns}),
                                  {given.wisdom}, given.force),
                       &text);
  std::filesystem::create_directories(folder);
  for (const auto& [file, text] : files) {
    file.write(*text);
    print("{}: {} rows\n", file.path().string(), std::ranges::count(*text, '\n') - 1);
  }
}

/// Returns whether every winner is exported, or the recorded next best of one that calls a library.
bool export_winners(const ExportArguments& given) {
  if (given.format == "aic") {
    export_aic(given);
    return true;
  }
  if (given.force) throw InputError("--force is for --format aic");
  if (given.arch.empty()) throw InputError("--arch is required: the architecture of the cubins");
  if (!given.model.empty() && given.contexts.empty() && given.prompt_lens.empty())
    throw InputError("--model needs --context (decode steps), --prompt-len (prefills) or both");
  if (given.model.empty() && (!given.contexts.empty() || !given.prompt_lens.empty()))
    throw InputError("--context and --prompt-len are those of a --model");
  if (Compiler::toolkit().empty())
    throw InputError("this program was built without the CUDA Toolkit, which compiles kernels");
  std::vector<Cover> covers;
  for (const std::string& text : given.covers) covers.push_back(parse_cover(text));
  const DeviceFacts facts = facts_of(given);
  expect_export_folder(given.output);
  const Wisdom wisdom = Wisdom::load(given.wisdom);
  const Compiler compiler(KernelSources(), default_cache_folder());
  compiler.make_cache();
  const OpTable& ops = given.kernels.ops();
  ExportChooser chooser(ops, facts, compiler,
                        {.wisdom = wisdom,
                         .has_wisdom = true,
                         .stale = given.stale == "use" ? StaleCode::use : StaleCode::refuse});
  std::vector<std::string> lost;
  std::vector<Problem> problems = given.model.empty() ? wisdom_problems(ops, wisdom, given.problem, lost)
                                                      : model_problems(given, chooser);
  if (!given.model.empty() && !given.problem.empty()) {
    const ProblemPattern pattern(given.problem);
    std::erase_if(problems, [&](const Problem& p) { return !pattern.is_in(ops, p.key()); });
    if (problems.empty()) throw InputError("no problem of the model matches '{}'", given.problem);
  }
  const int jobs = given.jobs > 0 ? given.jobs : static_cast<int>(std::thread::hardware_concurrency());
  compile_ahead(ops, wisdom, problems, compiler, facts, jobs);
  const PlanTable table = make_plan_table(chooser, problems, covers);
  for (const std::string& sentence : table.left_out) print_error("leaves out " + sentence);
  lost.insert(lost.end(), chooser.lost_steps().begin(), chooser.lost_steps().end());
  lost.insert(lost.end(), table.lost_winners.begin(), table.lost_winners.end());
  for (const std::string& sentence : lost) print_error(sentence);
  if (table.plans.empty()) throw InputError("none of the problems can be exported");
  const std::size_t cubins = write_export(given.output, ops, table, compiler, facts);
  print_summary(table, cubins, given, facts);
  return lost.empty();
}

}  // namespace

void add_export(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "export", "Writes the winners as cubins with all that other programs need to launch them");
  command->footer(
      "Needs no GPU. docs/export.md describes the folder; include/warptune/launch.h launches from it.\n"
      "Exits with 1 if a winner of this architecture is not exported; it is named.\n"
      "Examples:\n"
      "  warptune export --wisdom results/h200/wisdom.json --problem 'rms_norm|swiglu' --arch sm_90a -o "
      "winners\n"
      "  warptune export --wisdom results/h200/wisdom.json --model llama3-8b --batch 1,8 --context 512,4096 "
      "--arch sm_90a -o winners\n"
      "  warptune export --wisdom results/h200/wisdom.json --problem rms_norm --cover tokens=1:4096 "
      "--arch sm_90a -o winners\n"
      "  warptune export --wisdom results/h200/wisdom.json --format aic -o h200_sxm/warptune/0.2.0");
  const auto given = std::make_shared<ExportArguments>();
  command->add_option("--wisdom", given->wisdom, "The winners")->required();
  command->add_option("--arch", given->arch, fmt::format("The architecture: {}", known_archs()));
  command
      ->add_option("-o,--output", given->output,
                   "The folder; a new or empty one, or an earlier export, which is replaced")
      ->required();
  command
      ->add_option("--format", given->format,
                   "cubins: code and all that a launch needs; aic: only times, in the tables of NVIDIA "
                   "AIConfigurator")
      ->check(CLI::IsMember({"cubins", "aic"}))
      ->capture_default_str();
  command->add_flag("--force", given->force, "With --format aic: replaces files of another kind");
  add_problem_filter(*command, given->problem);
  auto* model = command->add_option("--model", given->model,
                                    "The problems of this model: a preset, or the folder of a checkpoint");
  command->add_option("--batch", given->batches, "Sequences of the model's steps; commas between them")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->needs(model);
  command->add_option("--context", given->contexts, "Keys per sequence of decode steps; commas between them")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--prompt-len", given->prompt_lens, "Lengths of prompts; commas between them")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--dtype", given->dtype, "fp32, fp16 or bf16, of the model")
      ->capture_default_str()
      ->needs(model);
  command
      ->add_option("--cover", given->covers,
                   "DIM=FROM:TO: the table covers these values of a dim of work; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--stale-wisdom", given->stale,
                   "Winners tuned on other sources of their kernels: refuse, or use with a warning")
      ->check(CLI::IsMember({"refuse", "use"}))
      ->capture_default_str();
  command->add_option("--jobs", given->jobs, "Compile jobs (threads); by default all hardware threads")
      ->check(CLI::Range(1, 1024));
  given->kernels.add_to(*command);
  command->callback([given, &exit_code] { exit_code = export_winners(*given) ? 0 : 1; });
}

}  // namespace warptune
