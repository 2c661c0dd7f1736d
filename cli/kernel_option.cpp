#include "cli/kernel_option.h"

#include "variants/table.h"

namespace warptune {

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

}  // namespace warptune
