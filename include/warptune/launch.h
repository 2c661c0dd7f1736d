// Launches the kernels that `warptune export` wrote. C++17; needs the CUDA driver API (link libcuda) and no
// other part of warptune.
//
//   warptune::Folder folder("winners");
//   warptune::Plan plan = folder.load("rms_norm[tokens=4,hidden=4096,dtype=bf16]");  // a context is current
//   warptune::Args args = plan.args();
//   args.set("x", x).set("weight", weight).set("y", y);
//   plan.launch(args, stream);
//
// The folder is foreign data: the constructor checks all of warptune.json, and a mistake in it is an Error.
// find() and load() take time and are for one thread at a time. launch() is for any thread, allocates nothing
// on the device and can be captured in a CUDA graph. docs/export.md describes the folder.
#pragma once
#include <cuda.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "warptune/args.h"
#include "warptune/detail/files.h"
#include "warptune/detail/json.h"
#include "warptune/detail/kernel.h"
#include "warptune/entry.h"
#include "warptune/problem.h"

namespace warptune {

/// Zeroed device memory for the workspace of a plan. Two launches that may run at the same time need one
/// each. Kernels leave it as they found it: it is zeroed once.
class Workspace {
 public:
  explicit Workspace(std::size_t bytes) {
    if (bytes == 0) return;
    check(cuMemAlloc(&address_, bytes), "cuMemAlloc of " + std::to_string(bytes) + " bytes");
    check(cuMemsetD8(address_, 0, bytes), "cuMemsetD8");
    check(cuStreamSynchronize(nullptr), "cuStreamSynchronize");
  }
  Workspace(Workspace&& other) noexcept : address_(std::exchange(other.address_, 0)) {}
  Workspace& operator=(Workspace&& other) noexcept {
    std::swap(address_, other.address_);
    return *this;
  }
  ~Workspace() {
    if (address_) cuMemFree(address_);
  }
  void* data() const { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address_)); }

 private:
  CUdeviceptr address_ = 0;
};

/// The kernels of an entry for one problem, in the context that was current at Folder::load(). The folder
/// must outlive it.
class Plan {
 public:
  const Entry& entry() const { return *entry_; }
  /// Bytes of the workspace; 0: there is none. Set it as the member that Field::is_workspace marks.
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  Args args() const { return Args(entry_->args, dims_, workspace_bytes_ > 0); }

  /// Enqueues the kernels. `pdl`: a kernel may start before the one ahead of it in the stream has ended; it
  /// waits for that one itself before it touches what changes from launch to launch. Weights, lengths and
  /// tables may be read earlier: the kernel ahead must not write them.
  void launch(const Args& args, CUstream stream, bool pdl = true) const {
    detail::within(entry_->problem, [&] {
      if (&args.layout() != &entry_->args) throw Error("the args are those of another plan");
      if (const std::string name = args.missing(); !name.empty())
        throw Error("the member '" + name + "' of the args is not set");
      for (const detail::Kernel& kernel : kernels_) kernel.launch(args, stream, pdl);
    });
  }

 private:
  friend class Folder;
  Plan(const Entry& entry, std::vector<std::int64_t> dims, std::vector<detail::Kernel> kernels)
      : entry_(&entry),
        dims_(std::move(dims)),
        workspace_bytes_(entry.workspace_size(dims_)),
        kernels_(std::move(kernels)) {}

  const Entry* entry_;
  std::vector<std::int64_t> dims_;  // in the order of Entry::ranges
  std::size_t workspace_bytes_;
  std::vector<detail::Kernel> kernels_;
};

/// An exported folder. The constructor reads and checks warptune.json; load() reads cubins.
class Folder {
 public:
  explicit Folder(const std::string& path) : path_(path.empty() ? "." : path) {
    const std::filesystem::path file = path_ / "warptune.json";
    constexpr std::uintmax_t kMaxBytes = std::uintmax_t{64} << 20;
    const detail::Json json = detail::Json::parse(detail::read_file(file, kMaxBytes), file.string());
    detail::within(file.string(), [&] { read(json); });
  }
  // Plans hold the addresses of entries.
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& arch() const { return arch_; }
  const std::vector<Entry>& entries() const { return entries_; }

  /// The entry that serves a problem. Throws Error that names the nearest ones if there is none.
  const Entry& find(const std::string& key) const { return find(Problem::parse(key)); }
  const Entry& find(const Problem& problem) const {
    const Dims dims = op_of(problem).complete(problem);
    for (const Entry& entry : entries_)
      if (entry.serves(problem, dims)) return entry;
    throw Error("no exported plan serves " + problem.op + " " + text_of(dims) + " " + problem.dtype +
                nearest(problem, dims));
  }

  /// The plan of a problem, its cubins loaded into the current context.
  Plan load(const std::string& key) { return load(Problem::parse(key)); }
  Plan load(const Problem& problem) {
    const Entry& entry = find(problem);
    const Dims dims = op_of(problem).complete(problem);
    std::vector<std::int64_t> values;
    for (const auto& [name, range] : entry.ranges) values.push_back(Problem::number(name, dims.at(name)));
    return detail::within(entry.problem, [&] {
      check_device();
      std::vector<detail::Kernel> kernels;
      for (const detail::Stage& stage : entry.stages)
        kernels.emplace_back(stage, values, module(stage.cubin));
      return Plan(entry, values, std::move(kernels));
    });
  }

