#if WARPTUNE_HAS_CUDA
#include "harness/device/nvrtc.h"

#include <fmt/format.h>
#include <nvrtc.h>

#include <chrono>
#include <memory>
#include <regex>

#include "harness/core/error.h"

namespace warptune {
namespace {

void check(nvrtcResult result, const char* what) {
  if (result != NVRTC_SUCCESS) throw CompileError(fmt::format("{}: {}", what, nvrtcGetErrorString(result)));
}

struct ProgramDeleter {
  void operator()(nvrtcProgram program) const { nvrtcDestroyProgram(&program); }
};

/// Reads the resource usage of the kernel from the log of ptxas, which has a part for each of the program's.
void read_resources(std::string log, Cubin& cubin) {
  constexpr std::string_view kPart = "Compiling entry function '";
  if (const auto own = log.find(fmt::format("{}{}'", kPart, cubin.entry)); own != std::string::npos)
    log = log.substr(own, log.find(kPart, own + 1) - own);
  static const std::regex registers(R"(Used (\d+) registers)"), shared(R"((\d+) bytes smem)"),
      spills(R"((\d+) bytes spill stores, (\d+) bytes spill loads)");
  std::smatch m;
  if (std::regex_search(log, m, registers)) cubin.registers = std::stoi(m[1]);
  if (std::regex_search(log, m, shared)) cubin.static_shared_bytes = std::stoll(m[1]);
  if (std::regex_search(log, m, spills)) cubin.spill_bytes = std::stoll(m[1]) + std::stoll(m[2]);
}

}  // namespace

std::string nvrtc_version() {
  int major = 0, minor = 0;
  check(nvrtcVersion(&major, &minor), "nvrtcVersion");
  return fmt::format("{}.{}", major, minor);
}

Cubin run_nvrtc(const CustomKernel::Files& files, const std::string& expression,
                const std::vector<std::string>& options) {
  std::vector<const char*> names, texts, flags;
  for (std::size_t i = 1; i < files.size(); ++i) {
    names.push_back(files[i].first.c_str());
    texts.push_back(files[i].second.c_str());
  }
  for (const std::string& option : options) flags.push_back(option.c_str());
  const auto start = std::chrono::steady_clock::now();
  nvrtcProgram raw = nullptr;
  check(nvrtcCreateProgram(&raw, files[0].second.c_str(), files[0].first.c_str(),
                           static_cast<int>(names.size()), texts.data(), names.data()),
        "nvrtcCreateProgram");
  const std::unique_ptr<std::remove_pointer_t<nvrtcProgram>, ProgramDeleter> program(raw);
  check(nvrtcAddNameExpression(raw, expression.c_str()), "nvrtcAddNameExpression");
  const nvrtcResult result = nvrtcCompileProgram(raw, static_cast<int>(flags.size()), flags.data());
  std::size_t size = 0;
  nvrtcGetProgramLogSize(raw, &size);
  std::string log(size, '\0');
  nvrtcGetProgramLog(raw, log.data());
  if (result != NVRTC_SUCCESS)
    throw CompileError(fmt::format("{} in {}: {}", expression, files[0].first, log.c_str()));
  Cubin cubin;
  const char* entry = nullptr;
  check(nvrtcGetLoweredName(raw, expression.c_str(), &entry), "nvrtcGetLoweredName");
  cubin.entry = entry;
  check(nvrtcGetCUBINSize(raw, &size), "nvrtcGetCUBINSize");
  cubin.code.resize(size);
  check(nvrtcGetCUBIN(raw, cubin.code.data()), "nvrtcGetCUBIN");
  cubin.compile_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  read_resources(log, cubin);
  return cubin;
}

}  // namespace warptune
#endif
