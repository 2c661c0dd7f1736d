// Reads what fills the constant memory of a kernel.
#include <fmt/format.h>

#include <algorithm>

#include "harness/core/brief.h"
#include "harness/core/lookup.h"
#include "harness/custom/formula.h"
#include "harness/custom/kernel_item.h"

namespace warptune {
namespace {

using Constant = std::function<ConstantMemory(const Problem&, const Config&)>;

/// The symbol of a variable in machine code: "ns::name" is "_ZN2ns4nameE" (Itanium C++ ABI).
std::string mangled(const std::string& name) {
  if (name.find("::") == std::string::npos) return name;
  std::string symbol = "_ZN";
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find("::", at), name.size());
    symbol += std::to_string(end - at) + name.substr(at, end - at);
    at = end + 2;
  }
  return symbol + "E";
}

bool is_qualified_name(const std::string& name) {
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find("::", at), name.size());
    if (!is_identifier(std::string_view(name).substr(at, end - at))) return false;
    at = end + 2;
  }
  return true;
}

/// A tensor of the op, whose bytes depend on the problem.
Constant read_tensor_constant(const KernelItem& item, const YAML::Node& node, const std::string& symbol) {
  const std::string name = item.yaml.text(node, fmt::format("constant '{}'", brief(symbol)));
  const ArgsField* field = find_named(item.op.fields, name);
  if (!field || !field->is_pointer() || name == "workspace") {
    std::vector<std::string> known;
    for (const ArgsField& other : item.op.fields)
      if (other.is_pointer() && other.name != "workspace") known.push_back(other.name);
    item.yaml.fail(node, "constant '{}' is '{}', which is no tensor of op '{}' and no {{TYPE: expression}}{}",
                   brief(symbol), brief(name), item.op.name, did_you_mean(name, known, "tensors are"));
  }
  return [symbol, name, offset = field->offset, tensors = item.op.tensors, where = item.yaml.where(node)](
             const Problem& p, const Config&) {
    const std::vector<TensorSpec> specs = tensors(p, 0);
    const TensorSpec* spec = find_named(specs, name);
    if (!spec) throw CompileError("{}: {} has no tensor '{}' to fill '{}'", where, p.key(), name, symbol);
    return ConstantMemory{
        .symbol = symbol, .tensor_offset = offset, .tensor_bytes = static_cast<std::size_t>(spec->bytes())};
  };
}

/// {TYPE: expression}, or {TYPE: [expression, ...]} for an array.
Constant read_value_constant(const KernelItem& item, const YAML::Node& node, const std::string& symbol) {
  const std::string what = fmt::format("constant '{}'", brief(symbol));
  const NumberType* type = read_number_type(item.yaml, node, what);
  std::vector<Formula> values;
  for (const YAML::Node& value : item.yaml.items(node.begin()->second, what))
    values.push_back(item.formula(value, what));
  return [symbol, type, values](const Problem& p, const Config& c) {
    ConstantMemory memory{.symbol = symbol};
    for (const Formula& formula : values) {
      const auto value = type->value(formula, p, c);
      memory.value.insert(memory.value.end(), value.begin(),
                          value.begin() + static_cast<std::ptrdiff_t>(type->bytes));
    }
    return memory;
  };
}

}  // namespace

std::function<std::vector<ConstantMemory>(const Problem&, const Config&)> read_constants(
    const KernelItem& item, const YAML::Node& node, bool is_binary) {
  item.yaml.expect_map(node, "'constant'");
  std::vector<Constant> constants;
  for (const auto& pair : node) {
    const std::string name = pair.first.Scalar();
    if (!is_binary && !is_qualified_name(name))
      item.yaml.fail(pair.first, "'{}' cannot be a __constant__ variable: its name, with namespaces, is",
                     brief(name));
    const std::string symbol = is_binary ? name : mangled(name);
    constants.push_back(pair.second.IsMap() ? read_value_constant(item, pair.second, symbol)
                                            : read_tensor_constant(item, pair.second, symbol));
  }
  return [constants](const Problem& p, const Config& c) {
    std::vector<ConstantMemory> list;
    for (const Constant& constant : constants) list.push_back(constant(p, c));
    return list;
  };
}

}  // namespace warptune
