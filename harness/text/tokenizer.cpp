#include "harness/text/tokenizer.h"

#include <fmt/format.h>

#include "harness/core/error.h"
#include "harness/core/foreign_format.h"
#include "harness/core/input_file.h"
#include "harness/text/sentencepiece_model.h"
#include "harness/text/text_stream.h"
#include "harness/text/tokenizer_config.h"
#include "harness/text/tokenizer_json.h"

namespace warptune {

namespace fs = std::filesystem;

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& folder) {
  const fs::path json = folder / "tokenizer.json", model = folder / "tokenizer.model";
  if (fs::exists(json))
    return parse_tokenizer_json(read_input(json, json.string(), kMaxIndexBytes), json.string());
  if (!fs::exists(model))
    throw InputError(
        fmt::format("'{}' has no tokenizer: neither tokenizer.json nor tokenizer.model", folder.string()));
  const TokenizerConfig config = read_tokenizer_config(folder);
  const std::string bytes = read_input(model, model.string(), kMaxIndexBytes);
  if (const std::string_view format = foreign_format(bytes); !format.empty())
    throw InputError(fmt::format("{}: this is {}", model.string(), format));
  return parse_sentencepiece_model(bytes, model.string(), {.bos = config.add_bos, .eos = config.add_eos});
}

std::string decode(const Tokenizer& tokenizer, std::span<const int> ids) {
  TextStream stream(tokenizer, {});
  std::string text;
  for (const int id : ids) text += stream.push(id);
  return text + stream.finish();
}

}  // namespace warptune
