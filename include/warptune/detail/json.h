// A reader of JSON, as small as warptune.json needs it. It believes nothing: each value is read as a kind and
// in a range, and a mistake is an Error that names the value.
#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace warptune {

/// Anything that goes wrong: one sentence, with the driver's text where the driver refused a call.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace detail {

/// The result of `body`. The message of an Error gets `where` as its begin.
template <class Body>
auto within(std::string_view where, const Body& body) {
  try {
    return body();
  } catch (const Error& e) {
    throw Error(std::string(where) + ": " + e.what());
  }
}

inline bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

/// A JSON value. It knows its key, which messages name.
class Json {
 public:
  enum class Kind { null, boolean, number, text, list, object };

  static Json parse(std::string_view text, const std::string& file) {
    Reader reader{text, file};
    Json value = reader.value("warptune.json", 0);
    reader.skip_spaces();
    if (reader.at != text.size()) reader.fail("the end");
    return value;
  }

  const std::string& name() const { return name_; }
  bool is(Kind kind) const { return kind_ == kind; }
  void expect(Kind kind) const {
    constexpr const char* kNames[] = {"null", "true or false", "a number", "a text", "a list", "an object"};
    if (kind_ != kind)
      throw Error("'" + name_ + "' is " + kNames[static_cast<std::size_t>(kind_)] + "; it must be " +
                  kNames[static_cast<std::size_t>(kind)]);
  }

  /// Members of an object. `find` is nullptr where there is none.
  const Json* find(std::string_view key) const {
    expect(Kind::object);
    const auto it =
        std::find_if(items_.begin(), items_.end(), [&](const Json& item) { return item.name_ == key; });
    return it == items_.end() ? nullptr : &*it;
  }
  const Json& operator[](std::string_view key) const {
    if (const Json* value = find(key)) return *value;
    throw Error("'" + name_ + "' lacks the key '" + std::string(key) + "'");
  }
  const std::vector<Json>& members() const { return expect(Kind::object), items_; }
  const std::vector<Json>& list() const { return expect(Kind::list), items_; }
  /// A list of this many values.
  const std::vector<Json>& list(std::size_t count) const {
    if (list().size() != count)
      throw Error("'" + name_ + "' has " + std::to_string(items_.size()) + " values; it must have " +
                  std::to_string(count));
    return items_;
  }

  bool boolean() const { return expect(Kind::boolean), whole_ != 0; }
  double real() const { return expect(Kind::number), real_; }
  std::int64_t whole(std::int64_t least, std::int64_t most) const {
    expect(Kind::number);
    if (is_whole_ && whole_ >= least && whole_ <= most) return whole_;
    throw Error("'" + name_ + "' is " + text_ + "; it must be an integer from " + std::to_string(least) +
                " to " + std::to_string(most));
  }
  /// A name: ASCII that can be printed.
  const std::string& text() const {
    constexpr std::size_t kMaxText = 4096;
    expect(Kind::text);
    if (text_.empty() || text_.size() > kMaxText || !is_printable(text_))
      throw Error("'" + name_ + "' must be a name of 1 to " + std::to_string(kMaxText) +
                  " printable ASCII characters");
    return text_;
  }
  /// An integer or a name, as text.
  const std::string& word() const { return kind_ == Kind::number && is_whole_ ? text_ : text(); }

 private:
  struct Reader {
    std::string_view text;
    const std::string& file;
    std::size_t at = 0, values = 0;

    [[noreturn]] void fail(const std::string& expected) const {
      throw Error(file + ": no JSON at byte " + std::to_string(at) + ": expected " + expected);
    }
    void skip_spaces() {
      while (at < text.size() && std::string_view(" \t\r\n").find(text[at]) != std::string_view::npos) ++at;
    }
    bool take(std::string_view word) {
      skip_spaces();
      const bool is_there = text.substr(at, word.size()) == word;
      if (is_there) at += word.size();
      return is_there;
    }
    void need(std::string_view word) {
      if (!take(word)) fail("'" + std::string(word) + "'");
    }

