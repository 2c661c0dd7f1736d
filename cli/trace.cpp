// warptune import-trace, export-trace, export-t4: workloads of flashinfer-bench as a sweep, and times of a
// sweep as its traces or as T4 results.
#include <fmt/format.h>

#include <memory>
#include <sstream>

#include "cli/commands.h"
#include "cli/options.h"
#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/print.h"
#include "harness/exchange/flashinfer_trace.h"
#include "harness/exchange/recorded_json.h"
#include "harness/results/durable_file.h"
#include "harness/results/sweep_file.h"
#include "variants/table.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

struct TraceArguments {
  std::vector<std::string> files;
  std::string name = "trace", csv, folder;
  OutputOption sweep;  // that import-trace writes
  bool force = false;
};

Traces traces_of(const TraceArguments& given) {
  return read_traces(ops(), {given.files.begin(), given.files.end()});
}

void import_trace(const TraceArguments& given) {
  if (const std::string fault = fault_of_sweep_name(given.name); !fault.empty())
    throw InputError("--name '{}' cannot name a sweep: {}", given.name, fault);
  const TextOutput output = given.sweep.open(
      kind_that_begins("a sweep", {"# The workloads of flashinfer-bench definitions."}), given.files);
  const Traces traces = traces_of(given);
  for (const std::string& sentence : traces.left_out) print_error("leaves out " + sentence);
  output.write(printable_lines(to_sweep(traces, given.name)));  // YAML has no control characters
}

/// A solution has one kernel of this program; a file of traces may hold lines of other solutions too.
OutputKind kind_of(const fs::path& file) {
  if (file.extension() == ".json") return kind_that_begins("a solution", {"{\n  \"name\": \"warptune_"});
  return {.name = "a file of traces of this program only", .is_earlier = [](std::string_view text) {
            std::istringstream lines{std::string(text)};
            for (std::string line; std::getline(lines, line);)
              if (line.find("\"solution\":\"warptune_") == line.npos) return false;
            return true;
          }};
}

/// All files are checked before the first is written.
void export_trace(const TraceArguments& given) {
  expect_writable(given.folder);
  const ExportedTraces exported = export_traces(ops(), KernelSources(), traces_of(given), given.csv);
  for (const std::string& sentence : exported.left_out) print_error("leaves out " + sentence);
  if (exported.traces == 0)
    throw InputError("'{}' has no time of a kernel for any of the workloads", given.csv);
  std::vector<fs::path> inputs = paths_of(given.files);
  inputs.emplace_back(given.csv);
  std::vector<std::pair<OutputFile, const std::string*>> files;
  for (const auto& [name, text] : exported.files)
    files.emplace_back(OutputFile(path_below(given.folder, name), kind_of(name), inputs, given.force), &text);
  for (const auto& [file, text] : files) file.write(*text);
  print("{} traces and {} solutions: {}\n", exported.traces, exported.solutions, given.folder);
}

}  // namespace

void add_trace(CLI::App& app, int&) {
  const auto given = std::make_shared<TraceArguments>();
  const char* files = "Definitions (*.json) and workloads (*.jsonl)";
  auto* load =
      app.add_subcommand("import-trace", "Makes a sweep of the workloads of flashinfer-bench definitions");
  load->footer(
      "Takes rmsnorm, gemm, gqa_paged decode and gqa_ragged prefill; other op types are left out with a "
      "sentence.\n"
      "Example:\n"
      "  warptune import-trace rmsnorm_h4096.json rmsnorm_h4096.jsonl -o trace.yaml");
  load->add_option("FILE", given->files, files)->required();
  load->add_option("--name", given->name, "Name of the sweep")->capture_default_str();
  given->sweep.add_to(*load, "The sweep; by default standard output");
  load->callback([given] { import_trace(*given); });

  auto* save = app.add_subcommand("export-trace",
                                  "Writes the fastest kernels of such a sweep as solutions and traces");
  save->footer(
      "Example:\n"
      "  warptune export-trace rmsnorm_h4096.json rmsnorm_h4096.jsonl --results results/h200/trace.csv -o "
      "traces");
  save->add_option("FILE", given->files, files)->required();
  save->add_option("--results", given->csv, "The CSV of the sweep")->required();
  save->add_option("-o,--output", given->folder, "Folder of a trace set: solutions/ and traces/ go there")
      ->required();
  add_force(*save, given->force);
  save->callback([given] { export_trace(*given); });
}

void add_export_t4(CLI::App& app, int&) {
  auto* command =
      app.add_subcommand("export-t4", "Writes the rows of a problem as T4 results for other autotuners");
  command->footer(
      "T4 is the JSON format for results of the auto-tuning methodology project; Kernel Tuner reads and "
      "writes it,\n"
      "and simulate reads it.\n"
      "Example:\n"
      "  warptune export-t4 results/h200/spaces.csv --problem 'linear.*out=4096' -o linear.json");
  struct Given {
    std::string csv, problem;
    OutputOption output;
  };
  const auto given = std::make_shared<Given>();
  command->add_option("RESULTS", given->csv, "The CSV of a sweep")->required();
  command->add_option(
      "--problem", given->problem,
      "The problem: a regular expression that matches one key; not needed for a CSV of one problem");
  given->output.add_to(*command, "The file; by default standard output");
  command->callback([given] {
    const TextOutput output = given->output.open(
        kind_that_begins("a T4 file", {"{\n \"schema_version\": \"1.0.0\",\n \"metadata\": "}), {given->csv});
    output.write(to_t4(ops(), given->csv, given->problem));
  });
}

}  // namespace warptune
