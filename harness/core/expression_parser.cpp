// A Pratt parser: an operand, then operators as long as they bind tighter than what stands before.
#include "harness/core/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "harness/core/brief.h"
#include "harness/core/lookup.h"

namespace warptune {

InputError wrong_expression(std::string_view text, std::string_view kind, std::size_t position,
                            std::string_view why) {
  return InputError("{} '{}' is wrong at position {}: {}", kind, brief(text), position + 1, brief(why));
}

namespace {

using Pointer = Expression::Node::Pointer;
using Kind = Expression::Node::Kind;
using Form = Operator::Form;

constexpr std::size_t kLongestText = 10'000;  // also bounds the height of a tree
constexpr int kDeepestNesting = 200;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

struct Token {
  enum class Kind { end, number, name, label, symbol } kind = Kind::end;
  std::string_view text = {};
  std::size_t position = 0;
  double number = 0;
};

class Parser {
 public:
  Parser(std::string_view text, std::string_view kind) : text_(text), kind_(kind) {
    if (text.size() > kLongestText)
      throw InputError("a {} of {} characters is too long; at most {} are possible", kind, text.size(),
                       kLongestText);
    advance();
  }

  Pointer parse() {
    if (token_.kind == Token::Kind::end) throw InputError("a {} is empty", kind_);
    Pointer root = expression(0);
    if (is_symbol(",")) fail(token_.position, fmt::format("',' separates two {}s", kind_));
    if (token_.kind != Token::Kind::end) fail_at_token();
    return root;
  }

 private:
  [[noreturn]] void fail(std::size_t position, std::string_view why) const {
    throw wrong_expression(text_, kind_, position, why);
  }
  [[noreturn]] void fail_at_token() const {
    if (token_.kind == Token::Kind::end) fail(token_.position, "unexpected end of expression");
    const bool parenthesis = is_symbol("(") || is_symbol(")");
    const bool value = token_.kind != Token::Kind::symbol;
    fail(token_.position, fmt::format("unexpected {}\"{}\"",
                                      parenthesis ? "parenthesis "
                                      : value     ? "value "
                                                  : "",
                                      token_.text));
  }

  bool is_symbol(std::string_view text) const {
    return token_.kind == Token::Kind::symbol && token_.text == text;
  }
  /// Moves past a symbol that must be there.
  void expect(std::string_view symbol, std::string_view missing) {
    if (!is_symbol(symbol)) {
      if (token_.kind == Token::Kind::end) fail(token_.position, missing);
      fail_at_token();
    }
    advance();
  }

  void advance() {
    while (next_ < text_.size() && is_space(text_[next_])) ++next_;
    const std::size_t begin = next_;
    token_ = {.position = begin};
    if (begin == text_.size()) return;
    const char c = text_[begin];
    const auto take = [&](Token::Kind kind, std::size_t length) {
      token_.kind = kind;
      token_.text = text_.substr(begin, length);
      next_ = begin + length;
    };
    const auto count = [&](auto&& part) {
      return static_cast<std::size_t>(std::ranges::find_if_not(text_.substr(begin), part) -
                                      text_.substr(begin).begin());
    };
    if (is_letter(c)) {
      const auto part = [](char l) { return is_letter(l) || is_digit(l); };
      std::size_t length = count(part);
      // A member of a struct inside: "strides.row".
      while (begin + length + 1 < text_.size() && text_[begin + length] == '.' &&
             is_letter(text_[begin + length + 1])) {
        ++length;
        while (begin + length < text_.size() && part(text_[begin + length])) ++length;
      }
      return take(Token::Kind::name, length);
    }
    if (is_digit(c) || (c == '.' && begin + 1 < text_.size() && is_digit(text_[begin + 1]))) {
      const auto [end, error] =
          std::from_chars(text_.data() + begin, text_.data() + text_.size(), token_.number);
      take(Token::Kind::number, static_cast<std::size_t>(end - text_.data()) - begin);
      if (error != std::errc()) fail(begin, fmt::format("{} is beyond the range of numbers", token_.text));
      return;
    }
    if (c == '\'' || c == '"') {
      const std::size_t end = text_.find(c, begin + 1);
      if (end == std::string_view::npos) fail(begin, fmt::format("a {} opens a label that does not end", c));
      take(Token::Kind::label, end + 1 - begin);
      token_.text = token_.text.substr(1, end - begin - 1);
      return;
    }
    constexpr std::array<std::string_view, 8> kPairs = {"||", "&&", "<=", ">=", "==", "!=", "//", "**"};
    const bool pair = contains(kPairs, text_.substr(begin, 2));
    take(Token::Kind::symbol, pair ? 2 : 1);
    if (token_.text == "=") fail(begin, "'=' assigns; '==' compares");
  }

