// warptune import-trace, export-trace: workloads of flashinfer-bench as a sweep, and its times as traces.
#include <fmt/format.h>

#include <memory>

#include "harness/cli/exchange.h"
#include "harness/core/error.h"
#include "harness/core/message.h"
#include "harness/exchange/flashinfer_export.h"
#include "harness/results/durable_file.h"
#include "harness/results/sweep_file.h"
#include "variants/table.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

struct Given {
  std::vector<std::string> files;
  std::string name = "trace", csv, output;
};

Traces traces_of(const Given& given) { return read_traces(ops(), {given.files.begin(), given.files.end()}); }

void import_trace(const Given& given) {
  if (const std::string fault = fault_of_sweep_name(given.name); !fault.empty())
    throw InputError(fmt::format("--name '{}' cannot name a sweep: {}", given.name, fault));
  if (!given.output.empty()) expect_writable(given.output);
  const Traces traces = traces_of(given);
  for (const std::string& sentence : traces.left_out) print_error("leaves out " + sentence);
  const std::string sweep = to_sweep(traces, given.name);
  if (given.output.empty())
    fmt::print("{}", sweep);
  else
    write_output(given.output, sweep);
}

void export_trace(const Given& given) {
  expect_writable(given.output);
  const ExportedTraces exported = export_traces(ops(), KernelSources(), traces_of(given), given.csv);
  for (const std::string& sentence : exported.left_out) print_error("leaves out " + sentence);
  if (exported.traces == 0)
    throw InputError(fmt::format("'{}' has no time of a kernel for any of the workloads", given.csv));
  for (const auto& [file, text] : exported.files) replace_file(fs::path(given.output) / file, text);
  fmt::print("{} traces and {} solutions: {}\n", exported.traces, exported.solutions, given.output);
}

}  // namespace

void add_trace(CLI::App& app) {
  const auto given = std::make_shared<Given>();
  const char* files = "Definitions (*.json) and workloads (*.jsonl)";
  auto* import =
      app.add_subcommand("import-trace", "Makes a sweep of the workloads of flashinfer-bench definitions");
  import->footer(
      "Takes rmsnorm, gemm, gqa_paged decode and gqa_ragged prefill; other op types are left out with a "
      "sentence.\n"
      "Example:\n"
      "  warptune import-trace rmsnorm_h4096.json rmsnorm_h4096.jsonl -o trace.yaml");
  import->add_option("FILE", given->files, files)->required();
  import->add_option("--name", given->name, "Name of the sweep")->capture_default_str();
  import->add_option("-o,--output", given->output, "The sweep; by default standard output");
  import->callback([given] { import_trace(*given);
});

auto* save =
    app.add_subcommand("export-trace", "Writes the fastest kernels of such a sweep as solutions and traces");
save->footer(
    "Example:\n"
    "  warptune export-trace rmsnorm_h4096.json rmsnorm_h4096.jsonl --results results/h200/trace.csv -o "
    "traces");
save->add_option("FILE", given->files, files)->required();
save->add_option("--results", given->csv, "The CSV of the sweep")->required();
save->add_option("-o,--output", given->output, "Folder of a trace set: solutions/ and traces/ go there")
    ->required();
save->callback([given] { export_trace(*given); });
}  // namespace warptune

}  // namespace warptune
