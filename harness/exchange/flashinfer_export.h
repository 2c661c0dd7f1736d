#pragma once
// The times of a sweep as solutions and traces of flashinfer-bench.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/device/compile.h"
#include "harness/exchange/flashinfer_trace.h"

namespace warptune {

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
