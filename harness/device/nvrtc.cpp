#if WARPTUNE_HAS_CUDA
#include "harness/device/nvrtc.h"

#include <fmt/format.h>
#include <nvrtc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <regex>
#include <sstream>

#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/device/cubin_file.h"
#include "harness/device/only_regular_files.h"

namespace warptune {
namespace {

void check(nvrtcResult result, const char* what) {
  if (result != NVRTC_SUCCESS) throw CompileError("{}: {}", what, nvrtcGetErrorString(result));
}

/// A program with its headers, not compiled yet. With "-arch=sm_90a-as-sm_80" sources see the __CUDA_ARCH__
/// of sm_80, so that their PTX is that of sm_80, and the machine code is sm_90a's. No option of NVRTC changes
/// the macro.
class Program {
 public:
  Program(const CustomKernel::Files& files, std::vector<std::string> options)
      : path_(files[0].first), options_(std::move(options)) {
    std::string source = files[0].second;
    for (std::string& option : options_)
      if (const auto as = option.find(kAs); option.starts_with("-arch=") && as != std::string::npos) {
        source = fmt::format("#undef __CUDA_ARCH__\n#define __CUDA_ARCH__ {}0\n#line 1\n{}",
                             option.substr(as + kAs.size()), source);
        option.resize(as);
      }
    std::vector<const char*> names, texts;
    for (std::size_t i = 1; i < files.size(); ++i) {
      names.push_back(files[i].first.c_str());
      texts.push_back(files[i].second.c_str());
    }
    nvrtcProgram raw = nullptr;
    check(nvrtcCreateProgram(&raw, source.c_str(), path_.c_str(), static_cast<int>(names.size()),
                             texts.data(), names.data()),
          "nvrtcCreateProgram");
    program_.reset(raw);
  }

  nvrtcProgram get() const { return program_.get(); }
  /// Throws CompileError where an include is a pipe or a device.
  nvrtcResult compile() const {
    std::vector<const char*> flags;
    for (const std::string& option : options_) flags.push_back(option.c_str());
    const OnlyRegularFiles guard;
    const nvrtcResult result = nvrtcCompileProgram(get(), static_cast<int>(flags.size()), flags.data());
    if (!guard.refused().empty())
      throw CompileError("'{}' includes '{}', which is not a regular file", path_, guard.refused());
    return result;
  }
  /// What the compiler and ptxas say. A zero byte ends the part of each.
  std::string log() const {
    std::size_t size = 0;
    nvrtcGetProgramLogSize(get(), &size);
    std::string log(size, '\0');
    nvrtcGetProgramLog(get(), log.data());
    std::ranges::replace(log, '\0', '\n');
    log.resize(log.find_last_not_of(" \n") + 1);  // npos + 1 is 0
    return log;
  }

