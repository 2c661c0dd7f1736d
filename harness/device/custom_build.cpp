#include "harness/device/custom_build.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/device/content_hash.h"
#include "harness/device/cubin_file.h"
#include "harness/device/dependencies.h"
#include "harness/device/nvrtc.h"
#include "harness/device/source_closure.h"

namespace warptune {

CustomKernel::Files all_files(const CustomKernel& kernel) {
  CustomKernel::Files files = kernel.files;
  files.insert(files.end(), kernel.headers.begin(), kernel.headers.end());
  return files;
}

#if WARPTUNE_HAS_CUDA
namespace {

/// Throws CompileError where the compiler failed since the source has no kernel of that name.
void expect_kernel(const CustomKernel& kernel, const std::string& expression) {
  std::string name = expression.substr(0, expression.find('<'));
  name = name.substr(name.rfind(':') + 1);  // npos + 1 is 0
  std::vector<std::string> known;
  for (const auto& [file, text] : all_files(kernel))
    for (std::string& other : kernels_in(text)) known.push_back(std::move(other));
  if (!known.empty() && !contains(known, name))
    throw CompileError("{}: '{}' has no kernel '{}'{}", kernel.where, kernel.file.string(), brief(name),
                       did_you_mean(name, known, "it has"));
}

CompileError has_changed(const CustomKernel& kernel) {
  return CompileError("'{}', or a file that it includes, has changed since it was read; start again",
                      kernel.file.string());
}

/// Throws CompileError where a file is not as it was when the definition was read, or was not found then: the
/// code would not belong to the hash of its sources.
void expect_as_read(const CustomKernel& kernel, const Dependencies& dependencies, const SearchPath& folders) {
  for (const Dependency& file : dependencies.files()) {
    if (!folders.is_of_user(file.path)) continue;
    const std::string name = folders.name_of(file.path);
    const auto read =
        std::ranges::find(kernel.files, name, [](const auto& f) -> const std::string& { return f.first; });
    if (read == kernel.files.end())
      throw CompileError(
          "{}: '{}' includes '{}' for some problems, configurations or architectures only, and "
          "not by its name; the "
          "hash of the sources would not cover it: write #include \"{}\" where it is needed",
          kernel.where, kernel.file.string(), file.path, name);
    if (content_hash(read->second) != file.state) throw has_changed(kernel);
  }
}

/// Throws CompileError with the words of the compiler, or a sentence where the source has no such kernel.
Cubin compile_source(const CustomKernel& kernel, const CustomKernel::Files& program, const std::string& name,
                     const std::vector<std::string>& options, const NvrtcCall& nvrtc) try {
  return nvrtc(program, name, options);
} catch (const CompileError& e) {
  expect_kernel(kernel, name);
  throw CompileError("{}: {}", kernel.where, e.what());
}

/// Whether the op's args struct is passed, by value.
bool is_struct(const std::vector<KernelArgument>& arguments) {
  return arguments.size() == 1 && arguments[0].kind == KernelArgument::Kind::member &&
         arguments[0].bytes > sizeof(void*);
}

/// Whether a kernel takes a struct of so many bytes, or the struct that it begins with, and then only tensor
/// maps.
bool takes_struct(const std::vector<std::size_t>& parameters, std::size_t bytes) {
  constexpr std::size_t kTensorMap = 128;
  return !parameters.empty() && parameters[0] > sizeof(void*) && parameters[0] <= bytes &&
         std::all_of(parameters.begin() + 1, parameters.end(),
                     [](std::size_t size) { return size == kTensorMap; });
}

std::string sizes_text(const std::vector<std::size_t>& sizes) {
  return sizes.empty() ? "none" : fmt::format("{} of {} bytes", sizes.size(), fmt::join(sizes, ", "));
}

}  // namespace

Cubin build_kernel(const CustomKernel& kernel, const std::string& name,
                   const std::vector<std::string>& options, const CubinCache& cache, const KernelSources& own,
                   const NvrtcCall& nvrtc) {
  const SearchPath folders = SearchPath::of(kernel.options);
  std::string call = fmt::format("{}|{}|{}|", name, nvrtc_version(), kernel.file.string());
  for (const std::string& option : options) call += option + '|';
  // A note says what this call read. Where that is unchanged, its code is found without the compiler.
  if (const auto note = cache.find_note(call))
    if (const auto known = Dependencies::parse(*note); known && known->hold(own, folders)) {
      expect_as_read(kernel, *known, folders);
      if (auto cubin = cache.find(call + known->identity())) return std::move(*cubin);
    }
  const CustomKernel::Files program = program_of(kernel.file, kernel.files.front().second, folders, own);
  const auto included = included_files(program, options);
  if (!included)
    return compile_source(kernel, program, name, options,
                          nvrtc);  // nothing tells whether a cached one is stale
  const Dependencies dependencies(*included, program, folders);
  expect_as_read(kernel, dependencies, folders);
  const bool is_listed = !dependencies.asks_for_files();
  const std::string key =
      call + dependencies.identity() + (is_listed ? std::string() : preprocessed_text(program, options));
  std::optional<Cubin> cubin = cache.find(key);
  if (!cubin) {
    cubin = compile_source(kernel, program, name, options, nvrtc);
    if (!dependencies.hold(own, folders)) throw has_changed(kernel);
    cache.save(key, *cubin);
  }
  if (is_listed) cache.save_note(call, dependencies.text());
  return std::move(*cubin);
}

Cubin pick_kernel(const CustomKernel& kernel, const std::string& name, const std::string& arch) try {
  if (DeviceFacts{.arch = arch}.is_rehearsal())
    throw CompileError("it is machine code, and {} takes sources only", arch);
  const auto file = std::ranges::find_if(
      kernel.files, [&](const auto& binary) { return binary.first.empty() || binary.first == arch; });
  if (file == kernel.files.end()) {
    std::vector<std::string> archs;
    for (const auto& [name_of_arch, code] : kernel.files) archs.push_back(name_of_arch);
    throw CompileError("there is no machine code for {}, only for {}", arch, listed(archs));
  }
  const std::string_view code = cubin_for(file->second, DeviceFacts{.arch = arch}.arch_number());
  const std::vector<KernelCode> kernels = kernels_of_cubin(code);
  const auto it = std::ranges::find(kernels, name, &KernelCode::name);
  if (it == kernels.end())
    throw CompileError("it has no kernel '{}'{}", brief(name),
                       did_you_mean(name, names_of(kernels), "it has"));
  return {.code = std::string(code),
          .entry = name,
          .registers = it->registers,
          .static_shared_bytes = it->static_shared_bytes,
          .from_cache = true};
} catch (const CompileError& e) {
  throw CompileError("{}: '{}': {}", kernel.where, kernel.file.string(), e.what());
}

void check_arguments(const CustomKernel& kernel, const Cubin& cubin,
                     const std::vector<KernelArgument>& arguments) {
  const auto kernels = kernels_of_cubin(cubin.code);
  const auto it = std::ranges::find(kernels, cubin.entry, &KernelCode::name);
  std::vector<std::size_t> passed;
  for (const KernelArgument& argument : arguments) passed.push_back(argument.bytes);
  if (it == kernels.end() || it->parameter_bytes == passed) return;
  if (!is_struct(arguments) || !takes_struct(it->parameter_bytes, passed.front()))
    throw CompileError("{}: kernel '{}' takes other parameters ({}) than 'arguments' passes ({})",
                       kernel.where, cubin.entry, sizes_text(it->parameter_bytes), sizes_text(passed));
}

void check_constants(const std::string& where, std::string_view cubin,
                     std::span<const ConstantMemory> filled) {
  if (filled.empty()) return;
  const std::vector<ConstantSymbol> known = constants_of_cubin(cubin);
  for (const ConstantMemory& memory : filled) {
    const auto it = std::ranges::find(known, memory.symbol, &ConstantSymbol::name);
    if (it == known.end())
      throw CompileError("{}: the code has no constant memory '{}'{}", where, brief(memory.symbol),
                         did_you_mean(memory.symbol, names_of(known), "it has"));
    const std::size_t bytes = memory.tensor_bytes > 0 ? memory.tensor_bytes : memory.value.size();
    if (bytes > it->bytes || (memory.tensor_bytes == 0 && bytes != it->bytes))
      throw CompileError("{}: the constant memory '{}' has {} bytes; 'constant' fills {}", where,
                         brief(memory.symbol), it->bytes, bytes);
  }
}

#endif

}  // namespace warptune
