#include "harness/core/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/expression_parser.h"
#include "harness/core/lookup.h"

namespace warptune {

namespace {

using Node = Expression::Node;
using Pointer = Node::Pointer;
using Kind = Node::Kind;
using Form = Operator::Form;

std::string joined(std::span<const Pointer> nodes);

/// `above`: the precedence of what the text is an operand of.
std::string printed(const Node& node, int above = 0) {
  if (node.kind == Kind::number) return fmt::format("{}", node.number);  // the shortest that parses to it
  if (node.kind == Kind::name) return node.name;
  if (node.kind == Kind::label)
    return fmt::format("{0}{1}{0}", contains(node.name, '\'') ? '"' : '\'', node.name);
  const Operator& op = *node.op;
  const std::span<const Pointer> arguments = node.arguments;
  std::string text;
  switch (op.form) {
    case Form::function:
      return fmt::format("{}({})", op.name, joined(arguments));
    case Form::prefix:
      text = fmt::format("{}{}{}", op.name, op.name == "not" ? " " : "",
                         printed(*arguments[0], op.precedence - 1));
      break;
    case Form::conditional:
      text = fmt::format("{} ? {} : {}", printed(*arguments[0], op.precedence), printed(*arguments[1]),
                         printed(*arguments[2], op.precedence - 1));
      break;
    case Form::membership:
      text = fmt::format("{} {} [{}]", printed(*arguments[0], op.precedence), op.name,
                         joined(arguments.subspan(1)));
      break;
    case Form::infix:
    case Form::right_infix: {
      const bool right = op.form == Form::right_infix;
      // A comparison of a comparison is no chain.
      const bool chain = op.precedence == find_operator("==")->precedence;
      text = fmt::format("{} {} {}", printed(*arguments[0], op.precedence - (right || chain ? 0 : 1)),
                         op.name, printed(*arguments[1], op.precedence - (right ? 1 : 0)));
    }
  }
  return op.precedence <= above ? fmt::format("({})", text) : text;
}

std::string joined(std::span<const Pointer> nodes) {
  std::string text;
  for (const Pointer& node : nodes) text += (text.empty() ? "" : ", ") + printed(*node);
  return text;
}

nlohmann::json json_of(const Node& node) {
  if (node.kind == Kind::number) {
    return is_exact_integer(node.number) ? nlohmann::json(static_cast<std::int64_t>(node.number))
                                         : nlohmann::json(node.number);
  }
  if (node.kind != Kind::call) return node.name;
  nlohmann::json list = {node.op->name};
  for (const Pointer& argument : node.arguments) list.push_back(json_of(*argument));
  return list;
}

Pointer number_node(double number) { return std::make_shared<Node>(Node{.number = number}); }

Pointer with_arguments(const Node& node, std::vector<Pointer> arguments) {
  Node changed = node;
  changed.arguments = std::move(arguments);
  return std::make_shared<Node>(std::move(changed));
}

void add_names(const Node& node, std::vector<std::string>& names) {
  if (node.kind == Kind::name && !contains(names, node.name)) names.push_back(node.name);
  for (const Pointer& argument : node.arguments) add_names(*argument, names);
}

bool compares_labels(const Node& node) {
  return node.op && (node.op->name == "==" || node.op->name == "!=" || node.op->form == Form::membership);
}

/// The variable of a node that is its name.
const Variable* variable_of(const Node& node, std::span<const Variable> variables) {
  return node.kind == Kind::name ? find_named(variables, node.name) : nullptr;
}

/// The variable with labels that a comparison has as an argument.
const Variable* labeled_argument(const Node& node, std::span<const Variable> variables) {
  for (const Pointer& argument : node.arguments)
    if (const Variable* v = variable_of(*argument, variables); v && !v->labels.empty()) return v;
  return nullptr;
}

/// Puts numbers in place of labels.
class LabelResolver {
 public:
  LabelResolver(std::span<const Variable> variables, std::string text, std::string_view kind)
      : variables_(variables), text_(std::move(text)), kind_(kind) {}

