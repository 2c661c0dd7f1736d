#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "harness/core/brief.h"
#include "harness/custom/kernel_item.h"

namespace warptune {
namespace {

using Arguments = std::function<std::vector<KernelArgument>(const Problem&, const Config&)>;
/// An argument for a problem whose args struct has so many bytes.
using Argument = std::function<KernelArgument(const Problem&, const Config&, std::size_t struct_bytes)>;

/// The size of the op's args struct, which may depend on the problem.
std::size_t struct_bytes(const Op& op, const Problem& problem) {
  constexpr std::size_t kMostTensors = 64;
  void* const tensors[kMostTensors] = {};
  return op.bind(problem, tensors, nullptr).size();
}

template <class T>
KernelArgument argument_of(T value) {
  KernelArgument argument{.kind = KernelArgument::Kind::value, .bytes = sizeof(T)};
  std::memcpy(argument.value.data(), &value, sizeof(T));
  return argument;
}

/// A member that the struct of a smaller problem lacks is zero, as members of unused features are.
Argument member(const ArgsField& field) {
  return [offset = field.offset, bytes = field.bytes](const Problem&, const Config&, std::size_t size) {
    if (offset + bytes <= size) return KernelArgument{.bytes = bytes, .offset = offset};
    return KernelArgument{.kind = KernelArgument::Kind::value, .bytes = bytes};
  };
}

template <class T>
Argument number(Formula formula) {
  return [formula](const Problem& p, const Config& c, std::size_t) {
    if constexpr (std::is_integral_v<T>) {
      const std::int64_t least = std::max<std::int64_t>(std::numeric_limits<T>::min(), -Formula::kLargest);
      const std::int64_t most = std::min<std::int64_t>(std::numeric_limits<T>::max(), Formula::kLargest);
      return argument_of(static_cast<T>(formula.whole(p, c, least, most)));
    } else {
      return argument_of(static_cast<T>(formula(p, c)));
    }
  };
}

Argument read_word(const KernelItem& item, const YAML::Node& node) {
  const std::string word = item.yaml.text(node, "an argument");
  const auto field = std::ranges::find(item.op.fields, word, &ArgsField::name);
  if (word == "workspace" && !item.has_workspace)
    item.yaml.fail(node, "the argument 'workspace' needs the key 'workspace', its size in bytes");
  if (field != item.op.fields.end()) return member(*field);
  if (word == "workspace")
    return [](const Problem&, const Config&, std::size_t) {
      return KernelArgument{.kind = KernelArgument::Kind::workspace, .bytes = sizeof(void*)};
    };
  std::vector<std::string> known = names_of(item.op.fields);
  for (const std::string& name : item.names.all())
    if (std::ranges::find(known, name) == known.end()) known.push_back(name);
  if (is_identifier(word) && std::ranges::find(known, word) == known.end())
    item.yaml.fail(node, fmt::format("op '{}' has no argument '{}'{}", item.op.name, brief(word),
                                     did_you_mean(word, known, "a kernel can take")));
  return number<int>(item.formula(node, "argument"));
}

Argument read_argument(const KernelItem& item, const YAML::Node& node) {
  if (!node.IsMap()) return read_word(item, node);
  item.yaml.expect_keys(node, "an argument with a type", {"int", "long long", "float", "double"});
  if (node.size() != 1)
    item.yaml.fail(node, "an argument must be a name, an expression or {TYPE: expression}");
  const std::string type = node.begin()->first.Scalar();
  Formula formula = item.formula(node.begin()->second, "argument");
  if (type == "float") return number<float>(std::move(formula));
  if (type == "double") return number<double>(std::move(formula));
  if (type == "int") return number<int>(std::move(formula));
  return number<long long>(std::move(formula));
}

}  // namespace

Arguments read_arguments(const KernelItem& item, const YAML::Node& node) {
  if (node.IsScalar() && node.Scalar() == "args")
    return [op = item.op](const Problem& p, const Config&) {
      return std::vector<KernelArgument>{{.bytes = struct_bytes(op, p)}};
    };
  if (!node.IsSequence())
    item.yaml.fail(node, "'arguments' must be a list of names, or args for the op's struct");
  std::vector<Argument> list;
  for (const YAML::Node& argument : node) list.push_back(read_argument(item, argument));
  return [op = item.op, list = std::move(list)](const Problem& p, const Config& c) {
    const std::size_t size = struct_bytes(op, p);
    std::vector<KernelArgument> arguments;
    for (const Argument& argument : list) arguments.push_back(argument(p, c, size));
    return arguments;
  };
}

}  // namespace warptune
