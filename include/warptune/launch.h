// Launches the kernels that `warptune export` wrote. C++17; needs the CUDA driver API (link libcuda) and no
// other part of warptune.
//
//   warptune::Folder folder("winners");
//   warptune::Plan plan = folder.load("rms_norm[tokens=4,hidden=4096,dtype=bf16]");  // a context is current
//   warptune::Args args = plan.args();
//   args.set("x", x).set("weight", weight).set("y", y);
//   plan.launch(args, stream);
//
// find() and load() take time and are for one thread at a time. launch() is for any thread, allocates nothing
// on the device and can be captured in a CUDA graph. docs/export.md describes the folder.
#pragma once
#include <cuda.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "warptune/args.h"
#include "warptune/detail/json.h"
#include "warptune/detail/kernel.h"

namespace warptune {

/// A problem: an op, the values of its dims by name, numbers and labels as text, and a dtype.
struct Problem {
  std::string op, dtype;
  std::map<std::string, std::string> dims;

  /// From "rms_norm[tokens=4,hidden=4096,dtype=bf16]".
  static Problem parse(const std::string& key) {
    const auto open = key.find('[');
    if (open == std::string::npos || key.back() != ']')
      throw Error("'" + key + "' is not of the form OP[DIM=VALUE,..,dtype=DTYPE]");
    Problem problem{key.substr(0, open), {}, {}};
    std::istringstream pairs(key.substr(open + 1, key.size() - open - 2));
    for (std::string pair; std::getline(pairs, pair, ',');) {
      const auto equals = pair.find('=');
      if (equals == std::string::npos) throw Error("'" + pair + "' in '" + key + "' is not DIM=VALUE");
      const std::string name = pair.substr(0, equals), value = pair.substr(equals + 1);
      (name == "dtype" ? problem.dtype : problem.dims[name]) = value;
    }
    if (problem.dtype.empty()) throw Error("'" + key + "' has no dtype");
    return problem;
  }
};

/// A row of the table: a plan, and the problems that it serves.
struct Entry {
  struct Range {
    std::int64_t from, to;
  };
  std::string problem;  // the key of the largest one
  std::string op, dtype, variant;
  std::map<std::string, std::string> dims;  // that must be equal
  std::map<std::string, Range> ranges;
  std::vector<detail::Stage> stages;
  std::size_t args_bytes;
  std::vector<Field> fields;
  detail::Formula workspace_bytes;

  /// "rms_norm[tokens=5..8,hidden=4096,dtype=bf16]"
  std::string covered() const {
    std::string text = op + "[";
    for (const auto& [name, range] : ranges)
      text += name + "=" + (range.from == range.to ? "" : std::to_string(range.from) + "..") +
              std::to_string(range.to) + ",";
    for (const auto& [name, value] : dims) text += name + "=" + value + ",";
    return text + "dtype=" + dtype + "]";
  }
};

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
  Plan(const Entry& entry, std::map<std::string, std::int64_t> dims, std::vector<detail::Kernel> kernels)
      : entry_(&entry), dims_(std::move(dims)), kernels_(std::move(kernels)) {}

  const Entry& entry() const { return *entry_; }
  /// Bytes of the workspace; 0: there is none. Set it as the member that Field::is_workspace marks.
  std::size_t workspace_bytes() const {
    const auto dim = [this](const std::string& name) { return dims_.at(name); };
    return static_cast<std::size_t>(entry_->workspace_bytes.evaluate(dim));
  }
  Args args() const { return Args(entry_->fields, entry_->args_bytes, dims_, workspace_bytes() > 0); }

  /// Enqueues the kernels. `pdl`: a kernel may start before the one ahead of it in the stream has ended; it
  /// waits for that one itself before it touches what changes from launch to launch. Weights, lengths and
  /// tables may be read earlier: the kernel ahead must not write them.
  void launch(const Args& args, CUstream stream, bool pdl = true) const {
    if (const std::string name = args.missing(); !name.empty())
      throw Error(entry_->problem + ": the member '" + name + "' of the args is not set");
    for (const detail::Kernel& kernel : kernels_) kernel.launch(args, stream, pdl);
  }