  /// `labeled`: the variable that the node is compared with.
  Pointer resolve(const Pointer& pointer, const Variable* labeled = nullptr) const {
    const Node& node = *pointer;
    if (node.kind == Kind::number) return pointer;
    if (node.kind == Kind::name && variable_of(node, variables_)) return pointer;
    if (node.kind != Kind::call) return label(node, labeled);
    if (compares_labels(node))
      labeled = labeled_argument(node, variables_);
    else if (node.op->form != Form::conditional)
      labeled = nullptr;
    std::vector<Pointer> arguments;
    for (std::size_t i = 0; i < node.arguments.size(); ++i)
      arguments.push_back(
          resolve(node.arguments[i], node.op->form == Form::conditional && i == 0 ? nullptr : labeled));
    return arguments == node.arguments ? pointer : with_arguments(node, std::move(arguments));
  }

 private:
  Pointer label(const Node& node, const Variable* labeled) const {
    const auto where = [&] {
      return fmt::format("'{}' at position {} of {} '{}'", brief(node.name), node.position + 1, kind_,
                         brief(text_));
    };
    if (labeled) {
      const auto it = std::ranges::find(labeled->labels, node.name);
      if (it != labeled->labels.end()) return number_node(static_cast<double>(it - labeled->labels.begin()));
      throw InputError(
          "unknown label {}{}", where(),
          did_you_mean(node.name, labeled->labels, fmt::format("'{}' is one of", labeled->name)));
    }
    if (node.kind == Kind::label)
      throw InputError("label {} is compared with no parameter or dim that has labels", where());
    throw InputError("unknown name {}{}", where(),
                     did_you_mean(node.name, names_of(variables_), "it may use"));
  }

