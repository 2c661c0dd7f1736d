// `warptune decode` with text, as a user types it, on the host device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "harness/core/json.h"
#include "harness/core/print.h"
#include "harness/llama/gguf.h"
#include "harness/llama/weights.h"
#include "harness/text/text_process.h"
#include "tests/files.h"
#include "tests/program.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

class DecodeText : public ::testing::Test {
 protected:
  /// A golden model of 256 tokens, with a tokenizer whose tokens are the bytes. Skips where Python lacks the
  /// packages of text.
  void SetUp() override {
    folder_ = testing::fresh_folder("decode_text");
    model_ = folder_ / "model";
    fs::copy(fs::path(TEST_DATA) / "golden" / "gqa", model_);
    nlohmann::json vocab;
    for (int byte = 0; byte < 256; ++byte) vocab[byte_character(byte)] = byte;
    const nlohmann::json byte_level = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
    const nlohmann::json tokenizer = {
        {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}},
        {"added_tokens",
         {{{"id", 256},
           {"content", "<beyond>"},
           {"single_word", false},
           {"lstrip", false},
           {"rstrip", false},
           {"normalized", false},
           {"special", true}}}},
        {"pre_tokenizer", byte_level},
        {"decoder", byte_level}};
    write(model_ / "tokenizer.json", tokenizer.dump());
    try {
      TextProcess{model_};
    } catch (const InputError& e) {
      if (std::string(e.what()).find(" -m pip install ") == std::string::npos) throw;
      GTEST_SKIP() << "scripts/setup.sh --python installs the packages: " << e.what();
    }
  }
  /// The character of a byte in byte-level BPE: itself where it is printable, else one from U+0100 on.
  static std::string byte_character(int byte) {
    const auto is_itself = [](int b) { return (b > 32 && b < 127) || (b > 160 && b != 173); };
    int code = byte;
    if (!is_itself(byte)) {
      code = 256;
      for (int b = 0; b < byte; ++b) code += is_itself(b) ? 0 : 1;
    }
    if (code < 128) return {static_cast<char>(code)};
    return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
  }
  static void write(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }

  int run(const std::string& arguments) {
    const testing::Ended ended =
        testing::run_shell("{} decode --device host --steps 12 --out " + folder_.string() + " --model " +
                           model_.string() + " " + arguments);
    output_ = ended.text;
    return ended.code;
  }
  /// The text of the ids that a run prints for a prompt of ids, up to the end token (2).
  std::string text_of_ids(const std::string& ids) {
    write(folder_ / "ids.txt", ids + "\n");
    EXPECT_EQ(run("--prompt-ids " + (folder_ / "ids.txt").string()), 0) << output_;
    std::smatch line;
    EXPECT_TRUE(std::regex_search(output_, line, std::regex("sequence 0: \\d+ tokens:([ \\d]+)"))) << output_;
    std::istringstream in(line[1].str());
    std::vector<int> tokens;
    for (int id = 0; in >> id && id != 2;) tokens.push_back(id);
    TextProcess text =
        fs::is_regular_file(model_) ? TextProcess(model_, GgufFile(model_).tokenizer()) : TextProcess(model_);
    text.begin(1, {}, {}, false);
    const std::string begin = text.push({tokens})[0].text;
    return begin + text.finish(1)[0];
  }
  struct PlainText {
    std::string prompt, before, character;
  };
  /// A prompt, and a letter or a digit in its text, which a shell needs no quotes for, with the text before
  /// it.
  PlainText prompt_with_plain_text() {
    const auto is_plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    for (const std::string prompt : {"ab", "cd", "xyz", "12", "hello", "Q"}) {
      std::string ids;
      for (const char c : prompt) ids += std::to_string(static_cast<int>(c)) + " ";
      const std::string text = text_of_ids(ids);
      const auto found =
          std::find_if(text.begin() + std::min<std::ptrdiff_t>(2, std::ssize(text)), text.end(), is_plain);
      if (found != text.end()) return {prompt, text.substr(0, text.find(*found)), std::string(1, *found)};
    }
    ADD_FAILURE() << "no prompt gets a text with a letter or a digit";
    return {};
  }
  bool printed(const std::string& text) const { return output_.find(text) != std::string::npos; }
  void expect_refused(const std::string& arguments, const std::string& sentence) {
    EXPECT_EQ(run(arguments), 2) << output_;
    EXPECT_EQ(output_, "warptune: " + sentence + "\n");
    EXPECT_FALSE(fs::exists(folder_ / "host" / "decode.csv")) << arguments;
  }

  fs::path folder_, model_;
  std::string output_;
};

TEST_F(DecodeText, PrintsTheTextOfTheTokensOfAPrompt) {
  const std::string text = text_of_ids("72 195 169 33");
  ASSERT_GT(text.size(), 3u);
  ASSERT_EQ(run("--prompt 'H\xc3\xa9!'"), 0) << output_;
  EXPECT_TRUE(printed(printable_lines(text) + "\n")) << output_;
  EXPECT_FALSE(printed("sequence 0:")) << "one sequence is text alone";
}

