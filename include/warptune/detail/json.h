// A reader of JSON, as small as warptune.json needs it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace warptune {

/// Anything that goes wrong: one sentence, with the driver's text where the driver refused a call.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace detail {

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream content;
  content << in.rdbuf();
  if (!in) throw Error("'" + path + "' cannot be read");
  return content.str();
}

/// A JSON value.
class Json {
 public:
  enum class Kind { null, boolean, number, text, list, object };

  static Json parse(const std::string& text, const std::string& file) {
    Reader reader{text, file};
    Json value = reader.value(0);
    reader.skip_spaces();
    if (reader.at != text.size()) reader.fail("the end");
    return value;
  }

  bool has(std::string_view key) const { return find(key) != nullptr; }
  const Json& operator[](std::string_view key) const {
    if (const Json* value = find(key)) return *value;
    throw Error("warptune.json lacks the key '" + std::string(key) + "'");
  }
  /// The values of a list or an object; keys() has the keys of an object.
  const std::vector<Json>& items() const { return items_; }
  const std::vector<std::string>& keys() const { return keys_; }
  const std::string& text() const { return expect(Kind::text), text_; }
  double real() const { return expect(Kind::number), real_; }
  std::int64_t whole() const { return expect(Kind::number), whole_; }
  bool boolean() const { return expect(Kind::boolean), whole_ != 0; }
  Kind kind() const { return kind_; }
  /// A number or a text as text.
  std::string word() const { return kind_ == Kind::number ? std::to_string(whole_) : text(); }

 private:
  const Json* find(std::string_view key) const {
    const auto it = std::find(keys_.begin(), keys_.end(), key);
    return it == keys_.end() ? nullptr : &items_[static_cast<std::size_t>(it - keys_.begin())];
  }
  void expect(Kind kind) const {
    if (kind_ != kind) throw Error("warptune.json has a value of another type than its schema says");
  }

  struct Reader {
    const std::string& text;
    const std::string& file;
    std::size_t at = 0;

    [[noreturn]] void fail(const std::string& expected) const {
      throw Error(file + ": no JSON at byte " + std::to_string(at) + ": expected " + expected);
    }
    void skip_spaces() {
      while (at < text.size() && std::string_view(" \t\r\n").find(text[at]) != std::string_view::npos) ++at;
    }
    bool take(char c) {
      skip_spaces();
      const bool is_there = at < text.size() && text[at] == c;
      at += is_there;
      return is_there;
    }
    void need(char c) {
      if (!take(c)) fail(std::string("'") + c + "'");
    }
    bool take_word(std::string_view word) {
      const bool is_there = text.compare(at, word.size(), word) == 0;
      if (is_there) at += word.size();
      return is_there;
    }

    Json value(int depth) {
      constexpr int kMaxDepth = 64;
      if (depth > kMaxDepth) fail("fewer levels");
      Json json;
      if (take('{')) {
        json.kind_ = Kind::object;
        if (take('}')) return json;
        do {
          skip_spaces();
          json.keys_.push_back(string());
          need(':');
          json.items_.push_back(value(depth + 1));
        } while (take(','));
        need('}');
      } else if (take('[')) {
        json.kind_ = Kind::list;
        if (take(']')) return json;
        do json.items_.push_back(value(depth + 1));
        while (take(','));
        need(']');
      } else if (at < text.size() && text[at] == '"') {
        json.kind_ = Kind::text;
        json.text_ = string();
      } else if (take_word("true") || take_word("false")) {
        json.kind_ = Kind::boolean;
        json.whole_ = text[at - 2] == 'u';
      } else if (!take_word("null")) {
        number(json);
      }
      return json;
    }
    static bool at_end(std::istringstream& in) { return in.peek() == std::istringstream::traits_type::eof(); }
    void number(Json& json) {
      const std::size_t begin = at;
      while (at < text.size() && std::string_view("+-.0123456789eE").find(text[at]) != std::string_view::npos)
        ++at;
      std::istringstream digits(text.substr(begin, at - begin));
      digits.imbue(std::locale::classic());
      json.kind_ = Kind::number;
      if (text.find_first_of(".eE", begin) < at) {
        if (!(digits >> json.real_) || !at_end(digits)) fail("a number");
        json.whole_ = static_cast<std::int64_t>(json.real_);
      } else {
        if (!(digits >> json.whole_) || !at_end(digits)) fail("a number");
        json.real_ = static_cast<double>(json.whole_);
      }
    }
    /// Escapes of one character are read; \u stays as it is written.
    std::string string() {
      if (at >= text.size() || text[at] != '"') fail("a text");
      std::string result;
      for (++at; at < text.size() && text[at] != '"'; ++at) {
        if (text[at] == '\\' && at + 1 < text.size() && text[at + 1] != 'u') {
          constexpr std::string_view kCodes = "nrtbf", kCharacters = "\n\r\t\b\f";
          const auto code = kCodes.find(text[++at]);
          result += code == std::string_view::npos ? text[at] : kCharacters[code];
        } else {
          result += text[at];
        }
      }
      if (at == text.size()) fail("a quote");
      ++at;
      return result;
    }
  };

  Kind kind_ = Kind::null;
  std::int64_t whole_ = 0;
  double real_ = 0;
  std::string text_;
  std::vector<std::string> keys_;
  std::vector<Json> items_;
};

}  // namespace detail
}  // namespace warptune
