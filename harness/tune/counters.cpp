#include "harness/tune/counters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/core/text_table.h"

namespace warptune {
namespace {

constexpr const char* kDuration = "gpu__time_duration.sum";
constexpr const char* kDramRead = "dram__bytes_read.sum";
constexpr const char* kDramWrite = "dram__bytes_write.sum";
constexpr const char* kL2Hit = "lts__t_sector_hit_rate.pct";
constexpr const char* kOccupancy = "sm__warps_active.avg.pct_of_peak_sustained_active";
constexpr const char* kIssue = "smsp__issue_active.avg.pct_of_peak_sustained_active";
constexpr const char* kExecuted = "smsp__inst_executed.sum";
constexpr const char* kIssued = "smsp__inst_issued.sum";
constexpr const char* kTensor = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active";
constexpr const char* kWavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum";
constexpr const char* kLoadConflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum";
constexpr const char* kStoreConflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum";

/// The quoted fields of a line of ncu's CSV.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      fields.back() += line[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      fields.emplace_back();
    else if (c != '\r')
      fields.back() += c;
  }
  return fields;
}

/// "1,234.5" with separators of thousands.
std::optional<double> metric_value(std::string text) {
  std::erase(text, ',');
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return text.empty() || *end ? std::nullopt : std::optional(value);
}

/// "split" of "void warptune::split<(int)4, (int)8>(Args)".
std::string base_name(const std::string& kernel) {
  std::string name = kernel.substr(0, kernel.find_first_of("<("));
  if (const auto at = name.find_last_of(" :"); at != std::string::npos) name.erase(0, at + 1);
  return name;
}

}  // namespace

const std::vector<std::string>& default_metrics() {
  static const std::vector<std::string> metrics = {kDuration,  kDramRead,   kDramWrite,     kL2Hit,
                                                   kOccupancy, kIssue,      kExecuted,      kIssued,
                                                   kTensor,    kWavefronts, kLoadConflicts, kStoreConflicts};
  return metrics;
}

std::vector<std::string> counters_command(const std::filesystem::path& program, const ProfileTarget& target,
                                          const std::vector<std::string>& metrics) {
  std::vector<std::string> command = {"ncu",           "--profile-from-start",
                                      "off",           "--clock-control",
                                      "none",          "--csv",
                                      "--page",        "raw",
                                      "--print-units", "base",
                                      "--metrics",     fmt::format("{}", fmt::join(metrics, ","))};
  const auto inside = inside_command(program, target);
  command.insert(command.end(), inside.begin(), inside.end());
  return command;
}

std::vector<KernelCounters> parse_ncu_csv(const std::string& text, const std::vector<std::string>& metrics) {
  std::vector<std::string> columns;
  std::vector<KernelCounters> kernels;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (columns.empty()) {
      if (line.starts_with("\"ID\"")) columns = fields_of(line);
      continue;
    }
    const auto fields = fields_of(line);
    if (fields.size() != columns.size() || fields.front().empty()) continue;  // the row of units
    KernelCounters& kernel = kernels.emplace_back();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (columns[i] == "Kernel Name") kernel.kernel = base_name(fields[i]);
      if (!contains(metrics, columns[i])) continue;
      if (const auto value = metric_value(fields[i])) kernel.values[columns[i]] = *value;
    }
  }
  return kernels;
}

std::map<std::string, double> computed_occupancy(const OpTable& ops, const Compiler& compiler,
                                                 const ProfileTarget& target, const DeviceFacts& facts) {
  const Variant& variant = ops.find(target.problem.op).variant(target.variant);
  std::map<std::string, double> found;
  for (const Stage* stage : active_kernels(variant, target.problem, target.config)) {
    Variant alone = variant;
    alone.stages = {*stage};
    try {
      found[base_name(stage->kernel)] =
          inspect(compiler, alone, target.problem, target.config, facts).occupancy_pct;
    } catch (const CompileError&) {
    } catch (const ResourceError&) {
    }
  }
  return found;
}

std::string counters_text(const std::vector<KernelCounters>& kernels,
                          const std::map<std::string, double>& occupancy, double bytes, bool colored) {
  TextTable table({text_column("kernel"),
                   {"us"},
                   {"DRAM MB"},
                   {"% of op bytes"},
                   {"L2 hit %"},
                   {"occupancy %"},
                   {"computed %"},
                   {"issue %"},
                   {"replays %"},
                   {"tensor %"},
                   {"conflicts %"}});
  for (const KernelCounters& kernel : kernels) {
    const auto value = [&](const char* metric) {
      const auto found = kernel.values.find(metric);
      return found == kernel.values.end() ? NAN : found->second;
    };
    const auto cell = [](double number, int digits) {
      return std::isfinite(number) ? fmt::format("{:.{}f}", number, digits) : std::string();
    };
    const double dram = value(kDramRead) + value(kDramWrite);
    const auto computed = occupancy.find(kernel.kernel);
    table.add({kernel.kernel, cell(value(kDuration) * 1e-3, 2), cell(dram * 1e-6, 2),
               cell(100 * dram / bytes, 1), cell(value(kL2Hit), 1), cell(value(kOccupancy), 1),
               computed == occupancy.end() ? "" : cell(computed->second, 1), cell(value(kIssue), 1),
               cell(100 * (value(kIssued) / value(kExecuted) - 1), 1), cell(value(kTensor), 1),
               cell(100 * (value(kLoadConflicts) + value(kStoreConflicts)) / value(kWavefronts), 1)});
  }
  return table.text(colored);
}

}  // namespace warptune
