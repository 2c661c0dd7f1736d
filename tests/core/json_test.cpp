#include "harness/core/json.h"

#include <gtest/gtest.h>

#include <string>

namespace warptune {
namespace {

std::string nested(int depth) {
  const auto count = static_cast<std::size_t>(depth);
  return std::string(count, '[') + std::string(count, ']');
}

/// `count` keys of one object.
std::string keys(int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += (i ? ",\"" : "\"") + std::to_string(i) + "\":1";
  return text + "}";
}

template <class Json>
std::string error_of(const std::string& text) {
  try {
    parse_json<Json>(text, "x.json");
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Json, ReadsWhatIsJson) {
  EXPECT_EQ(parse_json(R"({"a": [1, {"b": null}]})", "x")["a"][0], 1);
  EXPECT_TRUE(parse_json("{", "x").is_discarded());
  EXPECT_TRUE(parse_json("", "x").is_discarded());
  EXPECT_FALSE(parse_json(nested(kMaxJsonDepth), "x").is_discarded());
}

TEST(Json, DepthIsLimitedWhileParsing) {
  const std::string message = "x.json: lists and objects nest deeper than 64 levels";
  EXPECT_EQ(error_of<nlohmann::json>(nested(kMaxJsonDepth + 1)), message);
  EXPECT_EQ(error_of<nlohmann::json>(nested(10'000'000)), message);
  EXPECT_EQ(error_of<nlohmann::ordered_json>(std::string(10'000'000, '[')), message) << "unclosed";
}

TEST(Json, ItemsOfAListAreUsedAsTheyAreRead) {
  std::string used;
  const UseJsonItem<nlohmann::json> use = [&](const std::string& member, const nlohmann::json& item) {
    used += member + item.dump() + ' ';
    return member == "a";
  };
  const auto json = parse_json(R"({"a": [1, {"a": [2]}, [3]], "b": [4], "c": {"a": [5]}, "d": 6})", "x", use);
  EXPECT_EQ(used, R"(a1 a{"a":[2]} a[3] b4 )");
  EXPECT_EQ(json.dump(), R"({"a":[],"b":[4],"c":{"a":[5]},"d":6})");
  used.clear();
  EXPECT_EQ(parse_json(R"([[1], {"a": [2]}])", "x", use).dump(), R"([[1],{"a":[2]}])");
  EXPECT_EQ(used, "") << "of an object only";
}

TEST(Json, AnObjectKeepsTheOrderAsItGrows) {
  std::string text;
  for (int i = 100; i > 0; --i) text += fmt::format("{}\"{}\":[{}]", text.empty() ? "{" : ",", i, i);
  EXPECT_EQ(parse_json<nlohmann::ordered_json>(text + "}", "x").dump(), text + "}");
}

TEST(Json, ALongListTakesLinearTime) {
  std::string text = "[{}";
  for (int i = 1; i < 1'000'000; ++i) text += ",{}";
  EXPECT_EQ(parse_json(text + "]", "x").size(), 1'000'000u);
}

/// What need_json() says of a text.
std::string refusal(const std::string& text) {
  try {
    need_json(text, "x.json");
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Json, AnErrorHasItsPositionAndWhatItIs) {
  EXPECT_EQ(refusal("{\n \"a\": 1,\n \"b\": [1, 2, ],\n}"),
            "x.json: line 3, column 12: a comma before ']'; JSON has none there");
  EXPECT_EQ(refusal("{\"a\": 1,\n}"), "x.json: line 1, column 8: a comma before '}'; JSON has none there");
  EXPECT_EQ(refusal("[1,2] x"),
            "x.json: line 1, column 7: this is not JSON: syntax error while parsing value - invalid literal; "
            "last read: '2] x'; expected end of input");
  EXPECT_EQ(refusal("{\n \"a\": -256e87163}"), "x.json: line 2, column 7: -256e87163 is too large");
  EXPECT_EQ(refusal(""), "x.json: it is empty; it must be JSON");
  EXPECT_EQ(refusal(" \n\t"), "x.json: it is empty; it must be JSON");
  EXPECT_EQ(refusal("{]"),
            "x.json: line 1, column 2: this is not JSON: syntax error while parsing object key - "
            "unexpected ']'; expected string literal");
  EXPECT_EQ(refusal("{\"a\": 1}"), "no error");
}

TEST(Json, FilesOfOtherFormatsAreNamed) {
  EXPECT_EQ(refusal("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"),
            "x.json: line 1, column 1: this is a Git LFS pointer; 'git lfs pull' fetches the file itself");
  const std::string utf16 = "x.json: line 1, column 1: this is UTF-16; it must be UTF-8";
  EXPECT_EQ(refusal(std::string("\xff\xfe{\0}\0", 6)), utf16);
  EXPECT_EQ(refusal(std::string("\xfe\xff\0{\0}", 6)), utf16);
  EXPECT_EQ(refusal(std::string("{\0}\0", 4)), utf16) << "without a byte order mark";
  EXPECT_EQ(refusal(std::string("\0{\0}", 4)), utf16);
  EXPECT_EQ(refusal("\n<!DOCTYPE html>"), "x.json: line 1, column 1: this is HTML or XML");
  EXPECT_EQ(refusal("\xef\xbb\xbf{}"), "no error") << "UTF-8 with a byte order mark";
}

TEST(Json, AnObjectIsNoList) {
  try {
    need_json_object("[1]", "x.json");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(), "x.json: this is not a JSON object but a JSON array");
  }
}

TEST(Json, KeysTakeNoQuadraticTime) {
  EXPECT_EQ(parse_json(keys(300'000), "x").size(), 300'000u);
  EXPECT_EQ(error_of<nlohmann::ordered_json>(keys(300'000)), "x.json: an object has more than 1000 keys");
  EXPECT_EQ(error_of<nlohmann::ordered_json>("[" + keys(1000) + "," + keys(1000) + "]"), "no error");
}

}  // namespace
}  // namespace warptune
