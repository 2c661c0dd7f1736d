#include "harness/text/text_stream.h"

#include <gtest/gtest.h>

namespace warptune {
namespace {

/// Token b is the byte b; 256 is a special token.
class Bytes : public Tokenizer {
 public:
  explicit Bytes(LeadingSpace leading = LeadingSpace::keep) : leading_(leading) {}
  std::vector<int> encode(std::string_view text, SpecialTokens) const override {
    return {text.begin(), text.end()};
  }
  std::string bytes_of(int id) const override {
    return id < 256 ? std::string(1, static_cast<char>(id)) : "";
  }
  LeadingSpace leading_space() const override { return leading_; }
  std::optional<int> id_of(std::string_view) const override { return std::nullopt; }

 private:
  LeadingSpace leading_;
};

/// What each byte of a text releases, and at last what finish() does.
std::vector<std::string> released(TextStream& stream, std::string_view text) {
  std::vector<std::string> parts;
  for (const char c : text) parts.push_back(stream.push(static_cast<unsigned char>(c)));
  parts.push_back(stream.finish());
  return parts;
}

using Parts = std::vector<std::string>;

TEST(TextStream, HoldsBackIncompleteCharacters) {
  const Bytes bytes;
  TextStream stream(bytes, {});
  EXPECT_EQ(released(stream,
                     "a\xe2\x82\xac"
                     "b"),
            (Parts{"a", "", "", "\xe2\x82\xac", "b", ""}));
}

TEST(TextStream, ReplacesWhatIsNoCharacter) {
  const Bytes bytes;
  TextStream lone(bytes, {}), cut(bytes, {}), surrogate(bytes, {}), end(bytes, {});
  EXPECT_EQ(released(lone, "\x80z"), (Parts{"\ufffd", "z", ""}));
  EXPECT_EQ(released(cut, "\xe2\x82z"), (Parts{"", "", "\ufffdz", ""})) << "one for a beginning";
  EXPECT_EQ(released(surrogate, "\xed\xa0\x80"), (Parts{"", "\ufffd\ufffd", "\ufffd", ""}));
  EXPECT_EQ(released(end, "\xf0\x9f\x98"), (Parts{"", "", "", "\ufffd"})) << "no token comes any more";
}

TEST(TextStream, EndsBeforeAStopString) {
  const Bytes bytes;
  TextStream stream(bytes, {"END", "\n\n"});
  EXPECT_EQ(released(stream, "aENzEND and"), (Parts{"a", "", "", "ENz", "", "", "", "", "", "", "", ""}));
  EXPECT_TRUE(stream.stopped());
}

TEST(TextStream, TheFirstStopStringInTheTextCounts) {
  const Bytes bytes;
  TextStream stream(bytes, {"bcd", "c"});
  EXPECT_EQ(released(stream, "abcd"), (Parts{"a", "", "b", "", ""}));
}

TEST(TextStream, ReleasesTheBeginningOfAStopStringAtTheEnd) {
  const Bytes bytes;
  TextStream stream(bytes, {"END"});
  EXPECT_EQ(released(stream, "aEN"), (Parts{"a", "", "", "EN"}));
  EXPECT_FALSE(stream.stopped());
}

TEST(TextStream, AStopStringMayBeginWithinItself) {
  const Bytes bytes;
  TextStream stream(bytes, {"aab"});
  EXPECT_EQ(released(stream, "aaab"), (Parts{"", "", "a", "", ""}));
  EXPECT_TRUE(stream.stopped());
}

TEST(TextStream, StripsTheLeadingSpaceOnce) {
  const Bytes keep, one(LeadingSpace::strip_one);
  TextStream kept(keep, {}), stripped(one, {});
  EXPECT_EQ(kept.push(' '), " ");
  EXPECT_EQ(stripped.push(256), "") << "a special token is not the first text";
  EXPECT_EQ(stripped.push(' '), "");
  EXPECT_EQ(stripped.push(' '), " ");
}

}  // namespace
}  // namespace warptune
