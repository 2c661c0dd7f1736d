#include "harness/export/export_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <sstream>
#include <system_error>

#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/core/input_file.h"
#include "harness/core/json.h"
#include "harness/results/durable_file.h"

namespace warptune {

namespace fs = std::filesystem;
namespace {

constexpr const char* kCubins = "cubins";
/// While an export writes, this file lists what a kill may leave in the folder.
constexpr const char* kUnfinished = "warptune.unfinished";
constexpr std::string_view kHeading = "Files of a warptune export that has not ended:\n";
constexpr std::uintmax_t kMaxCubinBytes = 1 << 30;

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

/// The name of the temporary file from which replace_file() renames.
std::string temporary_name(const std::string& name) { return fmt::format("{}.{}", name, ::getpid()); }

bool is_cubin_name(std::string_view name) {
  constexpr std::string_view kBegin = "cubins/", kEnd = ".cubin";
  constexpr std::size_t kHashLetters = 16;
  if (name.size() != kBegin.size() + kHashLetters + kEnd.size()) return false;
  return name.starts_with(kBegin) && name.ends_with(kEnd) &&
         name.substr(kBegin.size(), kHashLetters).find_first_not_of("0123456789abcdef") == name.npos;
}

/// Whether an export writes files of this name, perhaps a temporary one.
bool is_export_name(std::string_view name) {
  const std::string_view whole =
      is_number(name.substr(name.rfind('.') + 1)) ? name.substr(0, name.rfind('.')) : name;
  return whole == kExportIndex || is_cubin_name(whole);
}

[[noreturn]] void refuse(const fs::path& folder, const std::string& name, const std::string& why) {
  throw InputError("'{}' holds '{}', {}: -o names a new or empty folder, or one of an earlier export",
                   folder.string(), name, why);
}

/// The cubins that an index names. Throws InputError where no export wrote the index.
std::set<std::string> cubins_of_index(const fs::path& folder) {
  const auto fail = [&] { refuse(folder, kExportIndex, "which no export wrote"); };
  const std::string text =
      read_input(folder / kExportIndex, (folder / kExportIndex).string(), kMaxWisdomBytes);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("schema") || !json.contains("warptune") ||
      !json.contains("plans") || !json["plans"].is_array())
    fail();
  std::set<std::string> names;
  for (const auto& plan : json["plans"]) {
    if (!plan.is_object() || !plan.contains("stages") || !plan["stages"].is_array()) fail();
    for (const auto& stage : plan["stages"]) {
      if (!stage.is_object() || !stage.contains("cubin") || !stage["cubin"].is_string() ||
          !is_cubin_name(stage["cubin"].get<std::string>()))
        fail();
      names.insert(stage["cubin"].get<std::string>());
    }
  }
  return names;
}

/// The files that an export that was killed may have left. A kill may cut the list, before any other file.
std::set<std::string> unfinished_files(const fs::path& folder) {
  const fs::path file = folder / kUnfinished;
  const std::string text = read_input(file, file.string(), kMaxWisdomBytes);
  if (!text.starts_with(kHeading)) {
    if (!kHeading.starts_with(text)) refuse(folder, kUnfinished, "which no export wrote");
    return {};
  }
  std::set<std::string> names;
  std::istringstream lines(text.substr(kHeading.size()));
  for (std::string name; std::getline(lines, name);)
    if (is_export_name(name)) names.insert(name);
  return names;
}

void write_list(const fs::path& folder, const std::set<std::string>& names) {
  const fs::path path = folder / kUnfinished;
  std::string text(kHeading);
  for (const std::string& name : names) text += name + '\n';
  write_and_sync(OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW).get(), text, path);
  sync_folder_of(path);
}

bool has_content(const fs::path& file, const std::string& text) {
  std::error_code error;
  return fs::is_regular_file(file, error) && fs::file_size(file, error) == text.size() &&
         read_input(file, file.string(), text.size()) == text;
}

/// Removes files of exports but these, then what has become empty. The list goes last.
void remove_others(const fs::path& folder, const std::set<std::string>& files,
                   const std::set<std::string>& keep) {
  std::error_code ignored;
  for (const std::string& name : files)
    if (!keep.contains(name) && name != kUnfinished) fs::remove(folder / name, ignored);
  fs::remove(folder / kCubins, ignored);  // fails where it is not empty
  fs::remove(folder / kUnfinished, ignored);
}

}  // namespace

std::string cubin_name(const std::string& code) {
  return fmt::format("{}/{:016x}.cubin", kCubins, stable_hash(code));
}

std::set<std::string> files_of_exports(const fs::path& folder) {
  std::set<std::string> listed, unfinished;
  if (fs::is_regular_file(fs::symlink_status(folder / kExportIndex))) {
    listed = cubins_of_index(folder);
    listed.insert(kExportIndex);
  }
  if (fs::is_regular_file(fs::symlink_status(folder / kUnfinished))) {
    unfinished = unfinished_files(folder);
    unfinished.insert(kUnfinished);
  }
  const auto expect_ours = [&](const fs::directory_entry& entry, const std::string& name) {
    if (!fs::is_regular_file(entry.symlink_status()) || !(listed.contains(name) || unfinished.contains(name)))
      refuse(folder, name, "which no export wrote and listed");
    if (is_cubin_name(name) && !unfinished.contains(name) &&
        cubin_name(read_input(entry.path(), entry.path().string(), kMaxCubinBytes)) != name)
      refuse(folder, name, "which has changed since an export wrote it");
  };
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name != kCubins || !fs::is_directory(entry.symlink_status())) {
      expect_ours(entry, name);
      continue;
    }
    for (const auto& cubin : fs::directory_iterator(entry.path()))
      expect_ours(cubin, fmt::format("{}/{}", kCubins, cubin.path().filename().string()));
  }
  listed.merge(unfinished);
  return listed;
}

void replace_export(const fs::path& folder, const std::map<std::string, std::string>& cubins,
                    const std::string& index) {
  std::error_code ignored;
  const bool is_new = fs::create_directory(folder, ignored);
  const OpenFile lock(folder, O_RDONLY | O_DIRECTORY);
  ::flock(lock.get(), LOCK_EX);  // other exports to the folder wait; a file system without locks has none
  std::set<std::string> files = files_of_exports(folder), keep = {kExportIndex}, before;
  if (files.contains(kExportIndex)) before = cubins_of_index(folder), before.insert(kExportIndex);
  for (const auto& [name, code] : cubins) keep.insert(name);
  for (const std::string& name : keep) {
    files.insert(name);
    files.insert(temporary_name(name));
  }
  try {
    write_list(folder, files);
    for (const auto& [name, code] : cubins)
      if (!has_content(folder / name, code)) replace_file(folder / name, code);
    replace_file(folder / kExportIndex, index);
  } catch (...) {
    remove_others(folder, files, before);
    if (is_new) fs::remove(folder, ignored);
    throw;
  }
  remove_others(folder, files, keep);
  sync_folder_of(folder / kExportIndex);
}

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
      throw TextError("two cubins have the name {}", name);
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
    throw InputError("'{}' is a file; -o names a folder", folder.string());
  } else if (fs::is_symlink(path, error)) {
    throw InputError("'{}' is a link to a folder that does not exist", folder.string());
  } else if (!fs::is_directory(fs::absolute(path).parent_path(), error)) {
    throw InputError("the folder of '{}' does not exist", folder.string());
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
