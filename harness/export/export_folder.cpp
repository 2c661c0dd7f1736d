#include "harness/export/export_folder.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <system_error>

#include "harness/core/error.h"
#include "harness/export/export_files.h"
#include "harness/results/durable_file.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

/// The machine code of a table, each once by its name.
class Cubins {
 public:
  Cubins(const Compiler& compiler, std::string arch) : compiler_(compiler), arch_(std::move(arch)) {}

  ExportedKernel add(const ExportedPlan& plan, const Stage& stage) {
    const Variant& variant = *plan.choice.variant;
    std::string key = kernel_key(variant, stage, plan.problem, plan.choice.config);
    if (stage.custom) key = plan.problem.op + "/" + variant.name + ": " + key;  // options differ, too
    const auto [it, is_new] = kernels_.try_emplace(std::move(key));
    if (!is_new) return it->second;
    const Cubin cubin = compiler_.compile(variant, stage, plan.problem, plan.choice.config, arch_);
    const std::string name = cubin_name(cubin.code);
    if (contents_.try_emplace(name, cubin.code).first->second != cubin.code)
      throw std::runtime_error(fmt::format("two cubins have the name {}", name));
    return it->second = {.file = name, .entry = cubin.entry};
  }
  const std::map<std::string, std::string>& contents() const { return contents_; }

 private:
  const Compiler& compiler_;
  const std::string arch_;
  std::map<std::string, ExportedKernel> kernels_;
  std::map<std::string, std::string> contents_;
};

}  // namespace

void expect_export_folder(const fs::path& folder) {
  const fs::path path = folder.has_filename() ? folder : folder.parent_path();  // without a slash at its end
  std::error_code error;
  if (fs::is_directory(path, error)) {
    files_of_exports(path);
  } else if (fs::exists(path, error)) {
    throw InputError(fmt::format("'{}' is a file; -o names a folder", folder.string()));
  } else if (fs::is_symlink(path, error)) {
    throw InputError(fmt::format("'{}' is a link to a folder that does not exist", folder.string()));
  } else if (!fs::is_directory(fs::absolute(path).parent_path(), error)) {
    throw InputError(fmt::format("the folder of '{}' does not exist", folder.string()));
  }
  expect_writable(path);
}

std::size_t write_export(const fs::path& folder, const OpTable& ops, const PlanTable& table,
                         const Compiler& compiler, const DeviceFacts& facts) {
  Cubins cubins(compiler, facts.arch);
  const std::string index =
      export_json(ops, table, compiler, facts,
                  [&](const ExportedPlan& plan, const Stage& stage) { return cubins.add(plan, stage); });
  replace_export(folder, cubins.contents(), index);
  return cubins.contents().size();
}

}  // namespace warptune
