// Kernels from a file that take a list of arguments in place of the op's args struct.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "harness/core/error.h"
#include "harness/export/launch_model.h"

namespace warptune {
namespace {

constexpr std::size_t kMaxValueBytes = sizeof(std::uint64_t);

std::uint64_t bytes_of(const KernelArgument& argument) {
  std::uint64_t value = 0;
  std::memcpy(&value, argument.value.data(), std::min(argument.bytes, kMaxValueBytes));  // little-endian
  return value;
}

/// The dim whose value a number has in every problem.
std::optional<std::string> dim_of(const std::vector<std::uint64_t>& values,
                                  const std::vector<Problem>& problems,
                                  const std::vector<std::string>& dims) {
  for (const std::string& dim : dims) {
    bool follows = true;
    for (std::size_t i = 0; i < problems.size(); ++i)
      follows = follows && values[i] == static_cast<std::uint64_t>(problems[i][dim]);
    if (follows) return dim;
  }
  return std::nullopt;
}

/// Puts a member after all others. The caller says what it holds.
ExportedField& append(ArgsLayout& layout, const std::string& name, std::size_t bytes, const char* type) {
  ExportedField& member = layout.fields.emplace_back();
  member.field.name = name;
  member.field.bytes = bytes;
  member.field.type = type;
  member.field.offset = (layout.bytes + bytes - 1) / bytes * bytes;
  layout.bytes = member.field.offset + bytes;
  return member;
}

void append_half(ArgsLayout& layout, const std::string& name, std::uint64_t value) {
  append(layout, name, 4, "int").value = static_cast<std::int32_t>(static_cast<std::uint32_t>(value));
}

}  // namespace

std::optional<ArgumentList> argument_list(const Stage& stage, const Config& config,
                                          const std::vector<Problem>& problems, std::size_t struct_bytes,
                                          const std::vector<std::string>& work_dims) {
  if (!stage.custom) return std::nullopt;
  std::vector<std::vector<KernelArgument>> given;
  for (const Problem& problem : problems) given.push_back(stage.custom->arguments(problem, config));
  const std::vector<KernelArgument>& first = given.front();
  using Kind = KernelArgument::Kind;
  if (first.size() == 1 && first[0].kind == Kind::member && first[0].offset == 0 &&
      first[0].bytes == struct_bytes)
    return std::nullopt;
  ArgumentList list;
  for (std::size_t a = 0; a < first.size(); ++a) {
    ArgumentModel model{.offset = first[a].offset,
                        .bytes = first[a].bytes,
                        .is_member = first[a].kind == Kind::member,
                        .is_workspace = first[a].kind == Kind::workspace};
    if (first[a].kind == Kind::structure)
      throw InputError("argument {} is a structure, which is not exported", a);
    if (first[a].kind == Kind::value) {
      if (model.bytes > kMaxValueBytes)
        throw InputError("argument {} has {} bytes; at most {} are exported", a, model.bytes, kMaxValueBytes);
      std::vector<std::uint64_t> values;
      for (const auto& arguments : given) values.push_back(bytes_of(arguments.at(a)));
      model.value = values.front();
      if (const auto dim = dim_of(values, problems, work_dims); dim && model.bytes >= 4)
        model.dim = *dim;
      else if (std::ranges::count(values, values.front()) != static_cast<std::ptrdiff_t>(values.size()))
        throw InputError("argument {} changes with the problem and is no dim", a);
    }
    list.push_back(std::move(model));
  }
  return list;
}

void place_arguments(ArgumentList& list, std::size_t index, ArgsLayout& layout) {
  for (std::size_t a = 0; a < list.size(); ++a) {
    ArgumentModel& argument = list[a];
    if (argument.is_member) continue;
    const auto workspace = std::ranges::find_if(layout.fields, &ExportedField::workspace);
    if (argument.is_workspace && workspace != layout.fields.end()) {
      argument.offset = workspace->field.offset;
      continue;
    }
    const std::string name = fmt::format("stage{}.argument{}", index, a);
    layout.bytes = (layout.bytes + 7) / 8 * 8;
    argument.offset = layout.bytes;
    if (argument.is_workspace) {
      append(layout, name, 8, "pointer").workspace = true;
    } else if (!argument.dim.empty()) {
      append(layout, name, argument.bytes, argument.bytes == 8 ? "long long" : "int").dim = argument.dim;
    } else {  // JSON's numbers have no 64 bits: two halves, the low one first
      append_half(layout, name, argument.value);
      if (argument.bytes > 4) append_half(layout, name + ".high", argument.value >> 32);
    }
  }
  layout.bytes = (layout.bytes + 7) / 8 * 8;
}

}  // namespace warptune
