// warptune counters: hardware counters of the winners, in a file next to the CSV.
#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <utility>

#include "harness/cli/commands.h"
#include "harness/core/error.h"
#include "harness/core/message.h"
#include "harness/results/csv.h"
#include "harness/results/run_info.h"
#include "harness/tune/profile.h"
#include "harness/tune/winners_sweep.h"
#include "variants/table.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

struct Given {
  std::string wisdom, problem, device = "auto";
  std::vector<std::string> metrics = default_metrics();
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
  std::map<std::string, double> values;
  std::string wrong;  // empty, or why ncu failed
};

Reading read_once(const std::vector<std::string>& command, const std::vector<std::string>& metrics) {
  const auto [text, status] = output_of(command);
  Reading reading{parse_ncu_csv(text, metrics), {}};
  if (status != 0 || reading.values.at("kernels") == 0) reading.wrong = complaint(text);
  return reading;
}

/// Reads metrics of winners. If ncu fails because the GPU lacks a metric, it tries the metrics one by one,
/// once, and drops those that fail.
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
        print_error(fmt::format("ncu does not read {} here", metric));
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

int read_counters(const Given& given) {
  const auto tool = find_tool("ncu");
  if (!tool) throw InputError("ncu is not on this machine (neither on the PATH nor in the CUDA Toolkit)");
  const Wisdom wisdom = Wisdom::load(given.wisdom);
  CounterReader reader(tool->string(), given.metrics);
  std::vector<std::string> columns = {"run_id",  "timestamp_utc", "device",  "op",     "problem",
                                      "variant", "config",        "time_us", "kernels"};
  columns.insert(columns.end(), given.metrics.begin(), given.metrics.end());
  int failed = 0;
  for (const Winner& winner : winners_of(wisdom, given.problem)) {
    if (find_op(winner.problem.op).variant(winner.variant).backend != Backend::cuda) continue;
    const auto [values, wrong] = reader.read({winner.problem, winner.variant, winner.config, given.device});
    if (!wrong.empty()) {
      ++failed;
      print_error(fmt::format("{}: {}", winner.problem.key(), wrong));
      continue;
    }
    std::vector<std::string> fields = {winner.run_id,
                                       timestamp_utc(),
                                       wisdom.provenance().device,
                                       winner.problem.op,
                                       winner.problem.key(),
                                       winner.variant,
                                       winner.config.str(),
                                       fmt::format("{:.6g}", winner.time_us),
                                       fmt::format("{}", values.at("kernels"))};
    for (const std::string& metric : given.metrics)
      fields.push_back(values.contains(metric) ? fmt::format("{:.8g}", values.at(metric)) : "");
    const fs::path folder = fs::path(given.wisdom).parent_path();
    CsvFile(folder / fs::path(winner.csv).replace_extension(".counters.csv"), columns).append(fields);
    fmt::print("{} {}: {} kernels\n", winner.problem.key(), winner.variant, values.at("kernels"));
    std::fflush(stdout);
  }
  return failed ? 1 : 0;
}

}  // namespace

void add_counters(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("counters", "Reads hardware counters of the winners with ncu");
  command->footer(
      "Writes <sweep>.counters.csv next to the wisdom; device, problem, variant, config and run_id are the\n"
      "key into the sweep's CSV. Exits with 1 if a winner could not be read.\n"
      "Example:\n"
      "  warptune counters --wisdom results/h200/wisdom.json --problem 'linear.*tokens=1,'");
  const auto given = std::make_shared<Given>();
  command->add_option("--wisdom", given->wisdom, "The winners")->required();
  command->add_option("--problem", given->problem, "Only problems whose key matches this regular expression");
  command->add_option("--metrics", given->metrics, "Metrics of ncu; a list with commas")->delimiter(',');
  command->add_option("--device", given->device, "auto or cuda:N")->capture_default_str();
  command->callback([given, &exit_code] { exit_code = read_counters(*given); });
}

}  // namespace warptune
