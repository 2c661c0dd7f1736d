#include "harness/text/tokenizer_json.h"

#include <fmt/format.h>

#include <optional>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/json_reader.h"
#include "harness/text/bpe_tokenizer.h"
#include "harness/text/unicode.h"

namespace warptune {
namespace {

using Json = nlohmann::json;

constexpr int kMaxId = 1 << 24;  // far above any vocabulary

/// The part of that name; empty where it is null or missing.
std::optional<JsonReader> part_of(const JsonReader& in, const char* key) {
  return in.has(key) ? std::optional(in.object(key)) : std::nullopt;
}

/// The parts of a Sequence, or the one part. `list` is the key of a Sequence's parts.
std::vector<JsonReader> flattened(const JsonReader& part, const char* list) {
  constexpr std::size_t kMaxParts = 8;  // far above any LLaMA
  if (part.text("type") != "Sequence") return {part};
  std::vector<JsonReader> parts;
  for (const Json& entry : part.list(list)) {
    const JsonReader inner(entry, part.origin());
    for (JsonReader& each : flattened(inner, list)) parts.push_back(std::move(each));
  }
  if (parts.size() > kMaxParts)
    throw InputError(fmt::format("{}: the Sequence has {} parts; at most {} are possible", part.origin(),
                                 parts.size(), kMaxParts));
  return parts;
}

/// {"pattern": {"String": FROM}, "content": TO}. TO is short, so that a few steps do not blow up a text.
Replacement read_replacement(const JsonReader& in) {
  const JsonReader pattern = in.object("pattern");
  Replacement replacement = {pattern.text("String"), in.text("content")};
  if (replacement.from.empty()) pattern.fail("String", "a text");
  if (replacement.to.size() > 4) in.fail("content", "at most one character");
  return replacement;
}

std::vector<AddedToken> read_added_tokens(const JsonReader& in) {
  std::vector<AddedToken> tokens;
  if (!in.has("added_tokens")) return tokens;
  for (const Json& entry : in.list("added_tokens")) {
    const JsonReader token(entry, in.origin() + ": added_tokens");
    tokens.push_back({.id = token.id("id", kMaxId),
                      .text = token.text("content"),
                      .special = token.flag("special", false),
                      .normalized = token.flag("normalized", false),
                      .single_word = token.flag("single_word", false),
                      .lstrip = token.flag("lstrip", false),
                      .rstrip = token.flag("rstrip", false)});
  }
  return tokens;
}

Normalizer read_normalizer(const JsonReader& in) {
  Normalizer normalizer;
  const auto part = part_of(in, "normalizer");
  if (!part) return normalizer;
  for (const JsonReader& step : flattened(*part, "normalizers")) {
    const std::string type = step.text("type");
    if (type == "Prepend")
      normalizer.add(Normalizer::Prepend{step.text("prepend")});
    else if (type == "Replace")
      normalizer.add(read_replacement(step));
    else
      step.fail("type", "Prepend or Replace");
  }
  return normalizer;
}

/// The field `prepend_scheme`, in older files `add_prefix_space`.
Metaspace::Prepend read_prepend(const JsonReader& in) {
  if (!in.has("prepend_scheme"))
    return in.flag("add_prefix_space", true) ? Metaspace::Prepend::always : Metaspace::Prepend::never;
  const std::string scheme = in.text("prepend_scheme");
  if (scheme == "always") return Metaspace::Prepend::always;
  if (scheme == "first") return Metaspace::Prepend::first;
  if (scheme != "never") in.fail("prepend_scheme", "always, first or never");
  return Metaspace::Prepend::never;
}

std::string read_marker(const JsonReader& in) {
  std::string marker = in.text_or("replacement", std::string(kSpaceMarker));
  if (marker.empty() || utf8_head(marker).bytes != marker.size()) in.fail("replacement", "one character");
  return marker;
}

SplitPattern read_split(const JsonReader& in) {
  if (in.text("behavior") != "Isolated") in.fail("behavior", "Isolated");
  if (in.flag("invert", false)) in.fail("invert", "false");
  return {in.object("pattern").text("Regex"), in.origin() + ": the pattern"};
}

PreTokenizer read_pre_tokenizer(const JsonReader& in) {
  PreTokenizer pre_tokenizer;
  const auto part = part_of(in, "pre_tokenizer");
  if (!part) return pre_tokenizer;
  for (const JsonReader& step : flattened(*part, "pretokenizers")) {
    const std::string type = step.text("type");
    if (type == "Split")
      pre_tokenizer.add(read_split(step));
    else if (type == "ByteLevel")
      pre_tokenizer.add(ByteLevel{.add_prefix_space = step.flag("add_prefix_space", true),
                                  .use_pattern = step.flag("use_regex", true)});
    else if (type == "Metaspace")
      pre_tokenizer.add(Metaspace{
          .marker = read_marker(step), .prepend = read_prepend(step), .split = step.flag("split", true)});
    else if (type == "Digits")
      pre_tokenizer.add(SplitPattern(step.flag("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)", type));
    else
      step.fail("type", "Split, ByteLevel, Metaspace or Digits");
  }
  return pre_tokenizer;
}

/// A merge is "left right", in newer files ["left", "right"].
bool add_merge(Bpe& bpe, const Json& merge) {
  if (merge.is_array()) {
    if (merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) return false;
    return bpe.add_merge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
  }
  if (!merge.is_string()) return false;
  const std::string_view text = merge.get_ref<const std::string&>();
  const std::size_t blank = text.find(' ');
  if (blank == text.npos || text.find(' ', blank + 1) != text.npos) return false;
  return bpe.add_merge(text.substr(0, blank), text.substr(blank + 1));
}

Vocabulary read_vocabulary(const JsonReader& model) {
  const JsonReader in = model.object("vocab");
  Vocabulary vocabulary;
  for (const auto& [token, id] : in.json().items()) {
    if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() > kMaxId)
      throw InputError(fmt::format("{}: '{}' is {}; it must be an integer from 0 to {}", in.origin(),
                                   brief(token), brief(id.dump()), kMaxId));
    vocabulary.emplace(token, id.get<int>());
  }
  if (vocabulary.empty()) throw InputError(in.origin() + ": there is no token");
  return vocabulary;
}

Bpe read_model(const JsonReader& file) {
  const JsonReader in = file.object("model");
  if (in.has("type") && in.text("type") != "BPE") in.fail("type", "BPE");
  if (in.has("dropout") && in.json().at("dropout") != 0) in.fail("dropout", "null");
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!in.text_or(affix, "").empty()) in.fail(affix, "null");
  Vocabulary vocabulary = read_vocabulary(in);
  BpeOptions options{.fuse_unknown = in.flag("fuse_unk", false),
                     .byte_fallback = in.flag("byte_fallback", false),
                     .ignore_merges = in.flag("ignore_merges", false)};
  if (in.has("unk_token")) {
    const auto found = vocabulary.find(in.text("unk_token"));
    if (found == vocabulary.end()) in.fail("unk_token", "a token of the vocabulary");
    options.unknown = found->second;
  }
  Bpe bpe(std::move(vocabulary), options);
  int number = 0;
  for (const Json& merge : in.list("merges"))
    if (++number; !add_merge(bpe, merge))
      throw InputError(
          fmt::format("{}: merge {} is {}; both tokens and their merge must be in the vocabulary",
                      in.origin(), number, brief(merge.dump())));
  return bpe;
}

/// TemplateProcessing for one text: special tokens before and after it.
IdsAround read_template(const JsonReader& in) {
  IdsAround around;
  bool seen_text = false;
  for (const Json& entry : in.list("single")) {
    const JsonReader item(entry, in.origin() + ": single");
    if (!item.has("SpecialToken")) {
      if (item.object("Sequence").text("id") != "A" || seen_text)
        throw InputError(in.origin() + ": 'single' must have the text A once");
      seen_text = true;
      continue;
    }
    const std::string name = item.object("SpecialToken").text("id");
    const auto ids = in.object("special_tokens").object(name.c_str()).ids("ids", kMaxId);
    std::vector<int>& side = seen_text ? around.after : around.before;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (!seen_text) throw InputError(in.origin() + ": 'single' must have the text A once");
  return around;
}

IdsAround read_post_processor(const JsonReader& in) {
  IdsAround around;
  const auto part = part_of(in, "post_processor");
  if (!part) return around;
  for (const JsonReader& step : flattened(*part, "processors")) {
    const std::string type = step.text("type");
    if (type == "ByteLevel") continue;  // changes offsets, which nobody asks for
    if (type != "TemplateProcessing") step.fail("type", "TemplateProcessing or ByteLevel");
    IdsAround inner = read_template(step);
    around.before.insert(around.before.begin(), inner.before.begin(), inner.before.end());
    around.after.insert(around.after.end(), inner.after.begin(), inner.after.end());
  }
  return around;
}

TokenDecoder read_decoder(const JsonReader& in) {
  TokenDecoder decoder;
  bool fused = false;
  for (const JsonReader& step : flattened(in.object("decoder"), "decoders")) {
    const std::string type = step.text("type");
    if (type == "ByteLevel") {
      decoder.byte_level = true;
    } else if (type == "Metaspace") {
      decoder.replacements.push_back({read_marker(step), " "});
      if (read_prepend(step) != Metaspace::Prepend::never)
        decoder.leading_space = LeadingSpace::strip_first_token;
    } else if (type == "Replace") {
      decoder.replacements.push_back(read_replacement(step));
    } else if (type == "ByteFallback") {
      decoder.byte_fallback = true;
    } else if (type == "Fuse") {
      fused = true;
    } else if (type == "Strip" && fused) {
      if (step.text("content") != " ") step.fail("content", "a blank");
      if (step.id("stop") != 0) step.fail("stop", "0");
      if (step.id("start") > 1) step.fail("start", "0 or 1");
      if (step.id("start") == 1) decoder.leading_space = LeadingSpace::strip_one;
    } else {
      step.fail("type", "ByteLevel, Metaspace, Replace, ByteFallback, Fuse, or Strip after Fuse");
    }
  }
  return decoder;
}

}  // namespace

std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view text, const std::string& origin) {
  const Json json = need_json_object(text, origin);
  const JsonReader in(json, origin);
  return std::make_unique<BpeTokenizer>(BpeTokenizer::Parts{.added = read_added_tokens(in),
                                                            .normalizer = read_normalizer(in),
                                                            .pre_tokenizer = read_pre_tokenizer(in),
                                                            .model = read_model(in),
                                                            .around = read_post_processor(in),
                                                            .decoder = read_decoder(in)});
}

}  // namespace warptune