    Json value(std::string name, int depth) {
      constexpr int kMaxDepth = 64;
      constexpr std::size_t kMaxValues = 4'000'000;  // of 20,000 plans; it bounds the memory
      if (depth > kMaxDepth) fail("at most " + std::to_string(kMaxDepth) + " levels");
      if (++values > kMaxValues) fail("at most " + std::to_string(kMaxValues) + " values");
      Json json;
      json.name_ = std::move(name);
      if (take("{")) {
        json.kind_ = Kind::object;
        if (take("}")) return json;
        do json.items_.push_back(member(depth));
        while (take(","));
        need("}");
      } else if (take("[")) {
        json.kind_ = Kind::list;
        if (take("]")) return json;
        do
          json.items_.push_back(
              value(json.name_ + "[" + std::to_string(json.items_.size()) + "]", depth + 1));
        while (take(","));
        need("]");
      } else if (take("\"")) {
        json.kind_ = Kind::text;
        json.text_ = string();
      } else if (const bool is_true = take("true"); is_true || take("false")) {
        json.kind_ = Kind::boolean;
        json.whole_ = is_true;
      } else if (!take("null")) {
        number(json);
      }
      return json;
    }
    Json member(int depth) {
      need("\"");
      std::string key = string();
      if (!is_printable(key)) fail("a key of printable ASCII characters before this byte");
      need(":");
      return value(std::move(key), depth + 1);
    }
    void number(Json& json) {
      const std::size_t end = text.find_first_not_of("+-.0123456789eE", at);
      const std::string_view digits = text.substr(at, end == std::string_view::npos ? end : end - at);
      const char* last = digits.data() + digits.size();
      constexpr std::size_t kMaxDigits = 64;
      if (digits.size() > kMaxDigits)
        fail("a number of at most " + std::to_string(kMaxDigits) + " characters");
      json.kind_ = Kind::number;
      json.text_ = digits;
      const auto [stop, error] = std::from_chars(digits.data(), last, json.whole_);
      json.is_whole_ = stop == last && error == std::errc();
      std::istringstream in(json.text_);
      in.imbue(std::locale::classic());
      if (json.is_whole_)
        json.real_ = static_cast<double>(json.whole_);
      else if (!(in >> json.real_) || in.peek() != std::istringstream::traits_type::eof() ||
               !std::isfinite(json.real_))
        fail("a value");
      at += digits.size();
    }
    /// A text, after its first quote. A reader uses ASCII names only, so all escaped characters beyond ASCII
    /// become the same byte, which is not ASCII.
    std::string string() {
      std::string result;
      while (at < text.size() && text[at] != '"') {
        if (static_cast<unsigned char>(text[at]) < ' ') fail("no control character in a text");
        if (text[at] != '\\') {
          result += text[at++];
        } else if (++at < text.size() && text[at] == 'u') {
          result += escaped(text.substr(++at, 4));
          at += 4;
        } else {
          constexpr std::string_view kCodes = "\"\\/nrtbf", kCharacters = "\"\\/\n\r\t\b\f";
          const auto code = at < text.size() ? kCodes.find(text[at++]) : std::string_view::npos;
          if (code == std::string_view::npos) fail("an escape of JSON");
          result += kCharacters[code];
        }
      }
      need("\"");
      return result;
    }
    char escaped(std::string_view digits) const {
      unsigned code = 0;
      const char* last = digits.data() + digits.size();
      if (digits.size() != 4 || std::from_chars(digits.data(), last, code, 16).ptr != last)
        fail("four hexadecimal digits");
      constexpr unsigned kAscii = 0x80;
      return static_cast<char>(code < kAscii ? code : kAscii);
    }
  };

  Kind kind_ = Kind::null;
  bool is_whole_ = false;
  std::int64_t whole_ = 0;
  double real_ = 0;
  std::string name_, text_;  // of a number: as it is written
  std::vector<Json> items_;
};

}  // namespace detail
}  // namespace warptune
