#include "harness/custom/kernel_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/core/hash.h"
#include "harness/custom/op_definition.h"
#include "harness/device/custom_build.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

class Reader {
 public:
  Reader(const OpTable& base, double reference_seconds)
      : base_(base), reference_seconds_(reference_seconds), entries_(base.begin(), base.end()) {}

  /// Reads a file once, and the files that it names.
  void read(const fs::path& path) {
    if (!seen_.insert(fs::weakly_canonical(path)).second) return;
    const YamlReader yaml(path.string());
    const YAML::Node& root = yaml.root();
    if (!root.IsMap() || !defines_kernels(root))
      yaml.fail(root, "the file defines no kernel: it has no 'kernels', 'ops_defined' or 'kernel_files'");
    if (const YAML::Node files = root["kernel_files"])
      for (const YAML::Node& file : yaml.items(files, "'kernel_files'")) {
        const fs::path next = path.parent_path() / yaml.text(file, "a file of 'kernel_files'");
        std::error_code error;
        if (!fs::exists(next, error)) yaml.fail(file, "the file '{}' does not exist", next.string());
        read(next);
      }
    if (const YAML::Node defined = root["ops_defined"]) {
      yaml.expect_list(defined, "'ops_defined'");
      for (const YAML::Node& node : defined) {
        OpEntry entry = read_defined_op(yaml, node, path.parent_path(), reference_seconds_);
        if (find(entry.op.name))
          yaml.fail(node, "there is an op '{}' already; choose another name", entry.op.name);
        entries_.push_back(std::move(entry));
      }
    }
    if (const YAML::Node kernels = root["kernels"]) {
      yaml.expect_list(kernels, "'kernels'");
      for (const YAML::Node& node : kernels) add(yaml, node, path.parent_path());
    }
  }

  std::shared_ptr<const OpTable> table() {
    return std::make_shared<const OpTable>(std::move(entries_), base_.tiles());
  }

 private:
  void add(const YamlReader& yaml, const YAML::Node& node, const fs::path& folder) {
    const std::string op = op_of_kernel(yaml, node);
    OpEntry* entry = find(op);
    if (!entry) yaml.at(node["op"], [&] { base_.find(op); });  // throws
    entry->variants.push_back(read_kernel(yaml, node, *entry, folder));
  }

  OpEntry* find(const std::string& op) {
    const auto it = std::ranges::find(entries_, op, [](const OpEntry& e) { return e.op.name; });
    return it == entries_.end() ? nullptr : &*it;
  }

  const OpTable& base_;
  double reference_seconds_;
  std::vector<OpEntry> entries_;
  std::set<fs::path> seen_;
};

}  // namespace

std::string hash_of_kernels(const OpTable& ops) {
  std::string text;
  for (const OpEntry& entry : ops) {
    text += entry.op.name + entry.host_source_hash + '\0';
    for (const Variant& variant : entry.variants)
      for (const Stage& stage : variant.stages)
        if (stage.custom) {
          text += stage.custom->definition + '\0';
          for (const auto& [name, content] : all_files(*stage.custom)) text += name + '\0' + content + '\0';
        }
  }
  return fmt::format("{:016x}", stable_hash(text));
}

bool defines_kernels(const YAML::Node& root) {
  return root["kernels"] || root["kernel_files"] || root["ops_defined"];
}

std::shared_ptr<const OpTable> with_kernels(const OpTable& base, std::span<const fs::path> files,
                                            double reference_seconds) {
  Reader reader(base, reference_seconds);
  for (const fs::path& file : files) reader.read(file);
  return reader.table();
}

}  // namespace warptune
