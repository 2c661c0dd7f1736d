// The args struct of a plan, filled by the names of its members.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "warptune/args_layout.h"

namespace warptune {

/// The args struct of a plan, filled by the names of its members. It starts with the plan's numbers; pointers
/// to tensors and members that are `required` must be set.
class Args {
 public:
  /// `dims`: the values that Field::dim counts. The layout must outlive the args.
  Args(const ArgsLayout& layout, const std::vector<std::int64_t>& dims, bool needs_workspace)
      : layout_(&layout), bytes_((layout.bytes() + 7) / 8), is_missing_(layout.fields().size()) {
    for (std::size_t i = 0; i < is_missing_.size(); ++i) {
      const Field& f = layout.fields()[i];
      is_missing_[i] = !f.tensor.empty() || f.is_required || (f.is_workspace && needs_workspace);
      if (f.is_real())
        put_real(f, f.real);
      else
        put_whole(f, f.dim ? dims.at(*f.dim) : f.whole);
    }
  }

  /// A pointer, or its address as a number (CUdeviceptr); an integer; a real number.
  template <class T>
  Args& set(std::string_view name, T value) {
    return set_at(index(name), value);
  }
  /// The same by index(name), for programs that set the same members again and again.
  template <class T>
  Args& set_at(std::size_t i, T value) {
    if (i >= is_missing_.size())
      throw Error("the args have " + std::to_string(is_missing_.size()) + " members, and none of index " +
                  std::to_string(i));
    const Field& f = layout_->fields()[i];
    if constexpr (std::is_pointer_v<T>) {
      if (f.type != Field::Type::pointer) throw Error("'" + f.name + "' is a number, not a pointer");
      put(f, reinterpret_cast<std::uintptr_t>(value));
    } else if constexpr (std::is_same_v<T, std::nullptr_t>) {
      if (f.type != Field::Type::pointer) throw Error("'" + f.name + "' is a number, not a pointer");
      put(f, std::uintptr_t{0});
    } else {
      static_assert(std::is_arithmetic_v<T>, "args hold pointers and numbers");
      if (f.is_real())
        put_real(f, static_cast<double>(value));
      else if constexpr (std::is_floating_point_v<T>)
        throw Error("'" + f.name + "' is no real number");
      else if (f.type == Field::Type::int32 && value > T{} &&
               static_cast<std::uint64_t>(value) > std::numeric_limits<std::uint32_t>::max())
        fail_to_fit(f, std::to_string(value));
      else
        put_whole(f, static_cast<std::int64_t>(value));
    }
    is_missing_[i] = false;
    return *this;
  }
  /// All pointers into a tensor, from the address of its begin.
  Args& set_tensor(std::string_view tensor, const void* begin) {
    bool is_known = false;
    for (std::size_t i = 0; i < is_missing_.size(); ++i) {
      const Field& f = layout_->fields()[i];
      if (f.tensor != tensor || tensor.empty()) continue;
      put(f, reinterpret_cast<std::uintptr_t>(begin) + static_cast<std::uintptr_t>(f.tensor_offset));
      is_missing_[i] = false;
      is_known = true;
    }
    if (!is_known) throw Error("no member of the args points to a tensor '" + std::string(tensor) + "'");
    return *this;
  }

  /// The index of a member in ArgsLayout::fields().
  std::size_t index(std::string_view name) const { return layout_->index(name); }
  const ArgsLayout& layout() const { return *layout_; }
  const void* data() const { return bytes_.data(); }
  /// An integer or an address.
  std::int64_t whole(std::string_view name) const { return whole_at(index(name)); }
  std::int64_t whole_at(std::size_t i) const {
    const Field& f = layout_->fields().at(i);
    const auto* at = reinterpret_cast<const unsigned char*>(bytes_.data()) + f.offset;
    if (f.size() == sizeof(std::int64_t)) {
      std::int64_t value = 0;
      std::memcpy(&value, at, sizeof value);
      return value;
    }
    std::int32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  /// The name of a member that must be set and is not; empty if there is none.
  std::string missing() const {
    for (std::size_t i = 0; i < is_missing_.size(); ++i)
      if (is_missing_[i]) return layout_->fields()[i].name;
    return {};
  }

 private:
  template <class T>
  void put(const Field& f, T value) {
    std::memcpy(reinterpret_cast<unsigned char*>(bytes_.data()) + f.offset, &value, sizeof value);
  }
  void put_real(const Field& f, double value) {
    if (f.type == Field::Type::float64) return put(f, value);
    if (!detail::fits_float(value)) fail_to_fit(f, std::to_string(value));
    put(f, static_cast<float>(value));
  }
  void put_whole(const Field& f, std::int64_t value) {
    if (f.type != Field::Type::int32) return put(f, value);
    if (value < std::numeric_limits<std::int32_t>::min() || value > std::numeric_limits<std::uint32_t>::max())
      fail_to_fit(f, std::to_string(value));
    put(f, static_cast<std::uint32_t>(value));
  }
  [[noreturn]] static void fail_to_fit(const Field& f, const std::string& value) {
    throw Error("'" + f.name + "' has 32 bits; " + value + " does not fit");
  }

  const ArgsLayout* layout_;
  std::vector<std::uint64_t> bytes_;  // aligned as every member needs it
  std::vector<bool> is_missing_;
};

}  // namespace warptune
