#include "launcher.h"

#include <utility>

namespace warptune {
namespace {

/// Lets this thread load modules and allocate while a stream is captured: neither becomes part of the graph.
class RelaxedCapture {
 public:
  RelaxedCapture() { exchange(); }
  ~RelaxedCapture() { cuThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void exchange() { check(cuThreadExchangeStreamCaptureMode(&mode_), "cuThreadExchangeStreamCaptureMode"); }
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

Plan load(Folder& folder, const std::string& problem) {
  folder.find(problem);  // a problem that no plan serves is the same error with and without a driver
  const RelaxedCapture relaxed;
  return folder.load(problem);
}

}  // namespace

Launcher::Launcher(std::shared_ptr<Folder> folder, const std::string& problem, std::vector<std::string> names,
                   const std::map<std::string, std::int64_t>& constants, bool pdl)
    : folder_(std::move(folder)),
      plan_(load(*folder_, problem)),
      args_(plan_.args()),
      workspace_bytes_(plan_.workspace_bytes()),
      pdl_(pdl) {
  for (const auto& [name, value] : constants) args_.set(name, value);
  Args filled = args_;  // finds what nobody sets, before the first launch
  for (const std::string& name : names) {
    members_.push_back(args_.index(name));
    filled.set_at(members_.back(), 0);
  }
  if (workspace_bytes_ > 0) {
    workspace_member_ = entry().args.workspace().value();  // an entry with a workspace has a member for it
    filled.set_at(workspace_member_, 0);
  }
  if (const std::string missing = filled.missing(); !missing.empty())
    throw Error(entry().problem + " also needs '" + missing + "'");
}

void Launcher::launch(std::uintptr_t stream) {
  if (workspace_bytes_ > 0) {
    auto it = workspaces_.find(stream);
    if (it == workspaces_.end()) {
      const RelaxedCapture relaxed;
      it = workspaces_.emplace(stream, Workspace(workspace_bytes_)).first;
    }
    args_.set_at(workspace_member_, it->second.data());
  }
  plan_.launch(args_, reinterpret_cast<CUstream>(stream), pdl_);
}

void set_pointer(Launcher& launcher, std::size_t i, long long address) {
  constexpr long long kAlignment = 16;
  if (address % kAlignment != 0)
    throw Error("'" + launcher.name(i) +
                "' begins at an address that is no multiple of 16 bytes; a copy of it does");
  launcher.set(i, address);
}

}  // namespace warptune
