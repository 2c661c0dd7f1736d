#include "harness/device/nvrtc_processes.h"
#if WARPTUNE_HAS_CUDA
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/line_channel.h"
#include "harness/core/line_process.h"
#include "harness/device/nvrtc.h"

namespace warptune {
namespace {

using Json = nlohmann::json;

std::string to_hex(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

std::string from_hex(const std::string& text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes += static_cast<char>(digit(text[i]) * 16 + digit(text[i + 1]));
  return bytes;
}

Json to_json(const Cubin& cubin) {
  return {{"code", to_hex(cubin.code)},          {"entry", cubin.entry},       {"registers", cubin.registers},
          {"shared", cubin.static_shared_bytes}, {"spill", cubin.spill_bytes}, {"ms", cubin.compile_ms}};
}

Cubin cubin_of(const Json& json) {
  return {.code = from_hex(json.at("code").get_ref<const std::string&>()),
          .entry = json.at("entry"),
          .registers = json.at("registers"),
          .static_shared_bytes = json.at("shared"),
          .spill_bytes = json.at("spill"),
          .compile_ms = json.at("ms")};
}

/// Nothing for sources that are not UTF-8, which JSON cannot hold.
std::optional<std::string> request_text(const CustomKernel::Files& files, const std::string& expression,
                                        const std::vector<std::string>& options, double seconds) try {
  return Json{{"files", files}, {"expression", expression}, {"options", options}, {"seconds", seconds}}
      .dump();
} catch (const Json::exception&) {
  return std::nullopt;
}

class NvrtcProcesses {
 public:
  NvrtcProcesses(std::filesystem::path program, double seconds)
      : program_(std::move(program)), seconds_(seconds) {}

  Cubin compile(const CustomKernel::Files& files, const std::string& expression,
                const std::vector<std::string>& options) {
    std::unique_ptr<LineProcess> process = take();
    const auto request = request_text(files, expression, options, seconds_);
    if (!process->is_started() || !request) return run_nvrtc(files, expression, options);
    process->send(*request);
    const LineProcess::Answer answer = process->next_line(seconds_);
    if (answer.is_killed) return run_nvrtc(files, expression, options);
    if (answer.kind != LineProcess::Answer::Kind::line)
      throw CompileError("{} in {}: the compiler {}", expression, files[0].first, answer.text);
    const Json json = Json::parse(answer.text);
    give_back(std::move(process));
    if (json.contains("error")) throw CompileError(json["error"].get<std::string>());
    return cubin_of(json);
  }

 private:
  std::unique_ptr<LineProcess> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty())
      return std::make_unique<LineProcess>(std::vector<std::string>{program_.string(), "nvrtc"});
    std::unique_ptr<LineProcess> process = std::move(idle_.back());
    idle_.pop_back();
    return process;
  }
  void give_back(std::unique_ptr<LineProcess> process) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(process));
  }

  const std::filesystem::path program_;
  const double seconds_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<LineProcess>> idle_;
};

/// The fault that tests inject into kernels of this name.
void inject_fault(const std::string& expression) {
  const char* name = std::getenv("WARPTUNE_NVRTC_FAULT");
  if (name && expression.find(name) != std::string::npos) std::abort();
}

/// Ends this process where a compilation hangs and the parent, which would have ended it, is gone.
class Alarm {
 public:
  explicit Alarm(double seconds) { ::alarm(static_cast<unsigned>(std::ceil(seconds)) + kMore); }
  ~Alarm() { ::alarm(0); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

 private:
  static constexpr unsigned kMore = 10;
};

Json answer_to(const std::string& line) try {
  const Json request = Json::parse(line);
  const std::string expression = request.at("expression");
  inject_fault(expression);
  const Alarm alarm(request.at("seconds"));
  return to_json(run_nvrtc(request.at("files"), expression, request.at("options")));
} catch (const std::exception& e) {
  return {{"error", e.what()}};
}

}  // namespace

NvrtcCall nvrtc_in_processes(std::filesystem::path program, double seconds) {
  return [processes = std::make_shared<NvrtcProcesses>(std::move(program), seconds)](
             const auto& files, const auto& expression, const auto& options) {
    return processes->compile(files, expression, options);
  };
}

int run_nvrtc_process(int in, int out) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);  // the parent decides
  LineChannel lines(in, out);
  while (const auto line = lines.read()) lines.write(answer_to(*line));
  return 0;
}

}  // namespace warptune
#else
namespace warptune {
NvrtcCall nvrtc_in_processes(std::filesystem::path, double) { return {}; }
int run_nvrtc_process(int, int) { return 2; }
}  // namespace warptune
#endif
