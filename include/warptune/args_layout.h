// The members of an args struct, as warptune.json describes them.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "warptune/detail/json.h"

namespace warptune {

/// The values of a dim that a plan serves, from the first to the last.
struct Range {
  std::int64_t from, to;
};
/// By the names of dims. A dim's index is its place here.
using Ranges = std::map<std::string, Range>;

/// A member of an args struct.
struct Field {
  enum class Type { pointer, int32, int64, float32, float64 };
  std::string name;
  Type type = Type::pointer;
  std::size_t offset = 0;
  std::string tensor;  // a pointer: the tensor that it points into, tensor_offset bytes from its begin
  std::int64_t tensor_offset = 0;
  bool is_workspace = false, is_required = false;
  std::optional<std::size_t> dim;  // a number: it is the value of the dim with this index
  std::int64_t whole = 0;          // the default of an integer
  double real = 0;                 // the default of a real number

  bool is_real() const { return type == Type::float32 || type == Type::float64; }
  std::size_t size() const { return type == Type::int32 || type == Type::float32 ? 4 : 8; }
};

namespace detail {

/// False for a finite number that becomes infinite with 32 bits.
inline bool fits_float(double value) {
  return !std::isfinite(value) || std::isfinite(static_cast<float>(value));
}

/// The index of the dim that a text names.
inline std::size_t index_of(const Ranges& ranges, const Json& name) {
  const auto range = ranges.find(name.text());
  if (range == ranges.end())
    throw Error("'" + name.name() + "' is '" + name.text() + "', which is no dim of 'ranges'");
  return static_cast<std::size_t>(std::distance(ranges.begin(), range));
}

}  // namespace detail

/// The members of the args struct of a plan. Each lies inside of the struct, and no two overlap.
class ArgsLayout {
 public:
  ArgsLayout(const detail::Json& json, const Ranges& ranges) {
    constexpr std::int64_t kMaxBytes = 32764;  // of all parameters of a kernel
    bytes_ = static_cast<std::size_t>(json["bytes"].whole(0, kMaxBytes));
    for (const detail::Json& field : json["fields"].list())
      fields_.push_back(detail::within(field.name(), [&] { return field_of(field, ranges, bytes_); }));
    expect_distinct();
  }

  std::size_t bytes() const { return bytes_; }
  const std::vector<Field>& fields() const { return fields_; }
  std::size_t index(std::string_view name) const {
    for (std::size_t i = 0; i < fields_.size(); ++i)
      if (fields_[i].name == name) return i;
    std::string known;
    for (const Field& f : fields_) known += (known.empty() ? "" : ", ") + f.name;
    throw Error("the args have no member '" + std::string(name) + "'; they have " + known);
  }
  /// The index of the pointer to the workspace.
  std::optional<std::size_t> workspace() const {
    for (std::size_t i = 0; i < fields_.size(); ++i)
      if (fields_[i].is_workspace) return i;
    return std::nullopt;
  }

 private:
  static Field::Type type_of(const detail::Json& json) {
    const std::string& type = json.text();
    if (type == "pointer") return Field::Type::pointer;
    if (type == "int32") return Field::Type::int32;
    if (type == "int64") return Field::Type::int64;
    if (type == "float32") return Field::Type::float32;
    if (type == "float64") return Field::Type::float64;
    throw Error("'type' is '" + type + "'; it must be pointer, int32, int64, float32 or float64");
  }

  static Field field_of(const detail::Json& json, const Ranges& ranges, std::size_t struct_bytes) {
    Field field;
    field.name = json["name"].text();
    field.type = type_of(json["type"]);
    const auto size = static_cast<std::int64_t>(field.size());
    json["size"].whole(size, size);
    const std::int64_t last = static_cast<std::int64_t>(struct_bytes) - size;
    if (last < 0) throw Error("'" + field.name + "' is larger than the struct");
    field.offset = static_cast<std::size_t>(json["offset"].whole(0, last));
    read_content(json, ranges, field);
    return field;
  }

  /// Exactly one key says what a member holds.
  static void read_content(const detail::Json& json, const Ranges& ranges, Field& field) {
    constexpr std::string_view kKeys[] = {"tensor", "workspace", "dim", "value", "required"};
    const auto count = std::count_if(std::begin(kKeys), std::end(kKeys),
                                     [&](std::string_view key) { return json.find(key); });
    if (count != 1)
      throw Error("'" + field.name +
                  "' must have one of tensor, workspace, dim, value and required, and has " +
                  std::to_string(count));
    const bool is_pointer = field.type == Field::Type::pointer;
    const auto expect_type = [&](bool fits, const char* key) {
      if (!fits) throw Error("'" + field.name + "' has '" + key + "', which is not for its type");
    };
    if (const detail::Json* tensor = json.find("tensor")) {
      expect_type(is_pointer, "tensor");
      field.tensor = tensor->text();
    } else if (const detail::Json* workspace = json.find("workspace")) {
      expect_type(is_pointer && workspace->boolean(), "workspace");
      field.is_workspace = true;
    } else if (const detail::Json* dim = json.find("dim")) {
      expect_type(!is_pointer && !field.is_real(), "dim");
      field.dim = detail::index_of(ranges, *dim);
      if (field.size() == 4 && ranges.at(dim->text()).to > std::numeric_limits<std::uint32_t>::max())
        throw Error("'" + field.name + "' has 32 bits; the values of the dim do not fit");
    } else if (const detail::Json* value = json.find("value")) {
      read_default(*value, field);
    } else {
      expect_type(!is_pointer && json["required"].boolean(), "required");
      field.is_required = true;
    }
    if (const detail::Json* offset = json.find("tensor_offset")) {
      expect_type(!field.tensor.empty(), "tensor_offset");
      field.tensor_offset = offset->whole(0, std::numeric_limits<std::int64_t>::max());
    }
  }

  static void read_default(const detail::Json& value, Field& field) {
    using Wide = std::numeric_limits<std::int64_t>;
    switch (field.type) {
      case Field::Type::pointer:
        value.whole(0, 0);
        break;
      case Field::Type::int32:
        field.whole =
            value.whole(std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::uint32_t>::max());
        break;
      case Field::Type::int64:
        field.whole = value.whole(Wide::min(), Wide::max());
        break;
      case Field::Type::float32:
      case Field::Type::float64:
        field.real = value.real();
        if (field.type == Field::Type::float32 && !detail::fits_float(field.real))
          throw Error("'" + field.name + "' has 32 bits; its value does not fit");
        break;
    }
  }

  void expect_distinct() const {
    std::set<std::string_view> names;
    std::map<std::size_t, const Field*> by_offset;
    for (const Field& f : fields_) {
      if (!names.insert(f.name).second) throw Error("two members are named '" + f.name + "'");
      const auto [place, is_new] = by_offset.emplace(f.offset, &f);
      const auto next = std::next(place);
      if (!is_new || (next != by_offset.end() && f.offset + f.size() > next->first))
        throw Error("'" + f.name + "' overlaps another member");
      if (place != by_offset.begin() && std::prev(place)->first + std::prev(place)->second->size() > f.offset)
        throw Error("'" + f.name + "' overlaps '" + std::prev(place)->second->name + "'");
    }
    if (std::count_if(fields_.begin(), fields_.end(), [](const Field& f) { return f.is_workspace; }) > 1)
      throw Error("two members are the workspace");
  }

  std::size_t bytes_ = 0;
  std::vector<Field> fields_;
};

}  // namespace warptune
