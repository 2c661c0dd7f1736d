#include "harness/text/chat_template.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "harness/core/error.h"
#include "harness/text/text_prompts.h"
#include "harness/text/tokenizer_config.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

/// A folder with a tokenizer_config.json.
fs::path folder_with(const std::string& name, const std::string& config) {
  const fs::path folder = fs::path(::testing::TempDir()) / name;
  fs::create_directories(folder);
  std::ofstream(folder / "tokenizer_config.json") << config;
  return folder;
}

std::unique_ptr<Tokenizer> small(const std::string& name) {
  return load_tokenizer(fs::path(TEST_DATA) / "tokenizers" / name);
}

TEST(ChatTemplate, RendersTheKnownFormats) {
  EXPECT_EQ((ChatTemplate{ChatFormat::llama2, "<s>", "</s>"}.render("  Hi\n")), "<s>[INST] Hi [/INST]");
  EXPECT_EQ((ChatTemplate{ChatFormat::llama3, "<|begin_of_text|>", "<|end_of_text|>"}.render(" Hi ")),
            "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ((ChatTemplate{ChatFormat::zephyr, "<s>", "</s>"}.render(" Hi")),
            "<|user|>\n Hi</s>\n<|assistant|>\n");
}

TEST(ChatTemplate, IsRecognizedInTheConfig) {
  const auto tokenizer = small("llama2");
  const auto chat = [&](const std::string& name, const std::string& config) {
    return read_chat_template(folder_with(name, config), *tokenizer);
  };
  EXPECT_EQ(
      chat("inst", R"({"chat_template": "{{ bos_token + '[INST] ' }}", "bos_token": {"content": "<B>"}})")
          .render("a"),
      "<B>[INST] a [/INST]");
  const ChatTemplate zephyr =
      chat("zephyr", R"({"eos_token": "<E>", "chat_template": [{"name": "tool", "template": "x"},
      {"name": "default", "template": "'<|user|>\n' + '<|assistant|>'"}]})");
  EXPECT_EQ(zephyr.format, ChatFormat::zephyr);
  EXPECT_EQ(zephyr.end_of_turn(), "<E>");
}

TEST(ChatTemplate, MayBeAFileOfItsOwn) {
  const fs::path folder = folder_with("jinja", "{}");
  std::ofstream(folder / "chat_template.jinja") << "{{ '<|start_header_id|>' }}";
  const ChatTemplate chat = read_chat_template(folder, *small("llama3"));
  EXPECT_EQ(chat.format, ChatFormat::llama3);
  EXPECT_EQ(chat.bos, "<|begin_of_text|>") << "the config does not name it";
  EXPECT_EQ(chat.end_of_turn(), "<|eot_id|>");
}

std::string refusal(const fs::path& folder) {
  try {
    read_chat_template(folder, *small("llama2"));
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(ChatTemplate, AnotherOneIsRefused) {
  const fs::path other = folder_with("other", R"({"chat_template": "<|im_start|>"})");
  const std::string known =
      "; known are those of LLaMA 2 ([INST]), LLaMA 3 (<|start_header_id|>) and Zephyr (<|user|>)";
  EXPECT_EQ(refusal(other), "the chat template of '" + other.string() + "' is another one" + known);
  const fs::path none = folder_with("none", "{}");
  EXPECT_EQ(refusal(none), "the chat template of '" + none.string() + "' is missing" + known);
}

std::string refusal(const TextPrompt& prompt, int vocabulary) {
  try {
    check_text(prompt);
    encode_prompt(*small("llama2"), prompt, SpecialTokens::add, vocabulary);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(TextPrompts, AreChecked) {
  EXPECT_EQ(refusal({"one two", "p:1"}, 1000), "accepted");
  EXPECT_EQ(refusal({"", "p:1"}, 1000), "p:1: the text is empty; it must have at least one character");
  EXPECT_EQ(refusal({"ab\xff", "p:2"}, 1000), "p:2: byte 3 is 0xff; a text must be UTF-8");
  EXPECT_EQ(refusal({"</s>", "p:4"}, 2),
            "p:4: the tokenizer makes token 2 of the prompt; the vocabulary of the model has 2");
}

TEST(TextPrompts, AreTheLinesOfAFile) {
  const fs::path file = fs::path(::testing::TempDir()) / "prompts.txt";
  std::ofstream(file) << "one\r\ntwo words\n";
  const auto prompts = read_text_prompts(file);
  ASSERT_EQ(prompts.size(), 2u);
  EXPECT_EQ(prompts[0].text, "one");
  EXPECT_EQ(prompts[1].text, "two words");
  EXPECT_EQ(prompts[1].origin, file.string() + ":2");
  std::ofstream(file) << "one\n\ntwo\n";
  EXPECT_THROW(read_text_prompts(file), InputError) << "an empty line";
  std::ofstream(file) << "";
  EXPECT_THROW(read_text_prompts(file), InputError) << "no line";
}

TEST(TokenizerConfig, HasDefaults) {
  const TokenizerConfig config = read_tokenizer_config(folder_with("ends", R"({"add_bos_token": false})"));
  EXPECT_FALSE(config.add_bos);
  EXPECT_FALSE(config.add_eos);
  EXPECT_EQ(config.bos, "<s>");
  EXPECT_THROW(read_tokenizer_config(folder_with("broken", "{")), InputError);
  EXPECT_THROW(read_tokenizer_config(folder_with("typed", R"({"bos_token": 3})")), InputError);
}

}  // namespace
}  // namespace warptune
