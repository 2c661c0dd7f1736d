#include "harness/device/compile.h"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/device/custom_build.h"
#include "harness/device/embedded.h"
#include "harness/device/machine_code.h"
#include "harness/device/nvrtc.h"
#include "harness/device/source_closure.h"
#if WARPTUNE_HAS_CUDA
#include <cuda_occupancy.h>
#include <unistd.h>
#endif

namespace warptune {
namespace fs = std::filesystem;
namespace {

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return in ? text.str() : std::string();
}

std::string hash_of(std::string_view text) {
  const XXH128_hash_t h = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

}  // namespace

KernelSources::KernelSources(fs::path override_folder) : folder_(std::move(override_folder)) {
  if (folder_.empty())
    if (const char* folder = std::getenv("WARPTUNE_KERNELS")) folder_ = folder;
  if (!folder_.empty() && !fs::is_directory(folder_))
    throw InputError(fmt::format("the kernel folder '{}' does not exist", folder_.string()));
}

std::string KernelSources::read(const std::string& name) const {
  const std::string file = name.starts_with("kernels/") ? name.substr(8) : name;
  if (!folder_.empty()) {
    if (std::string text = read_file(folder_ / file); !text.empty()) return text;
  } else {
    for (const EmbeddedFile* f = kEmbeddedKernels; f->name; ++f)
      if (file == f->name) return f->text;
  }
  throw CompileError(
      fmt::format("no kernel source '{}'{}", file, folder_.empty() ? "" : " below " + folder_.string()));
}

std::vector<std::pair<std::string, std::string>> KernelSources::closure(const std::string& file) const {
  std::vector<std::pair<std::string, std::string>> files{{file, read(file)}};
  std::set<std::string> seen{file};
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string text = files[i].second;
    for (const IncludeLine& include : includes_in(text))
      if (include.quoted && seen.insert(include.name).second)
        files.emplace_back(include.name, read(include.name));
  }
  return files;
}

Compiler::Compiler(KernelSources sources, fs::path cache)
    : sources_(std::move(sources)), cache_(std::move(cache)) {}

void Compiler::make_cache() const {
  std::error_code error;
  if (!cache_.empty()) fs::create_directories(cache_, error);
  if (error)
    throw InputError(
        fmt::format("the cubin cache '{}' cannot be made: {}", cache_.string(), error.message()));
}

