#include "harness/device/custom_build.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/device/cubin_file.h"
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
  if (!known.empty() && std::ranges::find(known, name) == known.end())
    throw CompileError(fmt::format("{}: '{}' has no kernel '{}'{}", kernel.where, kernel.file.string(),
                                   brief(name), did_you_mean(name, known, "it has")));
}

/// Throws CompileError where a file has changed since the definition was read: the code would not belong to
/// the hash of its sources.
void expect_unchanged(const CustomKernel& kernel) {
  const std::vector<std::filesystem::path> toolkit = toolkit_folders();
  std::vector<std::filesystem::path> folders;
  for (const std::string& option : kernel.options)
    if (option.starts_with("-I") &&
        std::ranges::find(toolkit, std::filesystem::path(option.substr(2))) == toolkit.end())
      folders.emplace_back(option.substr(2));
  if (source_closure(kernel.file, folders, KernelSources()).files != kernel.files)
    throw CompileError(
        fmt::format("'{}', or a file that it includes, has changed since it was read; start again",
                    kernel.file.string()));
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
                   const std::vector<std::string>& options) {
  // Under its path the compiler finds the files beside it, and profilers find the source.
  CustomKernel::Files files = {{kernel.file.string(), kernel.files.front().second}};
  files.insert(files.end(), kernel.headers.begin(), kernel.headers.end());
  try {
    Cubin cubin = run_nvrtc(files, name, options);
    expect_unchanged(kernel);
    return cubin;
  } catch (const CompileError& e) {
    expect_kernel(kernel, name);
    throw CompileError(fmt::format("{}: {}", kernel.where, e.what()));
  }
}

Cubin pick_kernel(const CustomKernel& kernel, const std::string& name, const std::string& arch) try {
  const auto file = std::ranges::find_if(
      kernel.files, [&](const auto& binary) { return binary.first.empty() || binary.first == arch; });
  if (file == kernel.files.end()) {
    std::vector<std::string> archs;
    for (const auto& [name_of_arch, code] : kernel.files) archs.push_back(name_of_arch);
    throw CompileError(fmt::format("there is no machine code for {}, only for {}", arch, listed(archs)));
  }
  const std::string_view code = cubin_for(file->second, DeviceFacts{.arch = arch}.arch_number());
  const std::vector<KernelCode> kernels = kernels_of_cubin(code);
  const auto it = std::ranges::find(kernels, name, &KernelCode::name);
  if (it == kernels.end())
    throw CompileError(
        fmt::format("it has no kernel '{}'{}", brief(name), did_you_mean(name, names_of(kernels), "it has")));
  return {.code = std::string(code),
          .entry = name,
          .registers = it->registers,
          .static_shared_bytes = it->static_shared_bytes,
          .from_cache = true};
} catch (const CompileError& e) {
  throw CompileError(fmt::format("{}: '{}': {}", kernel.where, kernel.file.string(), e.what()));
}

void check_arguments(const CustomKernel& kernel, const Cubin& cubin,
                     const std::vector<KernelArgument>& arguments) {
  const auto kernels = kernels_of_cubin(cubin.code);
  const auto it = std::ranges::find(kernels, cubin.entry, &KernelCode::name);
  std::vector<std::size_t> passed;
  for (const KernelArgument& argument : arguments) passed.push_back(argument.bytes);
  if (it == kernels.end() || it->parameter_bytes == passed) return;
  if (!is_struct(arguments) || !takes_struct(it->parameter_bytes, passed.front()))
    throw CompileError(fmt::format("{}: kernel '{}' takes other parameters ({}) than 'arguments' passes ({})",
                                   kernel.where, cubin.entry, sizes_text(it->parameter_bytes),
                                   sizes_text(passed)));
}

#endif

}  // namespace warptune