 private:
  struct Deleter {
    void operator()(nvrtcProgram program) const { nvrtcDestroyProgram(&program); }
  };
  static constexpr std::string_view kAs = "-as-sm_";
  std::string path_;
  std::vector<std::string> options_;
  std::unique_ptr<std::remove_pointer_t<nvrtcProgram>, Deleter> program_;
};

/// A file in memory that the compiler can write to by a path.
class MemoryFile {
 public:
  MemoryFile() : file_(::memfd_create("nvrtc", MFD_CLOEXEC)) {
    if (file_ < 0) throw CompileError("the system has no memory for the output of the compiler");
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return fmt::format("/proc/self/fd/{}", file_); }
  std::string text() const {
    std::string text(static_cast<std::size_t>(std::max<off_t>(::lseek(file_, 0, SEEK_END), 0)), '\0');
    const ssize_t got = ::pread(file_, text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return text;
  }

 private:
  int file_;
};

/// What the front end writes in one of its modes. Options of the front end are not in the manual of NVRTC;
/// versions 12.2 to 13.0 have them. Such a run makes no code, which is an error for NVRTC.
std::string front_end_output(const CustomKernel::Files& files, std::vector<std::string> options,
                             const std::string& mode) {
  const MemoryFile output;
  for (const std::string& option : {mode, "--output=" + output.path()}) {
    options.emplace_back("-Xcudafe");
    options.push_back(option);
  }
  Program(files, std::move(options)).compile();
  return output.text();
}

/// The log without what ptxas tells of kernels that compile.
std::string without_infos(const std::string& log) {
  std::istringstream lines(log);
  std::string text;
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("ptxas info") && !line.starts_with("ptxas         .")) text += line + '\n';
  return text.substr(0, text.find_last_not_of('\n') + 1);  // npos + 1 is 0
}

/// The bytes that a kernel spills, from the log of ptxas, which has a part for each kernel of the program.
std::int64_t spills_of(std::string log, const std::string& entry) {
  constexpr std::string_view kPart = "Compiling entry function '";
  if (const auto own = log.find(fmt::format("{}{}'", kPart, entry)); own != std::string::npos)
    log = log.substr(own, log.find(kPart, own + 1) - own);
  static const std::regex spills(R"((\d+) bytes spill stores, (\d+) bytes spill loads)");
  std::smatch m;
  return std::regex_search(log, m, spills) ? std::stoll(m[1]) + std::stoll(m[2]) : 0;
}

}  // namespace

std::string nvrtc_version() {
  int major = 0, minor = 0;
  check(nvrtcVersion(&major, &minor), "nvrtcVersion");
  return fmt::format("{}.{}", major, minor);
}

Cubin run_nvrtc(const CustomKernel::Files& files, const std::string& expression,
                const std::vector<std::string>& options) {
  const auto start = std::chrono::steady_clock::now();
  const Program program(files, options);
  check(nvrtcAddNameExpression(program.get(), expression.c_str()), "nvrtcAddNameExpression");
  const nvrtcResult result = program.compile();
  const std::string log = program.log();
  if (result != NVRTC_SUCCESS)
    throw CompileError("{} in {}: {}", expression, files[0].first, without_infos(log));
  Cubin cubin;
  const char* entry = nullptr;
  check(nvrtcGetLoweredName(program.get(), expression.c_str(), &entry), "nvrtcGetLoweredName");
  cubin.entry = entry;
  std::size_t size = 0;
  check(nvrtcGetCUBINSize(program.get(), &size), "nvrtcGetCUBINSize");
  cubin.code.resize(size);
  check(nvrtcGetCUBIN(program.get(), cubin.code.data()), "nvrtcGetCUBIN");
  cubin.compile_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  cubin.spill_bytes = spills_of(log, cubin.entry);
  // The log lacks lines at times where many threads compile at once; the code has what a launch needs.
  const auto kernels = kernels_of_cubin(cubin.code);
  if (const auto kernel = std::ranges::find(kernels, cubin.entry, &KernelCode::name);
      kernel != kernels.end()) {
    cubin.registers = kernel->registers;
    cubin.static_shared_bytes = kernel->static_shared_bytes;
  }
  return cubin;
}

std::optional<std::vector<std::string>> included_files(const CustomKernel::Files& files,
                                                       const std::vector<std::string>& options) {
  // A makefile: lines "NAME.o: FILE". The compiler adds two texts of its own, whose names begin with "__nv_".
  std::istringstream lines(front_end_output(files, options, "--dependencies"));
  std::vector<std::string> included;
  std::size_t prefix = 0;
  for (std::string line; std::getline(lines, line);) {
    if (included.empty()) {
      if (!line.ends_with(files[0].first)) return std::nullopt;
      prefix = line.size() - files[0].first.size();
    }
    std::string file = line.substr(std::min(prefix, line.size()));
    if (!file.starts_with("__nv_") && !contains(included, file)) included.push_back(std::move(file));
  }
  if (included.empty()) return std::nullopt;
  return included;
}

std::string preprocessed_text(const CustomKernel::Files& files, const std::vector<std::string>& options) {
  return front_end_output(files, options, "--preprocess");
}

}  // namespace warptune
#endif
