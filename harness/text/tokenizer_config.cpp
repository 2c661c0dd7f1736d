#include "harness/text/tokenizer_config.h"

#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/json_reader.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

/// A token is its text, or an object with its text.
std::string token_text(const JsonReader& in, const char* key, std::string fallback) {
  if (!in.has(key)) return fallback;
  return in.json().at(key).is_object() ? in.object(key).text("content") : in.text(key);
}

/// A template is a text, or one of a list of named templates: "default".
std::string chat_template(const JsonReader& in) {
  constexpr const char* kKey = "chat_template";
  if (!in.has(kKey) || !in.json().at(kKey).is_array()) return in.text_or(kKey, "");
  for (const nlohmann::json& entry : in.list(kKey)) {
    const JsonReader named(entry, in.origin() + ": " + kKey);
    if (named.text("name") == "default") return named.text("template");
  }
  return "";
}

}  // namespace

TokenizerConfig read_tokenizer_config(const fs::path& folder) {
  TokenizerConfig config;
  const fs::path file = folder / "tokenizer_config.json", jinja = folder / "chat_template.jinja";
  if (fs::exists(file)) {
    const std::string origin = file.string();
    const nlohmann::json json = need_json_object(read_input(file, origin, kMaxConfigBytes), origin);
    const JsonReader in(json, origin);
    config = {.bos = token_text(in, "bos_token", config.bos),
              .eos = token_text(in, "eos_token", config.eos),
              .add_bos = in.flag("add_bos_token", true),
              .add_eos = in.flag("add_eos_token", false),
              .chat_template = chat_template(in)};
  }
  if (fs::exists(jinja)) config.chat_template = read_input(jinja, jinja.string(), kMaxConfigBytes);
  return config;
}

}  // namespace warptune