 private:
  using Dims = std::map<std::string, std::string>;

  void read(const detail::Json& json) {
    constexpr std::int64_t kFirstSchema = 1, kLastSchema = 3;
    const std::int64_t schema = json["schema"].whole(0, std::numeric_limits<std::int32_t>::max());
    if (schema < kFirstSchema || schema > kLastSchema)
      throw Error("it has schema " + std::to_string(schema) + "; this header reads " +
                  std::to_string(kFirstSchema) + " to " + std::to_string(kLastSchema));
    read_arch(json["arch"].text());
    for (const detail::Json& op : json["ops"].list()) {
      const Op read = detail::within(op.name(), [&] { return Op(op); });
      if (!ops_.emplace(read.name, read).second) throw Error("there are two ops '" + read.name + "'");
    }
    for (const detail::Json& plan : json["plans"].list())
      detail::within(plan.name(), [&] {
        const std::string& problem = plan["problem"].text();
        detail::within("'" + problem + "'", [&] { entries_.emplace_back(plan, ops_); });
      });
  }

  /// "sm_90a": the compute capability times 10; `a` and `f` are code for that one or for its family.
  void read_arch(const std::string& arch) {
    const std::size_t end = arch.find_first_not_of("0123456789", 3);
    const bool has_suffix =
        end != std::string::npos && end + 1 == arch.size() && (arch[end] == 'a' || arch[end] == 'f');
    const std::size_t digits = (end == std::string::npos ? arch.size() : end) - 3;
    if (arch.compare(0, 3, "sm_") != 0 || digits < 2 || digits > 3 ||
        (end != std::string::npos && !has_suffix))
      throw Error("'arch' is '" + arch + "'; it must be of the form sm_90a");
    arch_ = arch;
  }

  const Op& op_of(const Problem& problem) const {
    const auto op = ops_.find(problem.op);
    if (op != ops_.end()) return op->second;
    std::string known;
    for (const auto& [name, dims] : ops_) known += (known.empty() ? "" : ", ") + name;
    throw Error("the folder has no op '" + problem.op + "'; it has " + known);
  }

  static std::string text_of(const Dims& dims) {
    std::string text;
    for (const auto& [name, value] : dims) text += (text.empty() ? "" : ",") + name + "=" + value;
    return text;
  }

  /// How far an entry is: other shapes and dtypes are farther than other amounts of work.
  static double distance(const Entry& entry, const Problem& problem, const Dims& dims) {
    constexpr double kOtherShape = 100;
    double sum = entry.dtype == problem.dtype ? 0 : kOtherShape;
    for (const auto& [name, value] : entry.dims) sum += dims.at(name) == value ? 0 : kOtherShape;
    for (const auto& [name, range] : entry.ranges) {
      const auto log = [](std::int64_t value) {
        return std::log2(std::max(1.0, static_cast<double>(value)));
      };
      const double value = log(Problem::number(name, dims.at(name)));
      sum += std::max({0.0, log(range.from) - value, value - log(range.to)});
    }
    return sum;
  }

  std::string nearest(const Problem& problem, const Dims& dims) const {
    constexpr std::size_t kNamed = 3;
    std::vector<std::pair<double, const Entry*>> found;
    for (const Entry& entry : entries_)
      if (entry.op == problem.op) found.emplace_back(distance(entry, problem, dims), &entry);
    std::sort(found.begin(), found.end());  // of equal ones the first in the table
    std::string text;
    for (std::size_t i = 0; i < std::min(kNamed, found.size()); ++i)
      text += (i == 0 ? "; the nearest are " : ", ") + found[i].second->covered();
    return text;
  }

  /// Code for sm_90a runs on that architecture alone, code for sm_80 also on later ones of its generation.
  void check_device() const {
    const int major = detail::device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
              minor = detail::device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    const int compiled = std::stoi(arch_.substr(3)), here = 10 * major + minor;
    if (here == compiled || (arch_.back() != 'a' && here / 10 == compiled / 10 && here > compiled)) return;
    throw Error("'" + path_.string() + "' is compiled for " + arch_ + "; this device is sm_" +
                std::to_string(here));
  }

  std::shared_ptr<const detail::Module> module(const std::string& cubin) {
    CUcontext context = nullptr;
    check(cuCtxGetCurrent(&context), "cuCtxGetCurrent");
    auto& module = modules_[{context, cubin}];
    if (!module) module = std::make_shared<const detail::Module>(detail::file_inside(path_, cubin));
    return module;
  }

  std::filesystem::path path_;
  std::string arch_;
  std::map<std::string, Op> ops_;
  std::vector<Entry> entries_;
  std::map<std::pair<CUcontext, std::string>, std::shared_ptr<const detail::Module>> modules_;
};

}  // namespace warptune
