#include "cli/options.h"

#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/core/print.h"
#include "harness/device/device.h"
#include "harness/results/durable_file.h"
#include "harness/results/history.h"
#include "harness/results/sweep_file.h"
#include "variants/table.h"

namespace warptune {

void add_device(CLI::App& command, std::string& device) {
  command.add_option("--device", device, "auto (first GPU, else host), cuda:N or host")
      ->capture_default_str();
}

void add_as(CLI::App& command, std::string& device) {
  command.add_option_function<std::string>(
      "--as", [&device](const std::string& arch) { device = device_as(device, arch); }, kAsHelp);
}

void add_problem_filter(CLI::App& command, std::string& pattern) {
  command.add_option("--problem", pattern, "Only problems whose key matches this regular expression");
}

CLI::Option* add_sweep_filter(CLI::App& command, std::string& pattern) {
  return command.add_option(
      "--filter", pattern,
      "Only variants whose op/variant matches this regular expression, or whose problem does: '^linear/', "
      "'tokens=1,'");
}

void add_jobs(CLI::App& command, int& jobs) {
  command.add_option("--jobs", jobs, "Compile jobs (threads); by default all hardware threads but one")
      ->check(CLI::Range(1, 1024));
}

void add_force(CLI::App& command, bool& force) {
  command.add_flag("--force", force,
                   "Replace an existing file that is no earlier output; never an input, results or sources");
}

void add_lock_clocks(CLI::App& command, std::optional<ClockRequest>& request) {
  command
      .add_option_function<std::string>(
          "--lock-clocks", [&request](const std::string& text) { request = parse_clock_request(text); },
          "Lock the clocks of the GPUs while they are timed and reset them at the end: SM or SM,MEMORY in "
          "MHz; without a value (base) the application clocks. Needs the right to set clocks")
      ->expected(0, 1)
      ->default_str("base");
}

CLI::Validator within(double low, double high) {
  return {[=](std::string& text) {
            double value = 0;
            const bool number = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
            return number ? std::string()
                          : fmt::format("'{}' is not a number from {} to {}", text, low, high);
          },
          fmt::format("NUMBER in [{} - {}]", low, high)};
}

void KernelOption::add_to(CLI::App& command) {
  command
      .add_option(
          "--kernels", given_,
          "A file with kernels of your own (docs/custom-kernels.md), or a sweep with such; may be repeated")
      ->allow_extra_args(false);
}

void KernelOption::add_reference_seconds_to(CLI::App& command) {
  command.add_option("--reference-seconds", reference_seconds_);
}

const OpTable& KernelOption::ops() const {
  if (given_.empty()) return warptune::ops();
  if (!table_) table_ = with_kernels(warptune::ops(), files(), reference_seconds_);
  return *table_;
}

std::vector<std::filesystem::path> KernelOption::files() const {
  std::vector<std::filesystem::path> paths;
  for (const std::string& file : given_) paths.push_back(std::filesystem::absolute(file));
  return paths;
}

KernelFiles KernelOption::files_as_read() const {
  if (given_.empty()) return {};
  return {.paths = files(), .hash = hash_of_kernels(ops())};
}

void HistoryOption::add_to(CLI::App& command) {
  command.add_option("--history", folder_,
                     "Folder that keeps the rows of each run in a file of its own, which `history` reads");
}

void HistoryOption::expect_writable() const {
  if (!is_given()) return;
  if (std::filesystem::exists(folder_) && !std::filesystem::is_directory(folder_))
    throw InputError("--history is '{}', which is no folder", folder_);
  warptune::expect_writable(std::filesystem::path(folder_) / "run.csv");
}

void HistoryOption::add(const std::filesystem::path& csv) const {
  if (is_given()) add(read_sweep(csv));
}

void HistoryOption::add(std::vector<CsvRow> rows) const {
  if (!is_given()) return;
  for (const auto& file : add_to_history(folder_, std::move(rows))) print("history: {}\n", file.string());
}

namespace fs = std::filesystem;

void TextOutput::write(std::string_view text) const {
  if (file_)
    file_->write(text);
  else
    print("{}", AsIs{text});  // a document is exact, wherever it goes
}

void OutputOption::add_to(CLI::App& command, const std::string& what) {
  auto* option = command.add_option("-o,--output", path_, what);
  if (!path_.empty()) option->capture_default_str();
  add_force(command, force_);
}

TextOutput OutputOption::open(OutputKind kind, const std::vector<std::string>& inputs) const {
  if (path_.empty()) return {};
  OutputFile file(path_, std::move(kind), paths_of(inputs), force_);
  const fs::path target = file_behind(path_);
  if (!target.empty() && !fs::is_directory(target.parent_path()))
    throw InputError("'{}' cannot be written: its folder does not exist", path_);
  return TextOutput(std::move(file));
}

std::vector<fs::path> paths_of(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

}  // namespace warptune
