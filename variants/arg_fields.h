#pragma once
// The layout of args structs: their members by name, for programs that fill them without args.h.
#include <concepts>
#include <type_traits>

#include "harness/core/op.h"

namespace warptune {

/// A struct inside of the args has no type of its own: only the offset of its entry counts.
template <class Member>
constexpr ArgField::Type arg_type() {
  if constexpr (std::same_as<Member, float>) return ArgField::Type::float32;
  if constexpr (std::integral<Member>) {
    static_assert(sizeof(Member) == 4 || sizeof(Member) == 8);
    return sizeof(Member) == 4 ? ArgField::Type::int32 : ArgField::Type::int64;
  }
  static_assert(!std::same_as<Member, double>, "ArgField::Type has no entry for it");
  return ArgField::Type::pointer;
}

/// A member of Struct or of one of its bases. offsetof() is not defined for structs with members in both.
template <class Struct, class Base, class Member>
ArgField arg_field(std::string name, Member Base::*member) {
  const Struct args{};
  const auto *begin = reinterpret_cast<const std::byte*>(&args),
             *at = reinterpret_cast<const std::byte*>(&(args.*member));
  return {std::move(name), static_cast<std::size_t>(at - begin), arg_type<Member>()};
}

}  // namespace warptune

/// The entry of a member in Op::fields.
#define WARPTUNE_ARG(Struct, member) ::warptune::arg_field<Struct>(#member, &Struct::member)
