#include "harness/text/text_process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <utility>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/json.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double kBytesPerSecond = 100'000;  // size of prompts; tokenizers encode ten times as many

std::string python() {
  if (const char* named = std::getenv("WARPTUNE_PYTHON"); named && *named) return named;
  const fs::path environment = fs::path(WARPTUNE_SOURCE) / "build" / "text-venv" / "bin" / "python3";
  return fs::exists(environment) ? environment.string() : "python3";
}

/// The folder of the Python package: that of the installation, else that of the source tree.
fs::path package_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path installed = (program.parent_path() / WARPTUNE_PYTHON_FROM_PROGRAM).lexically_normal();
  return fs::exists(installed / "warptune" / "text") ? installed
                                                     : fs::path(WARPTUNE_SOURCE) / "python" / "src";
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

/// An answer has an element per text or sequence.
template <class T>
std::vector<T> counted(std::vector<T> answers, std::size_t count) {
  if (answers.size() != count)
    throw InputError(fmt::format("warptune.text answered {} of {} texts", answers.size(), count));
  return answers;
}

/// The last line with a text: of an exception in Python, its message.
std::string last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return brief(text.substr(text.rfind('\n') + 1));
}

}  // namespace

void from_json(const Json& json, TextPiece& piece) {
  json.at("text").get_to(piece.text);
  json.at("tokens").get_to(piece.tokens);
  json.at("ended").get_to(piece.ended);
}

TextProcess::TextProcess(const fs::path& model_folder, double seconds) : seconds_(seconds) {
  const std::string program = python();
  name_ = program + " -m warptune.text";
  process_ = std::make_unique<LineProcess>(
      std::vector<std::string>{program, "-m", "warptune.text", fs::absolute(model_folder).string()},
      python_environment());
  answer<bool>("ready", seconds_);
}

template <class T>
T TextProcess::answer(const char* key, double seconds) {
  const LineProcess::Answer line = process_->next_line(seconds);
  if (line.kind != LineProcess::Answer::Kind::line) {
    const bool has_ended = line.kind == LineProcess::Answer::Kind::ended;
    const std::string error = has_ended ? last_line(process_->errors()) : "";
    throw InputError(fmt::format("'{}' {}{}{}", name_, line.text, error.empty() ? "" : ": ", error));
  }
  const Json json = parse_json(line.text, name_);
  if (json.is_object() && json.contains("error") && json["error"].is_string())
    throw InputError(json["error"].get<std::string>());
  try {
    return json.at(key).get<T>();
  } catch (const Json::exception&) {
    throw InputError(
        fmt::format("'{}' answered '{}', which has no valid '{}'", name_, brief(line.text), key));
  }
}

template <class T>
T TextProcess::ask(const char* request, Json arguments, const char* key) {
  const std::string line = Json{{request, std::move(arguments)}}.dump();
  process_->send(line);
  return answer<T>(key, seconds_ + static_cast<double>(line.size()) / kBytesPerSecond);
}

std::vector<std::vector<int>> TextProcess::encode(const std::vector<std::string>& texts, bool chat) {
  return counted(ask<std::vector<std::vector<int>>>("encode", {{"texts", texts}, {"chat", chat}}, "ids"),
                 texts.size());
}

void TextProcess::begin(int sequences, const std::vector<std::string>& stops,
                        const std::vector<int>& end_tokens, bool chat) {
  ask<bool>("begin", {{"sequences", sequences}, {"stops", stops}, {"end_tokens", end_tokens}, {"chat", chat}},
            "ready");
}

std::vector<TextPiece> TextProcess::push(const std::vector<std::span<const int>>& tokens) {
  Json lists = Json::array();
  for (const auto ids : tokens) lists.emplace_back(std::vector<int>(ids.begin(), ids.end()));
  return counted(ask<std::vector<TextPiece>>("push", {{"tokens", std::move(lists)}}, "pieces"),
                 tokens.size());
}

std::vector<std::string> TextProcess::finish(std::size_t sequences) {
  return counted(ask<std::vector<std::string>>("finish", Json::object(), "texts"), sequences);
}

}  // namespace warptune
