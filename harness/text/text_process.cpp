#include "harness/text/text_process.h"

#include <utility>

#include "harness/core/error.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// An answer has an element per text or sequence.
template <class T>
std::vector<T> counted(std::vector<T> answers, std::size_t count) {
  if (answers.size() != count)
    throw InputError("warptune.text answered {} of {} texts", answers.size(), count);
  return answers;
}

}  // namespace

void from_json(const Json& json, TextPiece& piece) {
  json.at("text").get_to(piece.text);
  json.at("tokens").get_to(piece.tokens);
  json.at("ended").get_to(piece.ended);
}

TextProcess::TextProcess(const fs::path& model_folder, double seconds)
    : process_("warptune.text", {fs::absolute(model_folder).string()}, seconds) {
  process_.answer<bool>("ready");
}

TextProcess::TextProcess(const fs::path& gguf, const Json& metadata, double seconds)
    : process_("warptune.text", {fs::absolute(gguf).string()}, seconds) {
  try {
    ask<bool>("metadata", metadata, "ready");
  } catch (const Json::exception&) {
    throw InputError("{}: a text of 'tokenizer.*' is not UTF-8", gguf.string());
  }
}

template <class T>
T TextProcess::ask(const char* request, Json arguments, const char* key) {
  return process_.ask<T>(Json{{request, std::move(arguments)}}, key);
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
