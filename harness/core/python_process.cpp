#include "harness/core/python_process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "harness/core/json.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double kBytesPerSecond = 100'000;  // size of requests; tokenizers encode ten times as many

std::string python() {
  if (const char* named = std::getenv("WARPTUNE_PYTHON"); named && *named) return named;
  const fs::path environment = fs::path(WARPTUNE_SOURCE) / "build" / "python-venv" / "bin" / "python3";
  return fs::exists(environment) ? environment.string() : "python3";
}

/// The folder of the Python package: that of the installation, else that of the source tree.
fs::path package_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path installed = (program.parent_path() / WARPTUNE_PYTHON_FROM_PROGRAM).lexically_normal();
  return fs::exists(installed / "warptune") ? installed : fs::path(WARPTUNE_SOURCE) / "python" / "src";
}

/// The variables of this process, with the package on Python's path and without the current folder.
std::vector<std::string> python_environment() {
  constexpr std::string_view kPath = "PYTHONPATH=";
  std::vector<std::string> variables;
  std::string path = std::string(kPath) + package_folder().string();
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable;
    if (!text.starts_with(kPath))
      variables.emplace_back(text);
    else if (text.size() > kPath.size())
      path += fmt::format(":{}", text.substr(kPath.size()));
  }
  variables.push_back(path);
  variables.emplace_back("PYTHONSAFEPATH=1");
  return variables;
}

/// The last line with a text: of an exception in Python, its message.
std::string last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return brief(text.substr(text.rfind('\n') + 1));
}

}  // namespace

PythonProcess::PythonProcess(const std::string& module, const std::vector<std::string>& arguments,
                             double seconds)
    : seconds_(seconds) {
  std::vector<std::string> words = {python(), "-m", module};
  name_ = words.front() + " -m " + module;
  words.insert(words.end(), arguments.begin(), arguments.end());
  process_ = std::make_unique<LineProcess>(std::move(words), python_environment());
}

std::string PythonProcess::next_line(double seconds) {
  LineProcess::Answer line = process_->next_line(seconds);
  if (line.kind == LineProcess::Answer::Kind::line) return std::move(line.text);
  const bool has_ended = line.kind == LineProcess::Answer::Kind::ended;
  const std::string error = has_ended ? last_line(process_->errors()) : "";
  throw InputError("'{}' {}{}{}", name_, line.text, error.empty() ? "" : ": ", error);
}

std::string PythonProcess::reply_to(const Json& request) {
  const std::string line = request.dump();
  process_->send(line);
  return next_line(seconds_ + static_cast<double>(line.size()) / kBytesPerSecond);
}

Json PythonProcess::without_error(const std::string& line) const {
  Json json = parse_json(line, name_);
  if (json.is_object() && json.contains("error") && json["error"].is_string())
    throw InputError(json["error"].get<std::string>());
  return json;
}

void become_python(const std::string& module, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {python(), "-m", module}, variables = python_environment();
  words.insert(words.end(), arguments.begin(), arguments.end());
  ::execvpe(words.front().c_str(), pointers_to(words).data(), pointers_to(variables).data());
  throw InputError("'{}' cannot be started: {}", words.front(), std::strerror(errno));
}

}  // namespace warptune
