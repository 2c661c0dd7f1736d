// The times of a sweep as solutions and traces of flashinfer-bench.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/core/hash.h"
#include "harness/core/space.h"
#include "harness/exchange/flashinfer_trace.h"
#include "harness/results/csv.h"
#include "harness/results/sweep_file.h"
#include "harness/results/sweep_row.h"

namespace warptune {
namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;
namespace {

/// The fastest row of each problem, by its key.
using BestRows = std::map<std::string, CsvRow>;

BestRows best_rows(const OpTable& ops, const fs::path& csv) {
  const auto rank = [](const CsvRow& row) {  // finalists first
    return std::pair(sampling_of(row) != SamplingClass::finalist, *number_of(row.at("time_us")));
  };
  BestRows best;
  for (CsvRow& row : read_sweep(csv)) {
    if (row.at("status") != "ok" || row.at("cache") != "cold") continue;
    const OpEntry* op = ops.find_if_known(row.at("op"));
    const Variant* variant = op ? op->find_variant(row.at("variant")) : nullptr;
    if (!variant || !has_machine_code(*variant)) continue;
    const auto [it, is_new] = best.try_emplace(row.at("problem"), row);
    if (!is_new && rank(row) < rank(it->second)) it->second = std::move(row);
  }
  return best;
}

/// "NVIDIA_H200", as the schema writes hardware.
std::string hardware_of(const CsvRow& row) {
  std::string name = row.at("device");
  std::ranges::replace(name, ' ', '_');
  return name.empty() ? "unknown" : name;
}

OrderedJson solution_of(const OpTable& ops, const KernelSources& sources, const TracedWorkload& traced,
                        const CsvRow& row) {
  const Variant& variant = ops.find(traced.problem.op).variant(row.at("variant"));
  const Config config = parse_config(variant, row.at("config"));
  std::vector<std::string> kernels;
  std::map<std::string, std::string> files;
  std::string entry;
  for (const Stage* stage : active_kernels(variant, traced.problem, config)) {
    kernels.push_back(expand_kernel_name(variant, *stage, traced.problem, config));
    const auto closure = sources.closure(stage->file);
    for (const auto& [name, text] : closure)
      files[name == closure.front().first ? "kernels/" + name : name] = text;
    if (entry.empty())
      entry = fmt::format("kernels/{}::{}", stage->file, stage->kernel.substr(0, stage->kernel.find('<')));
  }
  OrderedJson source_files = OrderedJson::array();
  for (const auto& [path, text] : files) source_files.push_back({{"path", path}, {"content", text}});
  const std::string plan =
      fmt::format("{} {}; kernels: {}", variant.name, config.str(), fmt::join(kernels, "; "));
  const auto hash = static_cast<std::uint32_t>(stable_hash(plan + source_files.dump()));
  return {{"name", fmt::format("warptune_{}_{}_{:08x}", traced.definition, variant.name, hash)},
          {"definition", traced.definition},
          {"author", "warptune"},
          {"spec",
           {{"language", "cuda"},
            {"target_hardware", {hardware_of(row)}},
            {"entry_point", entry},
            {"dependencies", OrderedJson::array()},
            {"destination_passing_style", true}}},
          {"sources", source_files},
          {"description", plan}};
}

OrderedJson trace_of(const TracedWorkload& traced, const CsvRow& row, const std::string& solution) {
  // The sweep measures the relative L2 error of the whole result, not that of each element.
  const double max_abs = number_of(row.at("max_abs_err")).value_or(0),
               rel_l2 = number_of(row.at("rel_l2_err")).value_or(0);
  return {
      {"definition", traced.definition},
      {"workload", traced.workload},
      {"solution", solution},
      {"evaluation",
       {{"status", "PASSED"},
        {"environment",
         {{"hardware", hardware_of(row)},
          {"libs",
           {{"warptune", row.at("git_commit")}, {"cuda", row.at("toolkit")}, {"driver", row.at("driver")}}}}},
        {"timestamp", row.at("timestamp_utc")},
        {"log", fmt::format("{} {}", traced.problem.key(), traced.note)},
        {"correctness",
         {{"max_relative_error", "NaN"},
          {"max_absolute_error", max_abs},
          {"extra", {{"rel_l2_err", rel_l2}}}}},
        {"performance", {{"latency_ms", *number_of(row.at("time_us")) * 1e-3}}}}}};
}

}  // namespace

ExportedTraces export_traces(const OpTable& ops, const KernelSources& sources, const Traces& traces,
                             const fs::path& csv) {
  const BestRows best = best_rows(ops, csv);
  ExportedTraces exported{.left_out = traces.left_out};
  for (const TracedWorkload& traced : traces.workloads) {
    const auto it = best.find(traced.problem.key());
    if (it == best.end()) {
      exported.left_out.push_back(fmt::format("the workload {} of {}: '{}' has no time of a kernel for {}",
                                              traced.uuid, traced.definition, csv.string(),
                                              traced.problem.key()));
      continue;
    }
    const OrderedJson solution = solution_of(ops, sources, traced, it->second);
    const std::string name = solution["name"];
    const fs::path below = fs::path(traced.op_type) / traced.definition;
    const auto [file, is_new] =
        exported.files.try_emplace("solutions" / below / (name + ".json"), solution.dump(2) + "\n");
    exported.solutions += is_new;
    exported.files["traces" / fs::path(traced.op_type) / (traced.definition + ".jsonl")] +=
        trace_of(traced, it->second, name).dump() + "\n";
    ++exported.traces;
  }
  return exported;
}

}  // namespace warptune
