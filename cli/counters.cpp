// warptune counters: hardware counters of winners or of any configuration, beside computed values.
#include "harness/tune/counters.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "cli/commands.h"
#include "cli/profile_target.h"
#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/print.h"
#include "harness/core/text_table.h"
#include "harness/results/csv.h"
#include "harness/results/run_info.h"
#include "harness/tune/winners_sweep.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

struct CountersArguments {
  TargetOptions target;  // without a TARGET, `problem` filters the winners
  std::vector<std::string> metrics = default_metrics();
  std::string csv;
};

/// A launch to read, and what is known about it.
struct Subject {
  ProfileTarget target;
  std::string run_id;
  double time_us = 0;         // 0: unknown
  std::filesystem::path csv;  // empty: no row is written
};

std::pair<std::string, int> output_of(const std::vector<std::string>& command) {
  std::FILE* pipe = ::popen(shell_text(command).c_str(), "r");
  if (!pipe) throw std::runtime_error("no process could be started");
  std::string text;
  std::array<char, 4096> buffer;
  while (const auto n = std::fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), n);
  return {text, ::pclose(pipe)};
}

/// The first error line of ncu. Throws for an error that holds for every kernel.
std::string complaint(const std::string& text) {
  if (text.find("ERR_NVGPUCTRPERM") != std::string::npos)
    throw InputError(
        "ncu may not read counters here: the driver restricts them to administrators (ERR_NVGPUCTRPERM)");
  const auto at = text.find("==ERROR==");
  return at == std::string::npos ? "ncu recorded no kernel" : text.substr(at, text.find('\n', at) - at);
}

struct Reading {
  std::vector<KernelCounters> kernels;
  std::string wrong;  // empty, or why ncu failed
};

Reading read_once(const std::vector<std::string>& command, const std::vector<std::string>& metrics) {
  const auto [text, status] = output_of(command);
  Reading reading{parse_ncu_csv(text, metrics), {}};
  if (status != 0 || reading.kernels.empty()) reading.wrong = complaint(text);
  return reading;
}

/// Reads metrics of launches. If ncu fails because the GPU lacks a metric, it tries the metrics one by one,
/// once, and drops the ones that fail.
class CounterReader {
 public:
  CounterReader(std::string ncu, std::vector<std::string> metrics)
      : ncu_(std::move(ncu)), metrics_(std::move(metrics)) {}

  Reading read(const ProfileTarget& target) {
    Reading reading = read(target, metrics_);
    if (reading.wrong.empty() || std::exchange(tried_, true)) return reading;
    std::vector<std::string> good;
    for (const std::string& metric : metrics_)
      if (read(target, {metric}).wrong.empty())
        good.push_back(metric);
      else
        print_error("ncu does not read {} here", metric);
    if (good.empty() || good.size() == metrics_.size()) return reading;
    metrics_ = good;
    return read(target, metrics_);
  }

 private:
  Reading read(const ProfileTarget& target, const std::vector<std::string>& metrics) const {
    auto command = counters_command(fs::read_symlink("/proc/self/exe"), target, metrics);
    command.front() = ncu_;
    return read_once(command, metrics);
  }

  const std::string ncu_;
  std::vector<std::string> metrics_;
  bool tried_ = false;  // metrics were tried one by one
};

/// The device of the rows: the one the winners were tuned on, else the GPU that runs the target. Without a
/// GPU the name is empty and nothing is computed.
DeviceFacts facts_of(const CountersArguments& given, const std::optional<WisdomInUse>& in_use) {
  DeviceFacts facts;
  if (in_use) {
    facts = known_device(in_use->wisdom.provenance().arch);
    facts.name = in_use->wisdom.provenance().device;
  } else if (cuda_device_count() > 0) {
    const auto device = open_device(given.target.device);
    facts = device->facts();
  }
  return facts;
}

std::vector<Subject> subjects_of(const CountersArguments& given, const std::optional<WisdomInUse>& in_use) {
  if (!given.target.target.empty())
    return {{.target = target_of(given.target), .run_id = {}, .csv = given.csv}};
  if (!in_use)
    throw InputError("counters needs --wisdom, the file with the winners, or OP/VARIANT with --problem");
  std::vector<Subject> subjects;
  for (const Winner& winner : winners_of(given.target.kernels.ops(), in_use->wisdom, given.target.problem)) {
    if (ranks_of(winner.problem) > 1 ||
        given.target.kernels.ops().find(winner.problem.op).variant(winner.variant).backend != Backend::cuda)
      continue;
    const auto beside = [&] {
      return path_below(in_use->files.front().path.parent_path(),
                        fs::path(winner.csv).replace_extension(".counters.csv"));
    };
    subjects.push_back({.target = {winner.problem, winner.variant, winner.config, given.target.device,
                                   given.target.kernels.files()},
                        .run_id = winner.run_id,
                        .time_us = winner.time_us,
                        .csv = given.csv.empty() ? beside() : fs::path(given.csv)});
  }
  return subjects;
}