std::string Compiler::source_hash(const Variant& variant) const {
  std::string text;
  for (const Stage& stage : variant.stages) {
    if (stage.library) continue;
    if (stage.custom) text += stage.custom->definition + '\0';
    const auto files = stage.custom ? all_files(*stage.custom) : sources_.closure(stage.file);
    for (const auto& [name, content] : files) text += name + '\0' + content + '\0';
  }
  return text.empty() ? "library" : hash_of(text).substr(0, 16);
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
  const Assignment constants = variant.constants ? variant.constants(problem, config) : Assignment{};
  std::string text;
  for (std::size_t at = 0; at < stage.kernel.size();) {
    const auto open = stage.kernel.find('{', at);
    text += stage.kernel.substr(at, open - at);
    if (open == std::string::npos) break;
    const auto close = stage.kernel.find('}', open);
    const std::string name = stage.kernel.substr(open + 1, close - open - 1);
    if (name == "dtype")
      text += kernel_type(problem.dtype);
    else if (const auto* parameter = config.find(name))
      text += std::to_string(parameter->value);
    else if (const auto* constant = constants.find(name))
      text += std::to_string(constant->value);
    else
      text += std::to_string(problem[name]);
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

std::vector<const Stage*> active_stages(const Variant& variant, const Problem& problem,
                                        const Config& config) {
  std::vector<const Stage*> active;
  for (const Stage& stage : variant.stages)
    if (!stage.when || stage.when(problem, config)) active.push_back(&stage);
  return active;
}

std::vector<const Stage*> active_kernels(const Variant& variant, const Problem& problem,
                                         const Config& config) {
  auto active = active_stages(variant, problem, config);
  std::erase_if(active, [](const Stage* stage) { return bool(stage->library); });
  return active;
}

#if WARPTUNE_HAS_CUDA
namespace {

/// A cache file: one line of JSON, then the machine code. A file whose hash does not match is ignored.
bool load_cached(const fs::path& path, Cubin& cubin) {
  std::string text = read_file(path);
  const auto end = text.find('\n');
  if (end == std::string::npos) return false;
  const auto head =
      nlohmann::json::parse(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
  if (!head.is_object() || !head.contains("hash")) return false;
  cubin.code = text.substr(end + 1);
  if (head["hash"] != nlohmann::json(hash_of(cubin.code))) return false;
  cubin.entry = head["entry"];
  cubin.registers = head["registers"];
  cubin.static_shared_bytes = head["shared"];
  cubin.spill_bytes = head["spill"];
  cubin.from_cache = true;
  return true;
}

/// Writes a temporary file and renames it, so that a reader never sees a partial file. Does nothing on a full
/// disk, or where the folder cannot be made.
void save_cached(const fs::path& path, const Cubin& cubin) {
  const nlohmann::json head = {{"hash", hash_of(cubin.code)},
                               {"entry", cubin.entry},
                               {"registers", cubin.registers},
                               {"shared", cubin.static_shared_bytes},
                               {"spill", cubin.spill_bytes}};
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  const fs::path partial =
      path.string() + fmt::format(".{}-{:x}", getpid(), reinterpret_cast<std::uintptr_t>(&cubin));
  {
    std::ofstream out(partial, std::ios::binary);
    out << head.dump() << '\n' << cubin.code;
    if (!out.flush()) {
      out.close();
      fs::remove(partial, ignored);
      return;
    }
  }
  fs::rename(partial, path, ignored);
}

/// The cubin with this key from the folder (empty: none), else what `make` returns, which is then kept there.
template <class Make>
Cubin cached(const fs::path& folder, const std::string& key, Make&& make) {
  if (folder.empty()) return make();
  const fs::path path = folder / (hash_of(key) + ".cubin");
  Cubin cubin;
  if (load_cached(path, cubin)) return cubin;
  cubin = make();
  save_cached(path, cubin);
  return cubin;
}

}  // namespace

Cubin Compiler::compile(const std::string& file, const std::string& expression,
                        const std::string& arch) const {
  const auto files = sources_.closure(file);
  const std::string name = "warptune::" + expression;
  const std::vector<std::string> options = {"-arch=" + arch, "-std=c++20", "-lineinfo", "--ptxas-options=-v"};
  std::string key = fmt::format("{}|{}|", name, nvrtc_version());
  for (const auto& option : options) key += option + '|';
  for (const auto& [header, text] : files) key += header + '\0' + text + '\0';
  return cached(cache_, key, [&] { return run_nvrtc(files, name, options); });
}

Cubin Compiler::compile(const CustomKernel& kernel, const Problem& problem, const Config& config,
                        const std::string& arch) const {
  const std::string name = kernel.name(problem, config);
  const auto make = [&] {
    if (kernel.is_binary) return pick_kernel(kernel, name, arch);
    std::vector<std::string> options = {"-arch=" + arch, "-lineinfo", "--ptxas-options=-v"};
    options.insert(options.end(), kernel.options.begin(), kernel.options.end());
    if (kernel.defines)
      for (std::string& define : kernel.defines(problem, config)) options.push_back(std::move(define));
    std::string key = fmt::format("{}|{}|", name, nvrtc_version());
    for (const auto& option : options) key += option + '|';
    for (const auto& [file, text] : all_files(kernel)) key += file + '\0' + text + '\0';
    return cached(cache_, key, [&] { return build_kernel(kernel, name, options); });
  };
  Cubin cubin = make();
  check_arguments(kernel, cubin, kernel.arguments(problem, config));
  return cubin;
}

Cubin Compiler::compile(const Variant& variant, const Stage& stage, const Problem& problem,
                        const Config& config, const std::string& arch) const {
  if (stage.custom) return compile(*stage.custom, problem, config, arch);
  return compile(stage.file, expand_kernel_name(variant, stage, problem, config), arch);
}

std::string Compiler::toolkit() { return nvrtc_version(); }

namespace {

double occupancy_pct(const DeviceFacts& facts, const Cubin& cubin, const Launch& launch) {
  cudaOccDeviceProp device;
  device.computeMajor = facts.arch_number() / 10;
  device.computeMinor = facts.arch_number() % 10;
  device.maxThreadsPerBlock = 1024;
  device.maxThreadsPerMultiprocessor = static_cast<int>(facts.threads_per_sm);
  device.regsPerBlock = 65536;
  device.regsPerMultiprocessor = static_cast<int>(facts.registers_per_sm);
  device.warpSize = 32;
  device.sharedMemPerBlock = 48 << 10;
  device.sharedMemPerMultiprocessor = static_cast<std::size_t>(facts.shared_per_sm);
  device.numSms = facts.sms;
  device.sharedMemPerBlockOptin = static_cast<std::size_t>(facts.shared_per_block);
  device.reservedSharedMemPerBlock = 1024;
  cudaOccFuncAttributes function;
  function.maxThreadsPerBlock = 1024;
  function.numRegs = cubin.registers;
  function.sharedSizeBytes = static_cast<std::size_t>(cubin.static_shared_bytes);
  function.maxDynamicSharedSizeBytes = static_cast<std::size_t>(launch.shared_bytes);
  function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  const cudaOccDeviceState state;
  cudaOccResult result;
  const unsigned threads = launch.block.x * launch.block.y * launch.block.z;
  if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, static_cast<int>(threads),
                                              static_cast<std::size_t>(launch.shared_bytes)) !=
      CUDA_OCC_SUCCESS)
    return 0;
  return 100.0 * result.activeBlocksPerMultiprocessor * threads / static_cast<double>(facts.threads_per_sm);
}

/// The identity of one kernel of a configuration: its machine code and the geometry of its launch.
std::string code_of(const Cubin& cubin, const Launch& launch, const std::string& arguments) {
  const auto [grid, block] = std::pair(launch.grid, launch.block);
  return fmt::format("{} {}x{}x{} {}x{}x{} {} {} {} {}{}\n", machine_code_hash(cubin.code), grid.x, grid.y,
                     grid.z, block.x, block.y, block.z, launch.shared_bytes, launch.pdl, launch.cluster,
                     launch.per_sm, arguments);
}

/// What a kernel from a file gets, as part of its identity; empty for the others, which get the op's struct.
std::string arguments_of(const Stage& stage, const Problem& problem, const Config& config) {
  std::string text;
  if (stage.custom)
    for (const KernelArgument& a : stage.custom->arguments(problem, config))
      text += fmt::format(" {}:{}:{}:{}", static_cast<int>(a.kind), a.offset, a.bytes,
                          std::bit_cast<std::uint64_t>(a.value));
  return text;
}

std::string hash_of_code(const std::string& stages, const std::string& arch) {
  return fmt::format("{:016x}", stable_hash(fmt::format("{} {}\n{}", arch, nvrtc_version(), stages)));
}

}  // namespace

std::string code_hash(const Compiler& compiler, const Variant& variant, const Problem& problem,
                      const Config& config, const std::string& arch) {
  if (!has_machine_code(variant)) return {};
  std::string code;
  for (const Stage* stage : active_kernels(variant, problem, config)) {
    code += code_of(compiler.compile(variant, *stage, problem, config, arch), stage->launch(problem, config),
                    arguments_of(*stage, problem, config));
  }
  return hash_of_code(code, arch);
}

Resources inspect(const Compiler& compiler, const Variant& variant, const Problem& problem,
                  const Config& config, const DeviceFacts& facts) {
  Resources total{.occupancy_pct = 100};
  std::string code;
  for (const Stage* stage : active_kernels(variant, problem, config)) {
    const Launch launch = stage->launch(problem, config);
    const unsigned threads = launch.block.x * launch.block.y * launch.block.z;
    const std::string name = expand_kernel_name(variant, *stage, problem, config);
    if (threads == 0 || threads > 1024)
      throw ResourceError(
          fmt::format("{} needs {} threads per block; 1 to 1024 are possible", name, threads));
    const Cubin cubin = compiler.compile(variant, *stage, problem, config, facts.arch);
    const std::int64_t shared = cubin.static_shared_bytes + launch.shared_bytes;
    if (shared > facts.shared_per_block)
      throw ResourceError(fmt::format("{} needs {} bytes of shared memory; {} has {} per block", name, shared,
                                      facts.arch, facts.shared_per_block));
    if (static_cast<std::int64_t>(ceil_div(cubin.registers, 8) * 8) * threads > 65536)
      throw ResourceError(fmt::format("{} needs {} registers in each of {} threads; a block has 65536", name,
                                      cubin.registers, threads));
    total.registers = std::max(total.registers, cubin.registers);
    total.shared_bytes = std::max(total.shared_bytes, shared);
    total.spill_bytes = std::max(total.spill_bytes, cubin.spill_bytes);
    total.occupancy_pct = std::min(total.occupancy_pct, occupancy_pct(facts, cubin, launch));
    total.compile_ms += cubin.compile_ms;
    code += code_of(cubin, launch, arguments_of(*stage, problem, config));
  }
  if (variant.stages.empty()) total.occupancy_pct = 0;
  if (has_machine_code(variant)) total.code_hash = hash_of_code(code, facts.arch);
  return total;
}
#else
Cubin Compiler::compile(const std::string& file, const std::string&, const std::string&) const {
  throw CompileError(
      fmt::format("{} cannot be compiled: this program was built without the CUDA Toolkit", file));
}
Cubin Compiler::compile(const Variant&, const Stage& stage, const Problem&, const Config&,
                        const std::string& arch) const {
  return compile(stage.file, {}, arch);
}
std::string Compiler::toolkit() { return {}; }
std::string code_hash(const Compiler&, const Variant&, const Problem&, const Config&, const std::string&) {
  return {};
}
Resources inspect(const Compiler&, const Variant&, const Problem&, const Config&, const DeviceFacts&) {
  throw CompileError("this program was built without the CUDA Toolkit, which compiles kernels");
}
#endif

}  // namespace warptune
