#include "harness/device/compile.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "harness/core/error.h"
#include "harness/device/content_hash.h"
#include "harness/device/cubin_cache.h"
#include "harness/device/custom_build.h"
#include "harness/device/embedded.h"
#include "harness/device/nvrtc.h"
#include "harness/device/source_closure.h"
#include "harness/device/standard_headers.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return in ? text.str() : std::string();
}

}  // namespace

KernelSources::KernelSources(fs::path override_folder) : folder_(std::move(override_folder)) {
  if (folder_.empty())
    if (const char* folder = std::getenv("WARPTUNE_KERNELS")) folder_ = folder;
  if (!folder_.empty() && !fs::is_directory(folder_))
    throw InputError("the kernel folder '{}' does not exist", folder_.string());
}

std::string KernelSources::read(const std::string& name) const {
  const std::string file = name.starts_with("kernels/") ? name.substr(8) : name;
  if (!folder_.empty()) {
    if (std::string text = read_file(folder_ / file); !text.empty()) return text;
  } else {
    for (const EmbeddedFile* f = kEmbeddedKernels; f->name; ++f)
      if (file == f->name) return f->text;
  }
  throw CompileError("no kernel source '{}'{}", file, folder_.empty() ? "" : " below " + folder_.string());
}

CustomKernel::Files KernelSources::closure(const std::string& file) const {
  CustomKernel::Files files{{file, read(file)}};
  std::set<std::string> seen{file};
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string text = files[i].second;
    for (const IncludeLine& include : includes_in(text))
      if (include.quoted && seen.insert(include.name).second)
        files.emplace_back(include.name, read(include.name));
  }
  return files;
}

CustomKernel::Files KernelSources::headers() const {
  CustomKernel::Files headers = standard_headers();
  const auto add = [&](const fs::path& file) {
    if (file.extension() == ".h" || file.extension() == ".cuh")
      headers.emplace_back("kernels/" + file.string(), read(file.string()));
  };
  if (folder_.empty())
    for (const EmbeddedFile* f = kEmbeddedKernels; f->name; ++f) add(f->name);
  else
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      add(entry.path().lexically_relative(folder_));
  return headers;
}

std::string KernelSources::header(const std::string& name) const {
  if (name.starts_with("kernels/")) return read(name);
  for (auto& [known, text] : standard_headers())
    if (known == name) return text;
  throw CompileError("there is no header '{}'", name);
}

Compiler::Compiler(KernelSources sources, fs::path cache, NvrtcCall nvrtc)
    : sources_(std::move(sources)), cache_(std::move(cache)), nvrtc_(std::move(nvrtc)) {
#if WARPTUNE_HAS_CUDA
  if (!nvrtc_) nvrtc_ = run_nvrtc;
#endif
}

void Compiler::make_cache() const {
  std::error_code error;
  if (!cache_.empty()) fs::create_directories(cache_, error);
  if (error) throw InputError("the cubin cache '{}' cannot be made: {}", cache_.string(), error.message());
}

std::string Compiler::source_hash(const Variant& variant) const {
  std::string text;
  for (const Stage& stage : variant.stages) {
    if (stage.library) continue;
    if (stage.custom) text += stage.custom->definition + '\0';
    const auto files = stage.custom ? all_files(*stage.custom) : sources_.closure(stage.file);
    for (const auto& [name, content] : files) text += name + '\0' + content + '\0';
  }
  return text.empty() ? "library" : content_hash(text).substr(0, 16);
}

fs::path default_cache_folder() {
  if (const char* folder = std::getenv("WARPTUNE_CACHE")) return folder;
  if (const char* folder = std::getenv("XDG_CACHE_HOME")) return fs::path(folder) / "warptune";
  if (const char* home = std::getenv("HOME")) return fs::path(home) / ".cache" / "warptune";
  return fs::temp_directory_path() / "warptune-cache";
}

std::string expand_kernel_name(const Variant& variant, const Stage& stage, const Problem& problem,
                               const Config& config) {
  if (stage.custom) return stage.custom->name(problem, config);
  const VariantValues values(variant, problem, config);
  std::string text;
  for (std::size_t at = 0; at < stage.kernel.size();) {
    const auto open = stage.kernel.find('{', at);
    text += stage.kernel.substr(at, open - at);
    if (open == std::string::npos) break;
    const auto close = stage.kernel.find('}', open);
    const std::string name = stage.kernel.substr(open + 1, close - open - 1);
    if (name == "dtype")
      text += kernel_type(problem.dtype);
    else
      text += std::to_string(values.integer(Expression(name, "placeholder")));
    at = close + 1;
  }
  return text;
}

std::string kernel_key(const Variant& variant, const Stage& stage, const Problem& problem,
                       const Config& config) try {
  std::string key = stage.file + ": " + expand_kernel_name(variant, stage, problem, config);
  if (stage.custom && stage.custom->defines)
    for (const std::string& define : stage.custom->defines(problem, config)) key += ' ' + define;
  return key;
} catch (const CompileError&) {  // compile() tells of it
  return stage.file;
}

bool has_machine_code(const Variant& variant) { return !variant.stages.empty() && !calls_library(variant); }

#if WARPTUNE_HAS_CUDA
Cubin Compiler::compile(const std::string& file, const std::string& expression,
                        const std::string& arch) const {
  const auto files = sources_.closure(file);
  const std::string name = "warptune::" + expression;
  const std::vector<std::string> options = {"-arch=" + arch, "-std=c++20", "-lineinfo", "--ptxas-options=-v"};
  std::string key = fmt::format("{}|{}|", name, nvrtc_version());
  for (const auto& option : options) key += option + '|';
  for (const auto& [header, text] : files) key += header + '\0' + text + '\0';
  const CubinCache cache(cache_);
  if (auto cubin = cache.find(key)) return std::move(*cubin);
  Cubin cubin = nvrtc_(files, name, options);
  cache.save(key, cubin);
  return cubin;
}

Cubin Compiler::compile(const CustomKernel& kernel, const Problem& problem, const Config& config,
                        const std::string& arch) const {
  const std::string name = kernel.name(problem, config);
  std::vector<std::string> options = {"-arch=" + arch, "-lineinfo", "--ptxas-options=-v"};
  options.insert(options.end(), kernel.options.begin(), kernel.options.end());
  if (kernel.defines)
    for (std::string& option : kernel.defines(problem, config)) options.push_back(std::move(option));
  Cubin cubin = kernel.is_binary ? pick_kernel(kernel, name, arch)
                                 : build_kernel(kernel, name, options, CubinCache(cache_), sources_, nvrtc_);
  check_arguments(kernel, cubin, kernel.arguments(problem, config));
  if (kernel.constants) check_constants(kernel.where, cubin.code, kernel.constants(problem, config));
  return cubin;
}

Cubin Compiler::compile(const Variant& variant, const Stage& stage, const Problem& problem,
                        const Config& config, const std::string& arch) const {
  if (stage.custom) return compile(*stage.custom, problem, config, arch);
  return compile(stage.file, expand_kernel_name(variant, stage, problem, config), arch);
}

std::string Compiler::toolkit() { return nvrtc_version(); }
#else
Cubin Compiler::compile(const std::string& file, const std::string&, const std::string&) const {
  throw CompileError("{} cannot be compiled: this program was built without the CUDA Toolkit", file);
}
Cubin Compiler::compile(const Variant&, const Stage& stage, const Problem&, const Config&,
                        const std::string& arch) const {
  return compile(stage.file, {}, arch);
}
std::string Compiler::toolkit() { return {}; }
#endif

}  // namespace warptune
