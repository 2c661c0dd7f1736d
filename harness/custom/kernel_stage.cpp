#include "harness/custom/kernel_stage.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/core/input_file.h"
#include "harness/device/compile.h"
#include "harness/device/source_closure.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

constexpr std::uintmax_t kMaxBinaryBytes = 256 << 20;

/// The one key of the code that a node has, or null.
const char* code_key(const KernelItem& item, const YAML::Node& node) {
  const char* found = nullptr;
  for (const char* key : {"source", "cuda", "cubin", "fatbin"}) {
    if (!node[key]) continue;
    if (found) item.yaml.fail(node[key], fmt::format("a kernel has '{}' or '{}', not both", found, key));
    found = key;
  }
  return found;
}

std::string read_binary(const KernelItem& item, const YAML::Node& node, const std::string& key) {
  const fs::path path = item.path(node, key);
  return item.yaml.at(node,
                      [&] { return read_input(path, fmt::format("'{}'", path.string()), kMaxBinaryBytes); });
}

/// Reads machine code: a file, or for a cubin {ARCH: file, ...}.
void read_machine_code(const KernelItem& item, const YAML::Node& node, const std::string& key,
                       CustomKernel& kernel) {
  kernel.is_binary = true;
  if (!node.IsMap()) {
    kernel.file = item.path(node, key);
    kernel.files.emplace_back("", read_binary(item, node, key));
    return;
  }
  item.yaml.expect_map(node, key);
  for (const auto& pair : node) {
    const std::string arch = pair.first.Scalar();
    item.yaml.at(pair.first, [&] { known_device(arch); });
    kernel.file = item.path(pair.second, key);
    kernel.files.emplace_back(arch, read_binary(item, pair.second, key));
  }
  if (kernel.files.empty()) item.yaml.fail(node, key + " names no file");
}

void read_source(const KernelItem& item, const YAML::Node& node, const StageDefaults& defaults,
                 CustomKernel& kernel) {
  kernel.file = item.path(node, "'source'");
  std::vector<fs::path> folders = {kernel.file.parent_path()};
  folders.insert(folders.end(), defaults.folders.begin(), defaults.folders.end());
  SourceClosure closure =
      item.yaml.at(node, [&] { return source_closure(kernel.file, folders, KernelSources()); });
  kernel.files = std::move(closure.files);
  kernel.headers = std::move(closure.headers);
  kernel.options = defaults.options;
  const auto is_standard = [](const std::string& option) {
    return option.starts_with("-std=") || option.starts_with("--std=");
  };
  if (std::ranges::none_of(kernel.options, is_standard)) kernel.options.emplace_back("-std=c++20");
  const auto add_folder = [&](const fs::path& folder) { kernel.options.push_back("-I" + folder.string()); };
  std::ranges::for_each(folders, add_folder);
  std::ranges::for_each(toolkit_folders(), add_folder);
}

}  // namespace

StageDefaults read_defaults(const KernelItem& item, const YAML::Node& kernel) {
  StageDefaults defaults{.kernel = kernel};
  if (kernel["options"])
    for (const YAML::Node& node : item.yaml.items(kernel["options"], "'options'")) {
      defaults.options.push_back(item.yaml.text(node, "an option"));
      if (!defaults.options.back().starts_with('-'))
        item.yaml.fail(node, fmt::format("the compiler option '{}' does not begin with '-'",
                                         brief(defaults.options.back())));
      if (defaults.options.back().starts_with("-I") || defaults.options.back().starts_with("--include-path"))
        item.yaml.fail(node,
                       "folders of headers belong to 'include', so that the hash of the sources covers them");
    }
  if (kernel["include"])
    for (const YAML::Node& node : item.yaml.items(kernel["include"], "'include'")) {
      defaults.folders.push_back(item.path(node, "a folder"));
      if (!fs::is_directory(defaults.folders.back()))
        item.yaml.fail(node, fmt::format("the folder '{}' does not exist", defaults.folders.back().string()));
    }
  return defaults;
}

Stage read_stage(const KernelItem& item, const YAML::Node& node, const StageDefaults& defaults,
                 std::size_t index) {
  const Stage* like = item.like && index < item.like->stages.size() ? &item.like->stages[index] : nullptr;
  const char* own_code = code_key(item, node);
  const YAML::Node& code = own_code ? node : defaults.kernel;
  const char* key = own_code ? own_code : code_key(item, defaults.kernel);
  if (!key) item.yaml.fail(node, "a kernel needs 'source', a .cu file, or 'cubin' or 'fatbin'");
  if (!node["kernel"]) item.yaml.fail(node, "a kernel needs 'kernel', its name in the file");
  if (!node["arguments"])
    item.yaml.fail(node, "a kernel needs 'arguments', a list of names, or args for the op's struct");
  if (!node["launch"] && !like)
    item.yaml.fail(node, "a kernel needs 'launch' with 'grid' and 'block', or 'like', a built-in variant");

  CustomKernel kernel{.where = item.yaml.where(node),
                      .definition = {},
                      .file = {},
                      .files = {},
                      .headers = {},
                      .options = {}};
  kernel.definition = YAML::Dump(defaults.kernel);
  const std::string what = fmt::format("'{}'", key);
  if (what == "'source'" || what == "'cuda'")
    read_source(item, code[key], defaults, kernel);
  else
    read_machine_code(item, code[key], what, kernel);
  const YAML::Node define = node["define"] ? node["define"] : defaults.kernel["define"];
  if (kernel.is_binary)
    for (const YAML::Node& unused : {define, defaults.kernel["options"], defaults.kernel["include"]})
      if (unused)
        item.yaml.fail(unused, "machine code is not compiled: it takes no 'define', 'options' or 'include'");
  if (define) kernel.defines = read_defines(item, define);
  kernel.name = item.formula_text(node["kernel"], "'kernel'");
  kernel.arguments = read_arguments(item, node["arguments"]);

  Stage stage{.file = kernel.file.string(), .kernel = node["kernel"].Scalar(), .launch = {}};
  if (like) {
    stage.launch = like->launch;
    stage.when = like->when;
    stage.tensor_maps = like->tensor_maps;
  }
  if (node["launch"]) stage.launch = read_launch(item, node["launch"]);
  if (node["when"])
    stage.when = [when = item.formula(node["when"], "'when'")](const Problem& p, const Config& c) {
      return when(p, c) != 0;
    };
  stage.custom = std::make_shared<const CustomKernel>(std::move(kernel));
  return stage;
}

}  // namespace warptune