/// Appends a row per kernel.
void write_rows(const OpTable& ops, const Subject& subject, const std::vector<KernelCounters>& kernels,
                const std::string& device, const std::map<std::string, double>& occupancy,
                const std::vector<std::string>& metrics) {
  std::vector<std::string> columns = {"run_id",  "timestamp_utc", "device",  "op",           "problem",
                                      "variant", "config",        "time_us", "bytes",        "flops",
                                      "kernels", "kernel_index",  "kernel",  "occupancy_pct"};
  columns.insert(columns.end(), metrics.begin(), metrics.end());
  const auto& [problem, variant, config, device_name, kernel_files] = subject.target;
  const Cost cost = ops.find(problem.op).op.cost(problem);
  const auto text = [](const std::map<std::string, double>& values, const std::string& name) {
    const auto found = values.find(name);
    return found == values.end() ? std::string() : fmt::format("{:.8g}", found->second);
  };
  CsvFile file(subject.csv, columns);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    std::vector<std::string> fields = {subject.run_id,
                                       timestamp_utc(),
                                       device,
                                       problem.op,
                                       problem.key(),
                                       variant,
                                       config.str(),
                                       subject.time_us > 0 ? fmt::format("{:.6g}", subject.time_us) : "",
                                       fmt::format("{:.10g}", cost.bytes),
                                       fmt::format("{:.10g}", cost.flops),
                                       fmt::format("{}", kernels.size()),
                                       fmt::format("{}", i + 1),
                                       kernels[i].kernel,
                                       text(occupancy, kernels[i].kernel)};
    for (const std::string& metric : metrics) fields.push_back(text(kernels[i].values, metric));
    file.append(fields);
  }
}

int read_counters(const CountersArguments& given) {
  const bool of_winners = !given.target.wisdom.empty() || (given.target.target.empty() && has_wisdom_path());
  const auto in_use = of_winners ? std::optional(target_wisdom(given.target)) : std::nullopt;
  const OpTable& ops = given.target.kernels.ops();
  const std::vector<Subject> subjects = subjects_of(given, in_use);
  const auto tool = find_tool("ncu");
  if (!tool) throw InputError("ncu is not on this machine (neither on the PATH nor in the CUDA Toolkit)");
  const DeviceFacts facts = facts_of(given, in_use);
  const Compiler compiler(KernelSources(), default_cache_folder());
  CounterReader reader(tool->string(), given.metrics);
  int failed = 0;
  for (const Subject& subject : subjects) {
    const ProfileTarget& target = subject.target;
    const auto [kernels, wrong] = reader.read(target);
    if (!wrong.empty()) {
      ++failed;
      print_error("{}: {}", target.problem.key(), wrong);
      continue;
    }
    const auto occupancy = facts.name.empty() ? std::map<std::string, double>()
                                              : computed_occupancy(ops, compiler, target, facts);
    if (!subject.csv.empty()) write_rows(ops, subject, kernels, facts.name, occupancy, given.metrics);
    const double bytes = ops.find(target.problem.op).op.cost(target.problem).bytes;
    print("{} {} {}: {:.2f} MB by the op\n{}\n", target.problem.key(), target.variant, target.config.str(),
          bytes * 1e-6, AsIs{counters_text(kernels, occupancy, bytes, takes_color(stdout))});
    std::fflush(stdout);
  }
  return failed ? 1 : 0;
}

}  // namespace

void add_counters(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand(
      "counters", "Reads hardware counters of the winners, or of one configuration, with ncu");
  command->footer(
      "Prints a table per launch, and writes a row per kernel to <sweep>.counters.csv next to the wisdom; "
      "device,\n"
      "problem, variant, config and run_id are the key into the sweep's CSV. Exits with 1 if a launch could "
      "not be\n"
      "read.\n"
      "Examples:\n"
      "  warptune counters --wisdom results/h200/wisdom.json --problem 'linear.*tokens=1,'\n"
      "  warptune counters rms_norm/vectorized --problem tokens=1,hidden=4096 \\\n"
      "    --config block=256,rows=1,vec=8,cache_hint=none,pdl=0 --csv counters.csv");
  const auto given = std::make_shared<CountersArguments>();
  add_target_options(*command, given->target);
  command->get_option("TARGET")->description(
      "OP/VARIANT, or a problem, for its winner; without it every winner in --wisdom");
  command->get_option("--problem")
      ->description(
          "The dims for OP/VARIANT; without a TARGET: only winners whose key matches this regular "
          "expression");
  command->get_option("--device")->description("auto or cuda:N");
  command->add_option("--metrics", given->metrics, "Metrics of ncu; a list with commas")->delimiter(',');
  command->add_option("--csv", given->csv,
                      "The file of the rows; default for winners <sweep>.counters.csv, for a TARGET none");
  command->callback([given, &exit_code] { exit_code = read_counters(*given); });
}

}  // namespace warptune
