// Reads the arguments of a kernel.

#include <algorithm>
#include <array>

#include "harness/core/brief.h"
#include "harness/core/lookup.h"
#include "harness/custom/formula.h"
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

KernelArgument argument_of(const std::array<std::byte, 8>& value, std::size_t bytes) {
  return {.kind = KernelArgument::Kind::value, .bytes = bytes, .value = value};
}

/// A member that the struct of a smaller problem lacks is zero, as members of unused features are.
Argument member(const ArgsField& field) {
  return [offset = field.offset, bytes = field.bytes](const Problem&, const Config&, std::size_t size) {
    if (offset + bytes <= size) return KernelArgument{.bytes = bytes, .offset = offset};
    return KernelArgument{.kind = KernelArgument::Kind::value, .bytes = bytes};
  };
}

Argument number(const NumberType* type, Formula formula) {
  return [type, formula](const Problem& p, const Config& c, std::size_t) {
    return argument_of(type->value(formula, p, c), type->bytes);
  };
}

/// A number of the problem's type.
Argument number_of_dtype(Formula formula) {
  return [formula](const Problem& p, const Config& c, std::size_t) {
    alignas(8) std::array<std::byte, 8> value = {};
    store(p.dtype, value.data(), 0, formula.real(p, c, p.dtype));
    return argument_of(value, size_of(p.dtype));
  };
}

std::size_t alignment_of(const KernelArgument& argument) {
  std::size_t alignment = argument.kind == KernelArgument::Kind::structure ? 1 : argument.bytes;
  for (const KernelArgument& member : argument.members) alignment = std::max(alignment, alignment_of(member));
  return alignment;
}

/// The members in their places, which are the places of a C++ compiler.
Argument structure(std::vector<Argument> members) {
  return [members = std::move(members)](const Problem& p, const Config& c, std::size_t size) {
    KernelArgument all{.kind = KernelArgument::Kind::structure};
    const auto align = [&](std::size_t to) { all.bytes = (all.bytes + to - 1) / to * to; };
    for (const Argument& member : members) {
      all.members.push_back(member(p, c, size));
      KernelArgument& last = all.members.back();
      align(alignment_of(last));
      last.place = all.bytes;
      all.bytes += last.bytes;
    }
    align(alignment_of(all));
    return all;
  };
}

Argument read_word(const KernelItem& item, const YAML::Node& node) {
  const std::string word = item.yaml.text(node, "an argument");
  const ArgsField* field = find_named(item.op.fields, word);
  if (word == "workspace" && !item.has_workspace)
    item.yaml.fail(node, "the argument 'workspace' needs the key 'workspace', its size in bytes");
  if (field) return member(*field);
  if (word == "workspace")
    return [](const Problem&, const Config&, std::size_t) {
      return KernelArgument{.kind = KernelArgument::Kind::workspace, .bytes = sizeof(void*)};
    };
  std::vector<std::string> known = names_of(item.op.fields);
  for (const Variable& v : item.names)
    if (!contains(known, v.name)) known.push_back(v.name);
  if (is_identifier(word) && !contains(known, word))
    item.yaml.fail(node, "op '{}' has no argument '{}'{}", item.op.name, brief(word),
                   did_you_mean(word, known, "a kernel can take"));
  return number(&number_type("int"), item.formula(node, "argument"));
}

Argument read_argument(const KernelItem& item, const YAML::Node& node) {
  if (!node.IsMap()) return read_word(item, node);
  if (node.size() == 1 && node["dtype"]) return number_of_dtype(item.formula(node["dtype"], "argument"));
  if (node.size() == 1 && node["struct"]) {
    item.yaml.expect_list(node["struct"], "'struct'");
    std::vector<Argument> members;
    for (const YAML::Node& member : node["struct"]) members.push_back(read_argument(item, member));
    return structure(std::move(members));
  }
  const NumberType* type = read_number_type(item.yaml, node, "an argument");
  return number(type, item.formula(node.begin()->second, "argument"));
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