  /// The operator at the token, if it continues an operand. "not" is the begin of "not in".
  const Operator* infix_operator() const {
    if (token_.kind == Token::Kind::symbol) return find_operator(token_.text);
    if (token_.kind != Token::Kind::name) return nullptr;
    return find_operator(token_.text == "not" ? "not in" : token_.text);
  }

  Pointer expression(int above) {
    if (++nesting_ > kDeepestNesting) fail(token_.position, "it is nested too deeply");
    Pointer left = operand();
    Pointer middle;  // the last operand of a chain of comparisons
    while (const Operator* op = infix_operator()) {
      if (op->precedence <= above) break;
      const std::size_t position = token_.position;
      if (op->name == "not in") {
        advance();
        if (token_.text != "in") fail_at_token();
      }
      advance();
      if (op->form == Form::conditional) {
        Pointer yes = expression(0);
        expect(":", "':' is missing");
        left = call(op, {left, yes, expression(op->precedence - 1)}, position);
        continue;
      }
      const bool compares = op->precedence == find_operator("==")->precedence;
      std::vector<Pointer> arguments = {compares && middle ? middle : left};
      if (op->form == Form::membership)
        append_list(arguments);
      else
        arguments.push_back(expression(op->form == Form::right_infix ? op->precedence - 1 : op->precedence));
      Pointer last = arguments.back();
      Pointer result = call(op, std::move(arguments), position);
      left = compares && middle ? call(find_operator("&&"), {left, result}, position) : result;
      middle = compares && op->form != Form::membership ? last : nullptr;
    }
    --nesting_;
    return left;
  }

  Pointer operand() {
    const Token token = token_;
    if (token.kind == Token::Kind::number) {
      advance();
      return std::make_shared<Expression::Node>(
          Expression::Node{.number = token.number, .position = token.position});
    }
    if (token.kind == Token::Kind::label) {
      advance();
      return named(Kind::label, token);
    }
    const bool word = token.kind == Token::Kind::name;
    if (const Operator* prefix = token.kind != Token::Kind::end ? find_operator(token.text, true) : nullptr) {
      advance();
      return call(prefix, {expression(prefix->precedence - 1)}, token.position);
    }
    // An operand may have the name of a membership operator: linear has a dim `in`.
    if (const Operator* op = word ? infix_operator() : nullptr; op && op->form != Form::membership)
      fail_at_token();
    if (word) {
      advance();
      if (is_symbol("(")) return function(token);
      if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False")
        return std::make_shared<Expression::Node>(Expression::Node{
            .number = token.text[0] == 't' || token.text[0] == 'T' ? 1.0 : 0.0, .position = token.position});
      return named(Kind::name, token);
    }
    if (is_symbol("(")) {
      advance();
      Pointer inner = expression(0);
      expect(")", "missing parenthesis");
      return inner;
    }
    fail_at_token();
  }

  Pointer function(const Token& name) {
    const Operator* f = find_function(name.text);
    if (!f)
      throw InputError("unknown function '{}' at position {} of {} '{}'", brief(name.text), name.position + 1,
                       kind_, brief(text_));
    std::vector<Pointer> arguments;
    append_list(arguments);
    if (arguments.size() < f->least_arguments || arguments.size() > f->arguments_at_most)
      fail(name.position, fmt::format("'{}' takes {}{} argument{}", f->name, f->least_arguments,
                                      f->least_arguments == f->arguments_at_most ? "" : " or more",
                                      f->arguments_at_most == 1 ? "" : "s"));
    return call(f, std::move(arguments), name.position);
  }

  /// "[a, b]" or "(a, b)"
  void append_list(std::vector<Pointer>& items) {
    if (!is_symbol("[") && !is_symbol("(")) {
      if (token_.kind == Token::Kind::end) fail_at_token();
      fail(token_.position, "a list [a, b] must be here");
    }
    const bool brackets = is_symbol("[");
    do {
      advance();
      items.push_back(expression(0));
    } while (is_symbol(","));
    expect(brackets ? "]" : ")", brackets ? "missing ']'" : "missing parenthesis");
  }

  static Pointer named(Kind kind, const Token& token) {
    return std::make_shared<Expression::Node>(
        Expression::Node{.kind = kind, .name = std::string(token.text), .position = token.position});
  }
  static Pointer call(const Operator* op, std::vector<Pointer> arguments, std::size_t position) {
    return std::make_shared<Expression::Node>(Expression::Node{
        .kind = Kind::call, .op = op, .arguments = std::move(arguments), .position = position});
  }

  std::string_view text_, kind_;
  Token token_;
  std::size_t next_ = 0;
  int nesting_ = 0;
};

}  // namespace

Expression::Node::Pointer parse_expression(std::string_view text, std::string_view kind) {
  return Parser(text, kind).parse();
}

}  // namespace warptune
