#pragma once
// The arguments of one launch of a kernel from a file, as it gets them.
#include <cstring>
#include <vector>

#include "harness/core/variant.h"

namespace warptune {

/// The addresses of the arguments. `args`, the op's struct, `workspace` and `arguments` must outlive it.
class ArgumentValues {
 public:
  ArgumentValues(const std::vector<KernelArgument>& arguments, const void* args, void* const& workspace) {
    structures_.reserve(arguments.size());  // the addresses stay
    for (const KernelArgument& a : arguments) {
      if (a.kind == KernelArgument::Kind::structure) {
        structures_.emplace_back(a.bytes);
        put(a, args, workspace, structures_.back().data());
      }
      addresses_.push_back(const_cast<void*>(a.kind == KernelArgument::Kind::structure
                                                 ? structures_.back().data()
                                                 : source(a, args, workspace)));
    }
  }
  const std::vector<void*>& addresses() const { return addresses_; }

 private:
  static const void* source(const KernelArgument& a, const void* args, void* const& workspace) {
    const void* const sources[] = {static_cast<const std::byte*>(args) + a.offset, a.value.data(),
                                   &workspace};
    return sources[static_cast<std::size_t>(a.kind)];
  }
  static void put(const KernelArgument& a, const void* args, void* const& workspace, std::byte* to) {
    if (a.kind != KernelArgument::Kind::structure) {
      std::memcpy(to, source(a, args, workspace), a.bytes);
      return;
    }
    for (const KernelArgument& member : a.members) put(member, args, workspace, to + member.place);
  }

  std::vector<std::vector<std::byte>> structures_;
  std::vector<void*> addresses_;
};

}  // namespace warptune