TEST_F(DecodeText, RanksPrintTheTextOfOneRank) {
  const auto [prompt, before, stop] = prompt_with_plain_text();
  for (const char* const end : {"", " --stop "}) {
    const std::string arguments = "--prompt " + prompt + (*end ? end + stop : std::string());
    ASSERT_EQ(run(arguments), 0) << output_;
    const std::string text = output_.substr(0, output_.find("\n\n"));
    ASSERT_EQ(run(arguments + " --ranks 2"), 0) << output_;
    EXPECT_EQ(output_.substr(0, output_.find("\n\n")), text);
  }
}

TEST_F(DecodeText, PromptsOfAFileAreABatch) {
  const std::string text = text_of_ids("97 98");
  write(folder_ / "prompts.txt", "xyz\nab\n");
  ASSERT_EQ(run("--prompt-file " + (folder_ / "prompts.txt").string()), 0) << output_;
  EXPECT_TRUE(printed("sequence 0: ")) << output_;
  EXPECT_TRUE(std::regex_search(output_, std::regex("sequence 1: \\d+ tokens: "))) << output_;
  EXPECT_TRUE(printed(" tokens: " + text + "\n")) << output_;
  ASSERT_EQ(run("--prompt xyz --prompt ab"), 0) << output_;
  EXPECT_TRUE(printed(" tokens: " + text + "\n")) << output_;
}

TEST_F(DecodeText, EndsBeforeAStopString) {
  const auto [prompt, before, stop] = prompt_with_plain_text();
  ASSERT_EQ(run("--prompt " + prompt + " --stop none --stop " + stop), 0) << output_;
  EXPECT_TRUE(printed(before + "\n")) << output_;
  EXPECT_FALSE(printed(before + stop)) << output_;
}

TEST_F(DecodeText, ChatPutsTheTemplateAroundThePrompt) {
  write(model_ / "tokenizer_config.json",
        R"({"chat_template": [{"name": "default", "template":
            "{{ bos_token }}[INST] {{ messages[0].content | trim }} [/INST]"}], "bos_token": "B"})");
  std::string ids;
  for (const char c : std::string("B[INST] hi [/INST]")) ids += std::to_string(static_cast<int>(c)) + " ";
  const std::string text = text_of_ids(ids);
  ASSERT_EQ(run("--chat --prompt ' hi '"), 0) << output_;
  EXPECT_TRUE(printed(text + "\n")) << output_;
}

TEST_F(DecodeText, TheEndOfATurnEndsTheTextOfAChat) {
  const auto [prompt, before, end] = prompt_with_plain_text();
  write(model_ / "tokenizer_config.json",
        fmt::format(R"({{"chat_template": "{}", "eos_token": "{}"}})", prompt, end));
  ASSERT_EQ(run("--chat --prompt x"), 0) << output_;
  EXPECT_TRUE(printed(before + "\n")) << output_;
}

TEST_F(DecodeText, ALongTextRunsAsItsIdsDo) {
  const std::string text(300, 'a');
  std::string ids;
  for (int i = 0; i < 300; ++i) ids += "97 ";
  const std::string answer = text_of_ids(ids), note = "note: model was made for 256 positions\n";
  EXPECT_TRUE(printed(note)) << output_;
  ASSERT_EQ(run("--prompt " + text), 0) << output_;
  EXPECT_TRUE(printed(note)) << output_;
  EXPECT_TRUE(printed(answer + "\n")) << output_;
}

TEST_F(DecodeText, AnEndTokenOfTheGenerationConfigEndsTheText) {
  const std::string text = text_of_ids("97 98");
  const auto middle = std::find_if(text.begin() + std::min<std::ptrdiff_t>(2, std::ssize(text)), text.end(),
                                   [](unsigned char c) { return c < 0x80; });
  ASSERT_NE(middle, text.end());
  const std::string before = text.substr(0, text.find(*middle));
  write(model_ / "generation_config.json",
        fmt::format(R"({{"eos_token_id": [2, {}]}})", static_cast<int>(*middle)));
  ASSERT_EQ(run("--prompt ab"), 0) << output_;
  EXPECT_TRUE(printed(before + "\n")) << output_;
  EXPECT_FALSE(printed(before + *middle)) << output_;
}

