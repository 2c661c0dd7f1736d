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

TEST(Json, KeysTakeNoQuadraticTime) {
  EXPECT_EQ(parse_json(keys(300'000), "x").size(), 300'000u);
  EXPECT_EQ(error_of<nlohmann::ordered_json>(keys(300'000)), "x.json: an object has more than 1000 keys");
  EXPECT_EQ(error_of<nlohmann::ordered_json>("[" + keys(1000) + "," + keys(1000) + "]"), "no error");
}

}  // namespace
}  // namespace warptune
