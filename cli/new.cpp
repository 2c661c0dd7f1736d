// warptune new kernel OP | new op NAME: writes the first files of a kernel or an op of the user.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "harness/core/error.h"
#include "harness/core/print.h"
#include "harness/custom/kernel_files.h"
#include "harness/results/durable_file.h"
#include "variants/table.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

/// Writes all files or none, and prints their paths.
void write_new(const fs::path& folder, const std::vector<std::pair<std::string, std::string>>& files) {
  for (const auto& [file, text] : files)
    if (fs::exists(folder / file))
      throw InputError("'{}' exists; nothing is written", (folder / file).string());
  for (const auto& [file, text] : files) {
    replace_file(folder / file, text);
    print("{}\n", (folder / file).string());
  }
}

}  // namespace

void add_new(CLI::App& app, int&) {
  auto* command = app.add_subcommand("new", "Writes the first files of a kernel or an op of your own");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n  warptune new kernel rms_norm --name my_rms -o my_kernels\n"
      "  warptune new op my_scale -o my_ops");
  struct Given {
    std::string op, name, folder = ".";
  };
  const auto given = std::make_shared<Given>();
  auto* kernel = command->add_subcommand(
      "kernel", "Writes a kernel for an op, a copy of the naive one, and the sweep that tunes it");
  kernel->add_option("OP", given->op, "The op that the kernel computes")->required();
  kernel->add_option("--name", given->name, "The name of the variant and of the files; my_OP by default");
  kernel->add_option("-o,--out", given->folder, "The folder of the files")->capture_default_str();
  kernel->callback([given] {
    const std::string name = given->name.empty() ? "my_" + given->op : given->name;
    write_new(given->folder, kernel_skeleton(find_op(given->op), name, KernelSources()));
  });
  auto* op = command->add_subcommand(
      "op", "Writes an op with a kernel and a reference, and the sweep that tunes the kernel");
  op->add_option("NAME", given->name, "The name of the op and of the files")->required();
  op->add_option("-o,--out", given->folder, "The folder of the files")->capture_default_str();
  op->callback([given] {
    if (ops().find_if_known(given->name))
      throw InputError("there is an op '{}' already; choose another name", given->name);
    write_new(given->folder, op_skeleton(given->name));
  });
}

}  // namespace warptune
