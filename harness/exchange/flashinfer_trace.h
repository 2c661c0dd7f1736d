#pragma once
// Definitions and workloads of flashinfer-bench (https://bench.flashinfer.ai): one JSON file per definition,
// and JSONL files with a workload per line (uuid, axes, inputs), as problems of this program.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/core/op_table.h"

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

}  // namespace warptune
