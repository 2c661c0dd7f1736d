// How another program fills an op's args struct: offsets, and where each value comes from.

#include <algorithm>
#include <cstring>

#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/export/launch_model.h"

namespace warptune {
namespace {

constexpr int kMarkerShift = 44;  // no tensor is larger than 2^44 bytes

/// Whether a number of the args is the value of a dim in all of these problems.
bool follows(const std::string& dim, const ArgsField& field, const std::vector<Problem>& problems,
             const std::vector<MarkedArgs>& args) {
  for (std::size_t i = 0; i < problems.size(); ++i)
    if (args[i].whole(field) != problems[i][dim]) return false;
  return true;
}

}  // namespace

MarkedArgs::MarkedArgs(const Op& op, const Problem& problem) : tensors_(op.tensors(problem, 1)) {
  if (op.fields.empty()) throw InputError("op '{}' does not describe its args struct", op.name);
  std::vector<void*> markers;
  for (std::size_t i = 0; i <= tensors_.size(); ++i)
    markers.push_back(reinterpret_cast<void*>((i + 1) << kMarkerShift));
  const Args args = op.bind(problem, std::span(markers).first(tensors_.size()), markers.back());
  const auto* data = static_cast<const std::byte*>(args.data());
  bytes_.assign(data, data + args.size());
  std::size_t described = 0;
  for (const ArgsField& field : op.fields) {
    const std::size_t end = field.offset + field.bytes;
    if (end > bytes_.size()) continue;
    if (contains(fields_, field.offset, &ArgsField::offset)) continue;  // other name
    fields_.push_back(field);
    described = std::max(described, end);
  }
  if (bytes_.size() - described >= 8)  // more than padding
    throw InputError("op '{}' does not describe all members of the args of {}", op.name, problem.key());
}

std::int64_t MarkedArgs::whole(const ArgsField& field) const {
  if (field.bytes == 8) {
    std::int64_t value = 0;
    std::memcpy(&value, bytes_.data() + field.offset, sizeof value);
    return value;
  }
  std::int32_t value = 0;
  std::memcpy(&value, bytes_.data() + field.offset, sizeof value);
  return value;
}

double MarkedArgs::real(const ArgsField& field) const {
  if (field.bytes == 8) {
    double value = 0;
    std::memcpy(&value, bytes_.data() + field.offset, sizeof value);
    return value;
  }
  float value = 0;
  std::memcpy(&value, bytes_.data() + field.offset, sizeof value);
  return value;
}

std::optional<std::size_t> MarkedArgs::tensor_of(std::int64_t address) const {
  const std::int64_t marker = address >> kMarkerShift;
  if (marker < 1) return std::nullopt;
  return static_cast<std::size_t>(marker - 1);
}

std::int64_t MarkedArgs::offset_in_tensor(std::int64_t address) const {
  return address & ((std::int64_t{1} << kMarkerShift) - 1);
}

ArgsLayout args_layout(const Op& op, const Problem& problem, const std::vector<Problem>& varied) {
  std::vector<Problem> problems = {problem};
  problems.insert(problems.end(), varied.begin(), varied.end());
  std::vector<MarkedArgs> args;
  for (const Problem& p : problems) args.emplace_back(op, p);
  const MarkedArgs& first = args.front();
  ArgsLayout layout{.bytes = first.bytes().size()};
  for (const ArgsField& field : first.fields()) {
    ExportedField exported{.field = field};
    if (field.is_pointer()) {
      const std::int64_t address = first.whole(field);
      const auto tensor = first.tensor_of(address);
      if (!tensor) {
        exported.value = 0;
      } else if (*tensor == first.tensors().size()) {
        exported.workspace = true;
      } else {
        exported.tensor = first.tensors()[*tensor].name;
        exported.tensor_offset = first.offset_in_tensor(address);
      }
    } else if (field.is_real()) {
      const auto same = [&](const MarkedArgs& a) { return a.real(field) == first.real(field); };
      exported.required = !std::ranges::all_of(args, same);
      if (!exported.required) exported.value = first.real(field);
    } else {
      for (const Dim& dim : op.dims)
        if (dim.role == DimRole::work && dim.name == field.name && follows(dim.name, field, problems, args))
          exported.dim = dim.name;
      const auto same = [&](const MarkedArgs& a) { return a.whole(field) == first.whole(field); };
      if (exported.dim.empty() && std::ranges::all_of(args, same))
        exported.value = static_cast<double>(first.whole(field));
      exported.required = exported.dim.empty() && !exported.value;
    }
    layout.fields.push_back(std::move(exported));
  }
  return layout;
}

}  // namespace warptune
