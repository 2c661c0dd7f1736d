#include "harness/export/export_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <system_error>

#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/results/durable_file.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

constexpr const char* kIndex = "warptune.json";

/// Removes a folder that is not complete.
class UnfinishedFolder {
 public:
  explicit UnfinishedFolder(fs::path path) : path_(std::move(path)) {
    fs::remove_all(path_);
    make_folder(path_);
  }
  ~UnfinishedFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  UnfinishedFolder(const UnfinishedFolder&) = delete;
  UnfinishedFolder& operator=(const UnfinishedFolder&) = delete;

  const fs::path& path() const { return path_; }
  /// Gives it its name. An earlier export of that name is removed after the new one is there.
  void finish(const fs::path& name) {
    const fs::path earlier = fs::path(name).concat(fmt::format(".earlier-{}", ::getpid()));
    const bool replaces = fs::exists(name);
    if (replaces) fs::rename(name, earlier);
    try {
      fs::rename(path_, name);
    } catch (...) {
      std::error_code ignored;
      if (replaces) fs::rename(earlier, name, ignored);
      throw;
    }
    path_.clear();
    if (replaces) fs::remove_all(earlier);
  }

 private:
  fs::path path_;
};

/// The path without a slash at its end, so that a name can be put beside it.
fs::path plain(const fs::path& folder) {
  const fs::path path = fs::absolute(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

/// The cubins of a folder, each once under a hash of its content.
class CubinFolder {
 public:
  CubinFolder(fs::path folder, const Compiler& compiler, std::string arch)
      : folder_(std::move(folder)), compiler_(compiler), arch_(std::move(arch)) {
    make_folder(folder_ / "cubins");
  }
  ExportedKernel add(const StageModel& stage) {
    const auto [it, is_new] = kernels_.try_emplace({stage.file, stage.kernel});
    if (!is_new) return it->second;
    const Cubin cubin = compiler_.compile(stage.file, stage.kernel, arch_);
    const std::string name = fmt::format("cubins/{:016x}.cubin", stable_hash(cubin.code));
    const auto [content, is_new_file] = contents_.try_emplace(name, cubin.code);
    if (is_new_file)
      replace_file(folder_ / name, cubin.code);
    else if (content->second != cubin.code)
      throw std::runtime_error(fmt::format("two cubins have the name {}", name));
    return it->second = {.file = name, .entry = cubin.entry};
  }
  std::size_t count() const { return contents_.size(); }

 private:
  const fs::path folder_;
  const Compiler& compiler_;
  const std::string arch_;
  std::map<std::pair<std::string, std::string>, ExportedKernel> kernels_;
  std::map<std::string, std::string> contents_;
};

}  // namespace

void expect_export_folder(const fs::path& folder) {
  const fs::path path = plain(folder);
  std::error_code error;
  if (!fs::exists(path, error)) {
    if (!fs::is_directory(path.parent_path(), error))
      throw InputError(fmt::format("the folder of '{}' does not exist", folder.string()));
  } else if (!fs::is_directory(path, error)) {
    throw InputError(fmt::format("'{}' is a file; -o names a folder", folder.string()));
  } else if (!fs::is_empty(path, error) && !fs::exists(path / kIndex, error)) {
    throw InputError(
        fmt::format("'{}' has files but no {}: -o names a new or empty folder, or one of an "
                    "earlier export",
                    folder.string(), kIndex));
  }
  expect_writable(path.parent_path());
}

std::size_t write_export(const fs::path& folder, const OpTable& ops, const PlanTable& table,
                         const Compiler& compiler, const DeviceFacts& facts) {
  const fs::path path = plain(folder);
  UnfinishedFolder unfinished(fs::path(path).concat(fmt::format(".partial-{}", ::getpid())));
  CubinFolder cubins(unfinished.path(), compiler, facts.arch);
  replace_file(
      unfinished.path() / kIndex,
      export_json(ops, table, compiler, facts, [&](const StageModel& stage) { return cubins.add(stage); }));
  unfinished.finish(path);
  return cubins.count();
}

}  // namespace warptune
