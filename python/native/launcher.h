// A plan that is prepared for calls from Python: the args struct is filled once, and a call only writes what
// changes.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "warptune/launch.h"

namespace warptune {

class Launcher {
 public:
  /// `names`: the members of the args that each call sets, in this order. `constants`: members that keep
  /// their value. A CUDA context is current.
  Launcher(std::shared_ptr<Folder> folder, const std::string& problem, std::vector<std::string> names,
           const std::map<std::string, std::int64_t>& constants, bool pdl);
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  std::size_t size() const { return members_.size(); }
  bool is_pointer(std::size_t i) const { return field(i).type == Field::Type::pointer; }
  /// The value of the i-th name.
  template <class T>
  void set(std::size_t i, T value) {
    args_.set_at(members_[i], value);
  }
  /// Enqueues the kernels with the values that are set. The workspace is one of this plan on this stream.
  void launch(std::uintptr_t stream);

  const Entry& entry() const { return plan_.entry(); }
  const std::string& name(std::size_t i) const { return field(i).name; }

 private:
  const Field& field(std::size_t i) const { return entry().args.fields()[members_[i]]; }

  std::shared_ptr<Folder> folder_;  // has the entry
  Plan plan_;
  Args args_;
  std::vector<std::size_t> members_;
  std::size_t workspace_member_ = 0, workspace_bytes_;
  std::map<std::uintptr_t, Workspace> workspaces_;
  bool pdl_;
};

/// Sets a pointer. Kernels read vectors of 16 bytes: another alignment is an Error.
void set_pointer(Launcher& launcher, std::size_t i, long long address);

}  // namespace warptune
