#include "harness/tune/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "harness/core/error.h"
#include "harness/core/space.h"
#include "harness/device/compile.h"
#include "harness/device/profiler_range.h"
#include "harness/llama/nvtx.h"
#include "harness/verify/oracle.h"

namespace warptune {
namespace fs = std::filesystem;

std::string ProfileTarget::name() const { return problem.op + "/" + variant + "/" + problem.key(); }

void run_profiled(const OpTable& ops, const ProfileTarget& target) {
  const auto device = open_device(target.device);
  const OpEntry& entry = ops.find(target.problem.op);
  const Variant& variant = entry.variant(target.variant);
  if (variant.backend != device->facts().backend)
    throw InputError(fmt::format("{} does not run on {}", target.name(), device->facts().name));
  const Space space(variant, target.problem, device->facts());
  if (const std::string why = space.why_excluded(target.config); !why.empty()) throw InputError(why);
  const Oracle oracle(entry.op, target.problem, 1);
  TensorSet set(*device, oracle.specs());
  set.fill(oracle.specs(), oracle.seed());
  const auto plan = device->prepare(variant, target.problem, target.config);
  Buffer workspace;
  if (const auto bytes = static_cast<std::size_t>(plan->workspace_bytes())) {
    workspace = device->allocate(bytes);
    device->set_bytes(workspace.data(), 0, bytes, device->stream());
  }
  const Args args = entry.op.bind(target.problem, set.addresses(), workspace.data());
  set.reset_outputs(oracle.specs(), oracle.seed());
  plan->launch(args.data(), device->stream());
  device->synchronize();
  if (const Verdict verdict = oracle.compare(set); !verdict.ok)
    throw CheckError(fmt::format("{} {}: {}", target.name(), target.config.str(), verdict.detail));
  set.reset_outputs(oracle.specs(), oracle.seed());
  {
    const ProfilerRange recorded(*device);
    const NvtxRange range(target.name());
    plan->launch(args.data(), device->stream());
    device->synchronize();
  }
}

std::vector<std::string> inside_command(const fs::path& program, const ProfileTarget& target) {
  std::vector<std::string> command = {
      program.string(),          "profile", target.problem.op + "/" + target.variant,  "--problem",
      target.problem.dims.str(), "--dtype", std::string(name_of(target.problem.dtype))};
  if (!target.config.empty()) command.insert(command.end(), {"--config", target.config.str()});
  command.insert(command.end(), {"--device", target.device, "--inside"});
  return command;
}

namespace {

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

std::vector<std::string> profiler_command(const std::string& tool, const fs::path& program,
                                          const ProfileTarget& target, const fs::path& sources,
                                          const fs::path& report) {
  const auto inside = inside_command(program, target);
  if (tool == "nsys")
    return joined({"nsys", "profile", "--trace=cuda,nvtx", "--capture-range=cudaProfilerApi",
                   "--capture-range-end=stop", "--force-overwrite=true", "-o", report.string()},
                  inside);
  return joined({"ncu", "--profile-from-start", "off", "--clock-control", "none", "--set", "full", "--nvtx",
                 "--kernel-name-base", "demangled", "--import-source", "yes", "--source-folders",
                 sources.string(), "-f", "-o", report.string()},
                inside);
}

std::vector<std::string> counters_command(const fs::path& program, const ProfileTarget& target,
                                          const std::vector<std::string>& metrics) {
  return joined({"ncu", "--profile-from-start", "off", "--clock-control", "none", "--csv", "--page", "raw",
                 "--print-units", "base", "--metrics", fmt::format("{}", fmt::join(metrics, ","))},
                inside_command(program, target));
}

void write_sources(const OpTable& ops, const ProfileTarget& target, const fs::path& folder) {
  const KernelSources sources;
  for (const Stage& stage : ops.find(target.problem.op).variant(target.variant).stages) {
    if (stage.library) continue;
    for (const auto& [name, text] : sources.closure(stage.file)) {
      const fs::path path = folder / name;
      std::error_code error;
      fs::create_directories(path.parent_path(), error);
      std::ofstream out(path);
      out << text;
      if (!out.flush()) throw InputError(fmt::format("'{}' cannot be written", path.string()));
    }
  }
}

std::string shell_text(const std::vector<std::string>& command) {
  static constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+";
  std::string text;
  for (const std::string& word : command) {
    if (!text.empty()) text += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

std::optional<fs::path> find_tool(const std::string& name) {
  std::vector<fs::path> folders;
  if (const char* path = std::getenv("PATH")) {
    std::istringstream list(path);
    for (std::string folder; std::getline(list, folder, ':');)
      folders.push_back(folder.empty() ? "." : folder);
  }
  if (const char* home = std::getenv("CUDA_HOME")) folders.push_back(fs::path(home) / "bin");
  folders.push_back("/usr/local/cuda/bin");
  for (const fs::path& folder : folders) {
    const fs::path file = folder / name;
    std::error_code error;
    if (fs::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

const std::vector<std::string>& default_metrics() {
  static const std::vector<std::string> metrics = {
      "gpu__time_duration.sum",     "dram__bytes_read.sum",
      "dram__bytes_write.sum",      "sm__warps_active.avg.pct_of_peak_sustained_active",
      "lts__t_sector_hit_rate.pct", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"};
  return metrics;
}

namespace {

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
std::optional<double> number_of(std::string text) {
  std::erase(text, ',');
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return text.empty() || *end ? std::nullopt : std::optional(value);
}

}  // namespace

std::map<std::string, double> parse_ncu_csv(const std::string& text,
                                            const std::vector<std::string>& metrics) {
  static const std::string kDuration = "gpu__time_duration.sum";
  std::vector<std::string> columns;
  std::map<std::string, double> values, weights;
  std::istringstream lines(text);
  double kernels = 0;
  for (std::string line; std::getline(lines, line);) {
    if (columns.empty()) {
      if (line.starts_with("\"ID\"")) columns = fields_of(line);
      continue;
    }
    const auto fields = fields_of(line);
    if (fields.size() != columns.size() || fields.front().empty()) continue;  // the row of units
    std::map<std::string, double> row;
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (const auto value = number_of(fields[i])) row[columns[i]] = *value;
    ++kernels;
    const double weight = row.contains(kDuration) ? row[kDuration] : 1;
    for (const std::string& metric : metrics) {
      if (!row.contains(metric)) continue;
      const bool added = metric.ends_with(".sum");
      values[metric] += row[metric] * (added ? 1 : weight);
      weights[metric] = added ? 1 : weights[metric] + weight;
    }
  }
  for (auto& [metric, value] : values) value /= weights[metric];
  values["kernels"] = kernels;
  return values;
}

}  // namespace warptune
