// Reads one kernel of a variant: its code, how it is compiled, its name, arguments and launch.
#include <fmt/format.h>

#include <algorithm>

#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/lookup.h"
#include "harness/custom/kernel_item.h"
#include "harness/device/compile.h"
#include "harness/device/compiler_options.h"
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
    if (found) item.yaml.fail(node[key], "a kernel has '{}' or '{}', not both", found, key);
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

/// The symbols and the options that depend on the configuration.
std::function<std::vector<std::string>(const Problem&, const Config&)> read_tuned(
    const KernelItem& item, const YAML::Node& define, const StageDefaults& defaults) {
  const auto defines = define ? read_defines(item, define) : nullptr;
  if (defaults.tuned_options.empty()) return defines;
  return [defines, options = defaults.tuned_options](const Problem& problem, const Config& config) {
    std::vector<std::string> all;
    if (defines) all = defines(problem, config);
    for (const TunedOption& option : options) try {
        if (std::string text = checked_option(option.text(problem, config)); !text.empty())
          all.push_back(std::move(text));
      } catch (const InputError& e) {
        throw CompileError("{}: {}", option.where, e.what());
      }
    return all;
  };
}

/// A problem with usual dims.
Problem sample_problem(const Op& op, DType dtype) {
  Problem problem{.op = op.name, .dtype = dtype};
  for (const Dim& dim : op.dims)
    problem.dims.set(dim.name, dim.fallback.value_or(std::max<std::int64_t>(dim.min, 64)));
  return problem;
}

/// The options under which the includes of a source are looked for: for each dtype, those of the first
/// configuration and of each that differs from it in one parameter.
std::vector<std::vector<std::string>> sample_options(const KernelItem& item, const CustomKernel& kernel) {
  if (!kernel.defines) return {kernel.options};
  Config first;
  for (const Parameter& p : item.parameters)
    if (!p.values.empty()) first.set(p.name, p.values.front());
  std::vector<Config> configs = {first};
  for (const Parameter& p : item.parameters)
    for (const std::int64_t value : p.values)
      if (value != p.values.front()) configs.push_back(first), configs.back().set(p.name, value);
  std::vector<std::vector<std::string>> sets;
  for (const DType dtype : item.op.dtypes)
    for (const Config& config : configs) try {
        std::vector<std::string> options = kernel.options;
        std::ranges::copy(kernel.defines(sample_problem(item.op, dtype), config),
                          std::back_inserter(options));
        if (!contains(sets, options)) sets.push_back(std::move(options));
      } catch (const CompileError&) {  // no such problem
      }
  if (sets.empty()) sets.push_back(kernel.options);
  return sets;
}

/// `define` are the symbols of the stage.
void read_source(const KernelItem& item, const YAML::Node& node, const YAML::Node& define,
                 const StageDefaults& defaults, CustomKernel& kernel) {
  kernel.file = item.path(node, "'source'");
  SearchPath folders{.user = {kernel.file.parent_path()}, .toolkit = toolkit_folders()};
  std::ranges::copy(defaults.folders, std::back_inserter(folders.user));
  kernel.options = defaults.options;
  std::ranges::copy(folders.options(), std::back_inserter(kernel.options));
  kernel.defines = read_tuned(item, define, defaults);
  SourceClosure closure = item.yaml.at(node, [&] {
    return source_closure(kernel.file, folders, KernelSources(), sample_options(item, kernel));
  });
  kernel.files = std::move(closure.files);
  kernel.headers = std::move(closure.headers);
}

/// The option with the path of the file that it names, if it names one: relative to the definition, or in a
/// folder of headers.
std::string with_path(const KernelItem& item, const YAML::Node& node, const std::string& option,
                      const std::vector<fs::path>& folders) {
  for (const std::string name : {"--pre-include=", "-include="}) {
    if (!option.starts_with(name)) continue;
    const fs::path file = option.substr(name.size());
    std::vector<fs::path> places = {item.folder};
    places.insert(places.end(), folders.begin(), folders.end());
    for (const fs::path& folder : places)
      if (const fs::path path = fs::absolute(folder / file).lexically_normal(); fs::exists(path))
        return name + path.string();
    item.yaml.fail(node, "the file '{}' of '{}' does not exist", file.string(), brief(option));
  }
  return option;
}

void read_options(const KernelItem& item, const YAML::Node& list, StageDefaults& defaults) {
  for (const YAML::Node& node : item.yaml.items(list, "'options'")) {
    const std::string option = item.yaml.text(node, "an option");
    if (!option.starts_with('-'))
      item.yaml.fail(node, "the compiler option '{}' does not begin with '-'", brief(option));
    if (option.find('{') != std::string::npos) {
      item.yaml.at(node, [&] { check_option_name(option); });
      for (const char* fixed : {"std=", "pre-include=", "include="})
        if (option.find(fixed) <= 2)
          item.yaml.fail(node, "'{}' must be the same for all configurations", brief(option));
      defaults.tuned_options.push_back({item.formula_text(node, "'options'"), item.yaml.where(node)});
    } else if (std::string text = item.yaml.at(node, [&] { return checked_option(option); }); !text.empty()) {
      defaults.options.push_back(with_path(item, node, text, defaults.folders));
    }
  }
}

}  // namespace

StageDefaults read_defaults(const KernelItem& item, const YAML::Node& kernel) {
  StageDefaults defaults{.kernel = kernel};
  if (kernel["include"])
    for (const YAML::Node& node : item.yaml.items(kernel["include"], "'include'")) {
      defaults.folders.push_back(item.path(node, "a folder"));
      if (!fs::is_directory(defaults.folders.back()))
        item.yaml.fail(node, "the folder '{}' does not exist", defaults.folders.back().string());
    }
  if (kernel["options"]) read_options(item, kernel["options"], defaults);
  const auto is_standard = [](const std::string& option) {
    return option.starts_with("-std=") || option.starts_with("--std=");
  };
  if (std::ranges::none_of(defaults.options, is_standard)) defaults.options.emplace_back("-std=c++20");
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

  CustomKernel kernel{.where = item.yaml.where(node), .definition = YAML::Dump(defaults.kernel)};
  const std::string what = fmt::format("'{}'", key);
  const YAML::Node define = node["define"] ? node["define"] : defaults.kernel["define"];
  if (what == "'source'" || what == "'cuda'")
    read_source(item, code[key], define, defaults, kernel);
  else
    read_machine_code(item, code[key], what, kernel);
  if (kernel.is_binary)
    for (const YAML::Node& unused : {define, defaults.kernel["options"], defaults.kernel["include"]})
      if (unused)
        item.yaml.fail(unused, "machine code is not compiled: it takes no 'define', 'options' or 'include'");
  kernel.name = item.formula_text(node["kernel"], "'kernel'");
  kernel.arguments = read_arguments(item, node["arguments"]);
  if (const YAML::Node constant = node["constant"] ? node["constant"] : defaults.kernel["constant"])
    kernel.constants = read_constants(item, constant, kernel.is_binary);

  Stage stage = like ? *like : Stage();
  stage.file = kernel.file.string();
  stage.kernel = node["kernel"].Scalar();
  if (node["launch"]) stage.geometry = read_launch(item, node["launch"]);
  if (node["when"]) stage.condition = item.formula(node["when"], "'when'").expression();
  stage.custom = std::make_shared<const CustomKernel>(std::move(kernel));
  return stage;
}

}  // namespace warptune
