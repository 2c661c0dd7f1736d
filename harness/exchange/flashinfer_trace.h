#pragma once
// Definitions and workloads of flashinfer-bench (https://bench.flashinfer.ai): one JSON file per definition,
// and JSONL files with a workload per line (uuid, axes, inputs), as problems of this program.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/device/compile.h"

namespace warptune {

/// A workload with the problem that it is.
struct TracedWorkload {
  std::string definition, op_type;
  std::string uuid;
  nlohmann::ordered_json workload;  // as the file has it
  Problem problem;
  std::string note = {};  // one sentence where the problem is only near the workload; may be empty
};

struct Traces {
  std::vector<TracedWorkload> workloads;
  /// One sentence per definition or workload that is no problem of this program.
  std::vector<std::string> left_out;
};

/// Reads definitions (*.json) and workloads (*.jsonl). A line of workloads names its definition
/// ("definition"); without it the file's name does, or the definition is the only one. Taken are the op types
/// rmsnorm, gemm (of inputs A and B of one dtype), gqa_paged (decode) and gqa_ragged (prefill, causal). The
/// lengths of single sequences are in tensors that are not read: every sequence gets the mean length. Throws
/// InputError for a file that is not of this schema, and where no workload is left.
Traces read_traces(const OpTable& ops, const std::vector<std::filesystem::path>& files);

/// A sweep of the workloads (YAML): each problem once, below its definition.
std::string to_sweep(const Traces& traces, const std::string& name);

/// The times of a sweep as solutions and traces.
struct ExportedTraces {
  std::map<std::filesystem::path, std::string> files;  // by paths below the folder of a trace set
  std::size_t traces = 0, solutions = 0;
  std::vector<std::string> left_out;  // one sentence per workload without a trace
};

/// The fastest verified configuration of each workload, by the CSV of a sweep of `import-trace`: a trace in
/// traces/<op type>/<definition>.jsonl, and its kernels in solutions/<op type>/<definition>/<name>.json. A
/// solution has the sources as they were compiled, and in its description the configuration and the name
/// expressions. Times of finalists come before those of the screening. Only kernels of this program have
/// sources, so host and library variants are no solutions. Throws InputError.
ExportedTraces export_traces(const OpTable& ops, const KernelSources& sources, const Traces& traces,
                             const std::filesystem::path& csv);

}  // namespace warptune