 private:
  const Entry* entry_;
  std::map<std::string, std::int64_t> dims_;
  std::vector<detail::Kernel> kernels_;
};

/// An exported folder.
class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {
    const std::string file = path_ + "/warptune.json";
    const detail::Json json = detail::Json::parse(detail::read_file(file), file);
    constexpr std::int64_t kSchema = 1;
    if (json["schema"].whole() != kSchema)
      throw Error(file + " has schema " + std::to_string(json["schema"].whole()) + "; this header reads " +
                  std::to_string(kSchema));
    arch_ = json["arch"].text();
    for (const detail::Json& op : json["ops"].items()) ops_[op["name"].text()] = dims_of(op);
    for (const detail::Json& plan : json["plans"].items()) entries_.push_back(entry_of(plan));
  }
  // Plans hold the addresses of entries.
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& arch() const { return arch_; }
  const std::vector<Entry>& entries() const { return entries_; }

  /// The entry that serves a problem. Throws Error that names the nearest ones if there is none.
  const Entry& find(const std::string& key) const { return find(Problem::parse(key)); }
  const Entry& find(const Problem& problem) const {
    const auto dims = complete(problem);
    for (const Entry& entry : entries_)
      if (serves(entry, problem, dims)) return entry;
    throw Error("no exported plan serves " + problem.op + " " + text_of(dims) + " " + problem.dtype +
                nearest(problem, dims));
  }

  /// The plan of a problem, its cubins loaded into the current context.
  Plan load(const std::string& key) { return load(Problem::parse(key)); }
  Plan load(const Problem& problem) {
    const Entry& entry = find(problem);
    check_device();
    std::map<std::string, std::int64_t> values;
    for (const auto& [name, value] : complete(problem))
      if (entry.ranges.count(name)) values[name] = std::stoll(value);
    const auto dim = [&](const std::string& name) { return values.at(name); };
    std::vector<detail::Kernel> kernels;
    for (const detail::Stage& stage : entry.stages) kernels.emplace_back(stage, module(stage.cubin), dim);
    return Plan(entry, values, std::move(kernels));
  }

 private:
  struct Dim {
    std::string name, fallback;
    bool has_fallback, is_data;
  };
  using Dims = std::map<std::string, std::string>;

  static std::vector<Dim> dims_of(const detail::Json& op) {
    std::vector<Dim> dims;
    for (const detail::Json& dim : op["dims"].items()) {
      const bool has_fallback = dim.has("default");
      dims.push_back({dim["name"].text(), has_fallback ? dim["default"].word() : "", has_fallback,
                      dim["role"].text() == "data"});
    }
    return dims;
  }

  static Field field_of(const detail::Json& json) {
    const std::string& type = json["type"].text();
    return {json["name"].text(),
            type == "pointer"   ? Field::Type::pointer
            : type == "int32"   ? Field::Type::int32
            : type == "int64"   ? Field::Type::int64
            : type == "float64" ? Field::Type::float64
                                : Field::Type::float32,
            static_cast<std::size_t>(json["offset"].whole()),
            json.has("tensor") ? json["tensor"].text() : "",
            json.has("tensor_offset") ? json["tensor_offset"].whole() : 0,
            json.has("workspace"),
            json.has("dim") ? json["dim"].text() : "",
            json.has("value") ? json["value"].real() : 0,
            json.has("required")};
  }

  static Entry entry_of(const detail::Json& json) {
    Entry entry{json["problem"].text(),
                json["op"].text(),
                json["dtype"].text(),
                json["variant"].text(),
                {},
                {},
                {},
                static_cast<std::size_t>(json["args"]["bytes"].whole()),
                {},
                detail::Formula::of(json["workspace"]["bytes"])};
    const detail::Json &dims = json["dims"], &ranges = json["ranges"];
    for (std::size_t i = 0; i < dims.keys().size(); ++i) entry.dims[dims.keys()[i]] = dims.items()[i].word();
    for (std::size_t i = 0; i < ranges.keys().size(); ++i) {
      const auto& ends = ranges.items()[i].items();
      entry.ranges[ranges.keys()[i]] = {ends.at(0).whole(), ends.at(1).whole()};
    }
    for (const detail::Json& stage : json["stages"].items()) entry.stages.push_back(detail::stage_of(stage));
    for (const detail::Json& field : json["args"]["fields"].items()) entry.fields.push_back(field_of(field));
    return entry;
  }

  /// The dims with the defaults of those that the problem omits, without those that change only data.
  Dims complete(const Problem& problem) const {
    const auto op = ops_.find(problem.op);
    if (op == ops_.end()) {
      std::string known;
      for (const auto& [name, dims] : ops_) known += (known.empty() ? "" : ", ") + name;
      throw Error("the folder has no op '" + problem.op + "'; it has " + known);
    }
    Dims dims;
    for (const Dim& dim : op->second) {
      const auto given = problem.dims.find(dim.name);
      if (given == problem.dims.end() && !dim.has_fallback)
        throw Error(problem.op + " needs the dim '" + dim.name + "'");
      if (!dim.is_data) dims[dim.name] = given == problem.dims.end() ? dim.fallback : given->second;
    }
    for (const auto& given : problem.dims)
      if (std::none_of(op->second.begin(), op->second.end(),
                       [&](const Dim& dim) { return dim.name == given.first; }))
        throw Error(problem.op + " has no dim '" + given.first + "'");
    return dims;
  }

  static std::int64_t number(const Dims& dims, const std::string& name) {
    const std::string& text = dims.at(name);
    try {
      std::size_t used = 0;
      const std::int64_t value = std::stoll(text, &used);
      if (used == text.size()) return value;
    } catch (const std::logic_error&) {
    }
    throw Error("dim '" + name + "' is '" + text + "'; it must be a whole number");
  }

  static bool serves(const Entry& entry, const Problem& problem, const Dims& dims) {
    if (entry.op != problem.op || entry.dtype != problem.dtype) return false;
    for (const auto& [name, value] : entry.dims)
      if (dims.at(name) != value) return false;
    for (const auto& [name, range] : entry.ranges)
      if (const std::int64_t value = number(dims, name); value < range.from || value > range.to) return false;
    return true;
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
      const auto value = static_cast<double>(std::max<std::int64_t>(1, number(dims, name)));
      if (value < static_cast<double>(range.from)) sum += std::log2(static_cast<double>(range.from) / value);
      if (value > static_cast<double>(range.to)) sum += std::log2(value / static_cast<double>(range.to));
    }
    return sum;
  }

  std::string nearest(const Problem& problem, const Dims& dims) const {
    constexpr std::size_t kNamed = 3;
    std::vector<std::pair<double, const Entry*>> found;
    for (const Entry& entry : entries_)
      if (entry.op == problem.op) found.emplace_back(distance(entry, problem, dims), &entry);
    std::stable_sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.first < b.first; });
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
    throw Error("'" + path_ + "' is compiled for " + arch_ + "; this device is sm_" + std::to_string(here));
  }

  std::shared_ptr<const detail::Module> module(const std::string& cubin) {
    CUcontext context = nullptr;
    check(cuCtxGetCurrent(&context), "cuCtxGetCurrent");
    auto& module = modules_[{context, cubin}];
    if (!module) module = std::make_shared<const detail::Module>(path_ + "/" + cubin);
    return module;
  }

  std::string path_, arch_;
  std::map<std::string, std::vector<Dim>> ops_;
  std::vector<Entry> entries_;
  std::map<std::pair<CUcontext, std::string>, std::shared_ptr<const detail::Module>> modules_;
};

}  // namespace warptune
