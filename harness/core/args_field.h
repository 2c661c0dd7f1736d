#pragma once
// An op's args.h struct: its members by name, and what fills each of them.
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/core/error.h"
#include "harness/core/problem.h"
#include "harness/core/tensor.h"

namespace warptune {

/// An op's args.h struct by value, type-erased.
class Args {
 public:
  Args() = default;
  template <class T>
  explicit Args(const T& value) : bytes_(sizeof(T)) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::memcpy(bytes_.data(), &value, sizeof(T));
  }
  /// The bytes of a struct that no header declares.
  explicit Args(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  const void* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
};

/// What members are filled from.
struct ArgsSource {
  const Problem& problem;
  std::span<const TensorSpec> specs;
  std::span<void* const> addresses;  // one per tensor
  void* workspace;

  /// The address of a tensor; null where the problem lacks it.
  void* tensor(std::string_view name) const;
};

/// A member of an op's args.h struct. Kernels from a file (harness/custom) and other programs
/// (harness/export) take and fill members by name.
struct ArgsField {
  std::string name;
  std::size_t offset = 0, bytes = 0;
  std::string_view type;  // "pointer", or a number: "int", "unsigned", "size_t", "float", "half", ...
  std::size_t struct_bytes = 0;
  /// Writes the member of the struct at `args`, which is zero before.
  std::function<void(const ArgsSource&, std::byte* args)> fill = {};

  bool is_pointer() const { return type == "pointer"; }
  bool is_real() const { return type == "float" || type == "double" || type == "half"; }
};

/// `value` as the type of a member. Throws InputError for an integer that the type cannot hold.
template <class Member, class Value>
Member member_value(const std::string& name, Value value) {
  if constexpr (std::is_integral_v<Member> && std::is_integral_v<Value>)
    if (!std::in_range<Member>(value))
      throw InputError("argument '" + name + "' is " + std::to_string(value) +
                       ", which its type cannot hold");
  return static_cast<Member>(value);
}

/// The field of a member: field("scale", &AttentionDecodeArgs::scale, scale_of). `value`: a number, or a
/// function of the problem or of the ArgsSource. Base classes of a struct lie at its beginning.
template <class Struct, class Member, class Value>
ArgsField field(std::string name, Member Struct::*member, Value value) {
  static_assert(std::is_arithmetic_v<Member> || std::is_pointer_v<Member>);
  const Struct object{};
  const auto offset =
      reinterpret_cast<const std::byte*>(&(object.*member)) - reinterpret_cast<const std::byte*>(&object);
  std::string_view type = "pointer";
  if (std::is_same_v<Member, int>) type = "int";
  if (std::is_same_v<Member, unsigned>) type = "unsigned";
  if (std::is_same_v<Member, long long>) type = "long long";
  if (std::is_same_v<Member, float>) type = "float";
  if (std::is_same_v<Member, double>) type = "double";
  const auto fill = [=](const ArgsSource& source, std::byte* args) {
    const auto computed = [&] {
      if constexpr (std::is_invocable_v<Value, const ArgsSource&>)
        return value(source);
      else if constexpr (std::is_invocable_v<Value, const Problem&>)
        return value(source.problem);
      else
        return value;
    }();
    const auto filled = member_value<Member>(name, computed);
    // A null pointer stays: a member may have several names, and a problem only one of these tensors.
    if (filled != Member{}) std::memcpy(args + offset, static_cast<const void*>(&filled), sizeof filled);
  };
  return {name, static_cast<std::size_t>(offset), sizeof(Member), type, sizeof(Struct), fill};
}
/// The field of a pointer to the tensor of its name or to the workspace, or of a number, the dim of its name:
/// field("x", &RmsNormArgs::x).
template <class Struct, class Member>
ArgsField field(std::string name, Member Struct::*member) {
  return field(name, member, [name](const ArgsSource& source) {
    if constexpr (std::is_pointer_v<Member>)
      return name == "workspace" ? source.workspace : source.tensor(name);
    else
      return source.problem[name];
  });
}
/// The field of a member of a struct inside, which `value` gives for a problem:
/// field("k_strides.row", &StridedArgs::k_strides, &KvStrides::row, k_strides).
template <class Struct, class Inner, class Member, class Value>
ArgsField field(std::string name, Inner Struct::*outer, Member Inner::*member, Value value) {
  const Struct object{};
  const auto offset =
      reinterpret_cast<const std::byte*>(&(object.*outer)) - reinterpret_cast<const std::byte*>(&object);
  ArgsField inner = field(std::move(name), member, [=](const Problem& p) { return value(p).*member; });
  inner.offset += static_cast<std::size_t>(offset);
  inner.struct_bytes = sizeof(Struct);
  inner.fill = [=, fill = inner.fill](const ArgsSource& source, std::byte* args) {
    fill(source, args + offset);
  };
  return inner;
}

}  // namespace warptune