/// A GGUF file whose 64 tokens are the bytes from 64 on: their keys stand before the others.
TEST_F(DecodeText, AGgufFileBringsItsTokenizer) {
  std::string keys;
  const auto number = [&](auto value) { keys.append(reinterpret_cast<const char*>(&value), sizeof value); };
  const auto name = [&](const std::string& text) {
    number(std::uint64_t{text.size()});
    keys += text;
  };
  const auto array = [&](const char* key, std::uint32_t type, std::uint64_t count) {
    name(key), number(std::uint32_t{9}), number(type), number(count);
  };
  array("tokenizer.ggml.tokens", 8, 64);
  for (int token = 0; token < 64; ++token) name(byte_character(64 + token));
  array("tokenizer.ggml.token_type", 5, 64);
  for (int token = 0; token < 64; ++token) number(std::int32_t{1});
  array("tokenizer.ggml.merges", 8, 0);
  for (const auto& [key, value] : {std::pair("ggml.model", "gpt2"), std::pair("ggml.pre", "qwen2")})
    name(std::string("tokenizer.") + key), number(std::uint32_t{8}), name(value);
  name("tokenizer.ggml.eot_token_id"), number(std::uint32_t{4}), number(std::uint32_t{63});
  name("pad"), number(std::uint32_t{8});
  name(std::string(31 - (keys.size() + 7) % 32, ' '));  // the data stays aligned to 32 bytes
  std::string bytes = testing::text_of(fs::path(TEST_DATA) / "gguf" / "qwen2_q8_0" / "model.gguf");
  bytes.replace(bytes.find("tokenizer.ggml.tokens"), 9, "generator");  // the tokens that it has
  std::uint64_t count = 0;
  std::memcpy(&count, bytes.data() + 16, sizeof count);
  count += 7;
  std::memcpy(bytes.data() + 16, &count, sizeof count);
  model_ = folder_ / "model.gguf";
  bytes.insert(24, keys);
  std::string wrong = bytes;
  wrong[wrong.find("qwen2")] = '\xff';
  write(model_, wrong);
  expect_refused("--prompt a", model_.string() + ": a text of 'tokenizer.*' is not UTF-8");
  write(model_, bytes);
  EXPECT_EQ(read_model(model_).eos, (std::vector<int>{2, 63}));

  expect_refused("--prompt a --chat",
                 model_.string() + ": there is no chat template: no key 'tokenizer.chat_template'");
  const std::string text = text_of_ids("33 34");
  ASSERT_EQ(run("--prompt ab"), 0) << output_;
  EXPECT_TRUE(printed(text)) << output_;
}

TEST_F(DecodeText, BadInputIsOneSentence) {
  const std::string empty = ": it is empty; 'warptune decode --help' shows the arguments";
  expect_refused("--prompt ''", "--prompt" + empty);
  expect_refused("--prompt a --prompt 'b\xff'", "--prompt 2: byte 2 is 0xff; a text must be UTF-8");
  expect_refused(
      "--prompt 'a<beyond>'",
      "--prompt 1: the tokenizer makes token 256 of the prompt; the vocabulary of the model has 256");
  expect_refused("--stop a", "--stop needs --prompt or --prompt-file");
  expect_refused("--chat", "--chat needs --prompt or --prompt-file");
  expect_refused("--prompt a --stop ''", "--stop" + empty);
  expect_refused("--prompt a --chat",
                 "'" + model_.string() +
                     "' has no chat template: neither in chat_template.jinja, tokenizer_config.json nor "
                     "chat_template.json");
  write(model_ / "tokenizer.json", "{");
  expect_refused("--prompt a",
                 (model_ / "tokenizer.json").string() + ": EOF while parsing an object at line 1 column 1");
  fs::remove(model_ / "tokenizer.json");
  expect_refused("--prompt a",
                 "'" + model_.string() + "' has no tokenizer: neither tokenizer.json nor tokenizer.model");
}

/// A script in Python's place.
TEST_F(DecodeText, APythonThatFailsIsOneSentence) {
  const fs::path python = folder_ / "python";
  write(python, "#!/bin/sh\necho '{\"ready\": true}'\nread -r line\necho '{\"ids\": [[97]]}'\n");
  fs::permissions(python, fs::perms::owner_all);
  ::setenv("WARPTUNE_PYTHON", python.c_str(), 1);
  EXPECT_EQ(run("--prompt a"), 2) << output_;
  EXPECT_TRUE(printed("warptune: '" + python.string() + " -m warptune.text' ended with exit code 0\n"))
      << output_;
  ::unsetenv("WARPTUNE_PYTHON");
}

/// Without the packages: PYTHONPATH has modules of their names that cannot be imported.
TEST_F(DecodeText, AMissingPackageIsTheCommandThatInstallsIt) {
  write(folder_ / "tokenizers.py", "raise ImportError('it is not here')\n");
  ::setenv("PYTHONPATH", folder_.c_str(), 1);
  EXPECT_EQ(run("--prompt a"), 2) << output_;
  ::unsetenv("PYTHONPATH");
  EXPECT_TRUE(
      std::regex_match(output_, std::regex("warptune: text needs the Python package tokenizers \\(it is not "
                                           "here\\); install it with: \\S+ -m pip install tokenizers==\\S+ "
                                           "sentencepiece==\\S+ jinja2==\\S+\n")))
      << output_;
}

TEST(DecodeTextOfAPreset, HasNoTokenizer) {
  const testing::Ended ended =
      testing::run_shell("{} decode --device host --preset tinyllama-1.1b --prompt a");
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(
      ended.text,
      "warptune: a prompt that is text needs --model, a checkpoint with its tokenizer; --preset has none\n");
}

}  // namespace
}  // namespace warptune