  std::span<const Variable> variables_;
  std::string text_;
  std::string_view kind_;
};

std::optional<std::string> label_as_number(const Node& node, std::span<const Variable> variables) {
  for (const Pointer& argument : node.arguments) {
    const Variable* v = variable_of(*argument, variables);
    const bool labels = v && !v->labels.empty();
    const bool truth = labels && v->labels == std::vector<std::string>{"no", "yes"};
    const auto is_number = [](const Pointer& p) { return p->kind == Kind::number; };
    if (labels && (compares_labels(node) ? std::ranges::any_of(node.arguments, is_number)
                                         : !truth && node.op->form != Form::function))
      return v->name;
    if (auto found = label_as_number(*argument, variables)) return found;
  }
  return std::nullopt;
}

Pointer substituted(const Pointer& pointer, const std::function<Pointer(const std::string&)>& replacement) {
  const Node& node = *pointer;
  if (node.kind == Kind::name) {
    const Pointer other = replacement(node.name);
    return other ? other : pointer;
  }
  if (node.kind != Kind::call) return pointer;
  std::vector<Pointer> arguments;
  std::vector<double> numbers;
  for (const Pointer& argument : node.arguments) {
    arguments.push_back(substituted(argument, replacement));
    if (arguments.back()->kind == Kind::number) numbers.push_back(arguments.back()->number);
  }
  // A sign has the name of a sum or a difference, and one operand.
  const auto is = [&](std::size_t i, double value) {
    return arguments.size() == 2 && arguments[i]->kind == Kind::number && arguments[i]->number == value;
  };
  if (numbers.size() == arguments.size()) {
    if (const double value = node.op->evaluate(numbers); !std::isnan(value)) return number_node(value);
  } else if (node.op->form == Form::conditional && arguments[0]->kind == Kind::number) {
    return arguments[0]->number != 0 ? arguments[1] : arguments[2];
  } else if ((node.op->name == "*" && is(1, 1)) || (node.op->name == "+" && is(1, 0))) {
    return arguments[0];
  } else if ((node.op->name == "*" && is(0, 1)) || (node.op->name == "+" && is(0, 0))) {
    return arguments[1];
  }
  return with_arguments(node, std::move(arguments));
}

double evaluated(const Node& node, const std::function<double(const std::string&)>& value_of) {
  if (node.kind == Kind::number) return node.number;
  if (node.kind != Kind::call) return value_of(node.name);
  if (node.op->form == Form::conditional) {
    const double condition = evaluated(*node.arguments[0], value_of);
    if (std::isnan(condition)) return condition;
    return evaluated(*node.arguments[condition != 0 ? 1 : 2], value_of);
  }
  std::vector<double> values;
  for (const Pointer& argument : node.arguments) values.push_back(evaluated(*argument, value_of));
  return node.op->evaluate(values);
}

}  // namespace

bool is_exact_integer(double value) {
  return value == std::floor(value) && std::abs(value) <= static_cast<double>(kLargestInteger);
}

Expression::Expression(std::shared_ptr<const Node> node, std::string text, std::string origin)
    : node_(std::move(node)), text_(std::move(text)), origin_(std::move(origin)) {}
Expression::Expression(std::string text, std::string_view kind)
    : node_(parse_expression(text, kind)), text_(std::move(text)) {}
Expression Expression::constant(double number) { return Expression(number_node(number)); }

Expression Expression::call(std::string_view name, std::vector<Expression> arguments) {
  const Operator* op = find_operator(name, arguments.size() == 1);
  if (!op) op = find_function(name);
  if (!op || arguments.size() < op->least_arguments || arguments.size() > op->arguments_at_most)
    throw std::logic_error(fmt::format("no operator '{}' of {} arguments", name, arguments.size()));
  std::vector<Pointer> nodes;
  for (const Expression& e : arguments) nodes.push_back(e.node_);
  return Expression(
      std::make_shared<Node>(Node{.kind = Kind::call, .op = op, .arguments = std::move(nodes)}));
}

std::string Expression::text() const { return text_.empty() ? printed(*node_) : text_; }
nlohmann::json Expression::json() const { return json_of(*node_); }

std::vector<std::string> Expression::names() const {
  std::vector<std::string> names;
  add_names(*node_, names);
  return names;
}

Expression Expression::with_origin(std::string origin) const {
  return Expression(node_, text_, std::move(origin));
}

std::optional<double> Expression::number() const {
  return node_->kind == Kind::number ? std::optional(node_->number) : std::nullopt;
}

Expression Expression::resolve(std::span<const Variable> variables, std::string_view kind) const {
  return Expression(LabelResolver(variables, text(), kind).resolve(node_), text(), origin_);
}

std::optional<std::string> Expression::label_used_as_number(std::span<const Variable> variables) const {
  return label_as_number(*node_, variables);
}

Expression Expression::substitute(const Replacement& replacement) const {
  return Expression(substituted(node_, [&](const std::string& name) -> Pointer {
    const auto other = replacement(name);
    return other ? other->node_ : nullptr;
  }));
}

double Expression::evaluate(const std::function<double(const std::string&)>& value_of) const {
  return evaluated(*node_, value_of);
}

/// Puts a number, a value of the list, or the result of an operator on the stack.
struct Evaluator::Instruction {
  const Operator* op = nullptr;
  std::size_t count = 0;  // arguments of the operator, or the place of a value
  double number = 0;
  bool is_value = false;
};

namespace {
constexpr std::size_t kStack = 512;
}

Evaluator::Evaluator(const Expression& expression, std::span<const std::string> names)
    : expression_(expression) {
  compile(*expression.node_, names, 0);
}
Evaluator::Evaluator(const Evaluator&) = default;
Evaluator::Evaluator(Evaluator&&) noexcept = default;
Evaluator& Evaluator::operator=(Evaluator&&) noexcept = default;
Evaluator::~Evaluator() = default;

void Evaluator::compile(const Expression::Node& node, std::span<const std::string> names, std::size_t depth) {
  if (depth >= kStack) throw InputError("'{}' has too many operands", brief(expression_.text()));
  if (node.kind == Kind::number) {
    instructions_.push_back({.number = node.number});
  } else if (node.kind == Kind::call) {
    for (std::size_t i = 0; i < node.arguments.size(); ++i) compile(*node.arguments[i], names, depth + i);
    instructions_.push_back({.op = node.op, .count = node.arguments.size()});
  } else {
    const auto it = std::ranges::find(names, node.name);
    if (it == names.end())
      throw InputError("unknown name '{}' in '{}'", brief(node.name), brief(expression_.text()));
    const auto place = static_cast<std::size_t>(it - names.begin());
    instructions_.push_back({.count = place, .is_value = true});
    if (!contains(used_, place)) used_.push_back(place);
  }
}

double Evaluator::operator()(std::span<const double> values) const {
  std::array<double, kStack> stack;
  std::size_t size = 0;
  for (const Instruction& i : instructions_) {
    if (i.op) {
      size -= i.count;
      stack[size] = i.op->evaluate({&stack[size], i.count});
    } else {
      stack[size] = i.is_value ? values[i.count] : i.number;
    }
    ++size;
  }
  return stack[0];
}

}  // namespace warptune
