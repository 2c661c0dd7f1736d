// The args struct of a plan, filled by the names of its members.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "warptune/detail/json.h"

namespace warptune {

/// A member of an args struct.
struct Field {
  enum class Type { pointer, int32, int64, float32, float64 };
  std::string name;
  Type type;
  std::size_t offset;
  std::string tensor;  // a pointer: the tensor that it points into, tensor_offset bytes behind its begin
  std::int64_t tensor_offset;
  bool is_workspace;
  std::string dim;  // a number: it is the value of this dim
  double value;     // the default of a number
  bool is_required;
};

/// The args struct of a plan, filled by the names of its members. It starts with the plan's numbers; pointers
/// to tensors and members that are `required` must be set.
class Args {
 public:
  Args(const std::vector<Field>& fields, std::size_t bytes, const std::map<std::string, std::int64_t>& dims,
       bool needs_workspace)
      : fields_(&fields), bytes_((bytes + 7) / 8), is_missing_(fields.size()) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const Field& f = fields[i];
      is_missing_[i] = !f.tensor.empty() || f.is_required || (f.is_workspace && needs_workspace);
      if (is_real(f))
        put_real(f, f.value);
      else if (!f.dim.empty())
        put_whole(f, dims.at(f.dim));
      else
        put_whole(f, static_cast<std::int64_t>(f.value));
    }
  }

  /// A pointer, or its address as a number (CUdeviceptr); a whole number; a real number.
  template <class T>
  Args& set(std::string_view name, T value) {
    return set_at(index(name), value);
  }
  /// The same by index(name), for programs that set the same members again and again.
  template <class T>
  Args& set_at(std::size_t i, T value) {
    const Field& f = (*fields_)[i];
    if constexpr (std::is_pointer_v<T>) {
      if (f.type != Field::Type::pointer) throw Error("'" + f.name + "' is a number, not a pointer");
      put(f, reinterpret_cast<std::uintptr_t>(value));
    } else if constexpr (std::is_same_v<T, std::nullptr_t>) {
      put(f, std::uintptr_t{0});
    } else {
      static_assert(std::is_arithmetic_v<T>, "args hold pointers and numbers");
      if (is_real(f))
        put_real(f, static_cast<double>(value));
      else if constexpr (std::is_floating_point_v<T>)
        throw Error("'" + f.name + "' is no real number");
      else
        put_whole(f, static_cast<std::int64_t>(value));
    }
    is_missing_[i] = false;
    return *this;
  }
  /// All pointers into a tensor, from the address of its begin.
  Args& set_tensor(std::string_view tensor, const void* begin) {
    bool is_known = false;
    for (std::size_t i = 0; i < fields_->size(); ++i) {
      const Field& f = (*fields_)[i];
      if (f.tensor != tensor) continue;
      put(f, reinterpret_cast<std::uintptr_t>(begin) + static_cast<std::uintptr_t>(f.tensor_offset));
      is_missing_[i] = false;
      is_known = true;
    }
    if (!is_known) throw Error("no member of the args points to a tensor '" + std::string(tensor) + "'");
    return *this;
  }

  /// The index of a member in Entry::fields.
  std::size_t index(std::string_view name) const {
    for (std::size_t i = 0; i < fields_->size(); ++i)
      if ((*fields_)[i].name == name) return i;
    std::string known;
    for (const Field& f : *fields_) known += (known.empty() ? "" : ", ") + f.name;
    throw Error("the args have no member '" + std::string(name) + "'; they have " + known);
  }
  const void* data() const { return bytes_.data(); }
  /// A whole number or an address.
  std::int64_t whole(std::string_view name) const { return get((*fields_)[index(name)]); }
  /// The name of a member that must be set and is not; empty if there is none.
  std::string missing() const {
    for (std::size_t i = 0; i < fields_->size(); ++i)
      if (is_missing_[i]) return (*fields_)[i].name;
    return {};
  }

 private:
  template <class T>
  void put(const Field& f, T value) {
    std::memcpy(reinterpret_cast<unsigned char*>(bytes_.data()) + f.offset, &value, sizeof value);
  }
  static bool is_real(const Field& f) {
    return f.type == Field::Type::float32 || f.type == Field::Type::float64;
  }
  void put_real(const Field& f, double value) {
    if (f.type == Field::Type::float64) return put(f, value);
    put(f, static_cast<float>(value));
  }
  void put_whole(const Field& f, std::int64_t value) {
    if (f.type != Field::Type::int32) return put(f, value);
    if (value < std::numeric_limits<std::int32_t>::min() || value > std::numeric_limits<std::uint32_t>::max())
      throw Error("'" + f.name + "' has 32 bits; " + std::to_string(value) + " does not fit");
    put(f, static_cast<std::int32_t>(value));
  }
  std::int64_t get(const Field& f) const {
    const unsigned char* at = reinterpret_cast<const unsigned char*>(bytes_.data()) + f.offset;
    std::int64_t wide = 0;
    std::int32_t narrow = 0;
    const bool is_narrow = f.type == Field::Type::int32;
    std::memcpy(is_narrow ? static_cast<void*>(&narrow) : static_cast<void*>(&wide), at, is_narrow ? 4 : 8);
    return is_narrow ? narrow : wide;
  }

  const std::vector<Field>* fields_;
  std::vector<std::uint64_t> bytes_;  // aligned as every member needs it
  std::vector<bool> is_missing_;
};

}  // namespace warptune
