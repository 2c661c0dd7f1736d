#include "cli/output_option.h"

#include <fmt/format.h>

#include "cli/options.h"
#include "harness/core/error.h"
#include "harness/core/print.h"
#include "harness/results/durable_file.h"

namespace warptune {
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
    throw InputError(fmt::format("'{}' cannot be written: its folder does not exist", path_));
  return TextOutput(std::move(file));
}

std::vector<fs::path> paths_of(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

}  // namespace warptune
