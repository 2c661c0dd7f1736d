// The program's side of `python3 -m warptune.text`, with shell scripts in Python's place. The other side has
// its tests in python/tests/test_text.py, both together tests/cli/decode_text_test.cpp.
#include "harness/text/text_process.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "harness/core/error.h"
#include "tests/files.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

class TextProcessTest : public ::testing::Test {
 protected:
  void SetUp() override { ::unsetenv("PYTHONPATH"); }
  void TearDown() override { ::unsetenv("WARPTUNE_PYTHON"); }

  /// A script that is started as Python, and TextProcess on it.
  TextProcess start(const std::string& script, double seconds = 20) {
    std::ofstream(program_) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(program_, fs::perms::owner_all);
    ::setenv("WARPTUNE_PYTHON", program_.c_str(), 1);
    return TextProcess("the model", seconds);
  }
  /// The sentence of a script that fails at the start or when a prompt is encoded, after the name.
  std::string failure(const std::string& script, double seconds = 20, std::size_t prompt_bytes = 1) {
    std::string sentence;
    try {
      start(script, seconds).encode({std::string(prompt_bytes, 'a')}, false);
    } catch (const InputError& e) {
      sentence = e.what();
    }
    const std::string name = "'" + program_.string() + " -m warptune.text' ";
    return sentence.starts_with(name) ? sentence.substr(name.size()) : sentence;
  }

  const fs::path program_ = fs::path(::testing::TempDir()) / "python";
};

constexpr const char* kReady = "echo '{\"ready\": true}'\n";

TEST_F(TextProcessTest, AsksInJson) {
  const fs::path log = fs::path(::testing::TempDir()) / "requests";
  TextProcess text =
      start("echo \"$@\" > " + log.string() + "; echo $PYTHONSAFEPATH $PYTHONPATH >> " + log.string() + "\n" +
            kReady + "reply() { read -r line; printf '%s\\n' \"$line\" >> " + log.string() + R"(; echo "$1"; }
reply '{"ids": [[1, 2], [3]]}'
reply '{"ready": true}'
reply '{"pieces": [{"text": "\u00e9", "tokens": 2, "ended": false}, {"text": "", "tokens": 0, "ended": true}]}'
reply '{"texts": ["a", "b"]}')");
  EXPECT_EQ(text.encode({"\xc3\xa9\n", "b"}, true), (std::vector<std::vector<int>>{{1, 2}, {3}}));
  text.begin(2, {"stop"}, {2, 7}, false);
  const std::vector<int> ids = {5, 6};
  const auto pieces = text.push({ids, {}});
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].text, "\xc3\xa9");
  EXPECT_EQ(pieces[0].tokens, 2);
  EXPECT_FALSE(pieces[0].ended);
  EXPECT_TRUE(pieces[1].ended);
  EXPECT_EQ(text.finish(2), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(testing::text_of(log),
            "-m warptune.text " + (fs::current_path() / "the model").string() +
                "\n1 " SOURCE_ROOT
                "/python/src\n"
                "{\"encode\":{\"chat\":true,\"texts\":[\"\xc3\xa9\\n\",\"b\"]}}\n"
                "{\"begin\":{\"chat\":false,\"end_tokens\":[2,7],\"sequences\":2,\"stops\":[\"stop\"]}}\n"
                "{\"push\":{\"tokens\":[[5,6],[]]}}\n"
                "{\"finish\":{}}\n");
}

TEST_F(TextProcessTest, AnErrorIsTheSentenceOfPython) {
  EXPECT_EQ(failure(R"(echo '{"error": "no tokenizer"}')"), "no tokenizer");
  EXPECT_EQ(failure(std::string(kReady) + R"(read -r line; echo '{"error": "no template"}')"), "no template");
}

TEST_F(TextProcessTest, AnEndIsASentence) {
  EXPECT_EQ(failure("exit 0"), "ended with exit code 0");
  EXPECT_EQ(failure("echo Traceback >&2; echo 'No module named warptune' >&2; exit 1"),
            "ended with exit code 1: No module named warptune");
  EXPECT_EQ(failure("kill -SEGV $$"), "died of signal 11 (Segmentation fault)");
  EXPECT_EQ(failure(std::string(kReady) + "read -r line; exit 3"), "ended with exit code 3");
  EXPECT_EQ(failure(std::string(kReady) + "exec 0<&- 1>&-; exec sleep 60"), "closed its output");
}

TEST_F(TextProcessTest, AHangEndsAtTheDeadline) {
  EXPECT_EQ(failure("exec sleep 60", 0.2), "did not answer within 0.2 seconds");
  EXPECT_EQ(failure("printf '{'; exec sleep 60", 0.2), "did not answer within 0.2 seconds");
  // A request that fits no buffer, and that nobody reads.
  EXPECT_EQ(failure(std::string(kReady) + "exec sleep 60", 0.2, 300'000).substr(0, 21),
            "did not answer within");
}

TEST_F(TextProcessTest, AnotherAnswerIsASentence) {
  EXPECT_EQ(failure("echo hello"), "answered 'hello', which has no valid 'ready'");
  EXPECT_EQ(failure("echo '[true]'"), "answered '[true]', which has no valid 'ready'");
  EXPECT_EQ(failure(R"(printf '\377\001\n')"), R"(answered '\xff\x01', which has no valid 'ready')");
  const auto encoded = [&](const std::string& json) {
    return failure(kReady + ("read -r line; echo '" + json + "'"));
  };
  EXPECT_EQ(encoded(R"({"ids": [1]})"), R"(answered '{"ids": [1]}', which has no valid 'ids')");
  EXPECT_EQ(encoded(R"({"ids": []})"), "warptune.text answered 0 of 1 texts");
}

TEST_F(TextProcessTest, AMissingPythonIsASentence) {
  ::setenv("WARPTUNE_PYTHON", "no-such-python", 1);
  try {
    TextProcess text("model");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(), "'no-such-python -m warptune.text' cannot be started: No such file or directory");
  }
}

TEST_F(TextProcessTest, WhatPythonPrintsToStderrDoesNotBlockIt) {
  TextProcess text =
      start(std::string(kReady) + R"(read -r line; yes | head -c 1000000 >&2; echo '{"ids": [[1]]}')");
  EXPECT_EQ(text.encode({"a"}, false).size(), 1u);
}

TEST_F(TextProcessTest, NoProcessStays) {
  const fs::path number = fs::path(::testing::TempDir()) / "number";
  std::optional<TextProcess> text(start("echo $$ > " + number.string() + "\n" + kReady + "exec sleep 300"));
  const pid_t child = std::stoi(testing::text_of(number));
  EXPECT_EQ(::kill(child, 0), 0);
  text.reset();
  EXPECT_NE(::kill(child, 0), 0);
}

}  // namespace
}  // namespace warptune
