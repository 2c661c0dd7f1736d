#include "harness/exchange/flashinfer_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/core/json.h"
#include "harness/core/lookup.h"

namespace warptune {
namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;
namespace {

/// The values of all axes of a workload, constant and variable.
class Axes {
 public:
  std::int64_t operator[](const std::string& name) const {
    const auto it = values_.find(name);
    if (it == values_.end()) throw InputError("the axis '{}' has no value", name);
    return it->second;
  }
  void set(const std::string& name, const OrderedJson& value, const std::string& what) {
    if (!value.is_number_integer() || value.get<std::int64_t>() < 0)
      throw InputError("{} '{}' is {}; it must be an integer", what, brief(name), brief(value.dump()));
    values_[name] = value.get<std::int64_t>();
  }

 private:
  std::map<std::string, std::int64_t> values_;
};

struct Definition {
  std::string name, op_type;
  OrderedJson axes, inputs;

  bool has_input(const char* input) const { return inputs.contains(input); }
  bool is(std::string_view type) const {
    return op_type == type || name.starts_with(std::string(type) + "_");
  }
};

const OrderedJson& needed(const OrderedJson& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) throw InputError("'{}' is missing", key);
  return object[key];
}

std::string text(const OrderedJson& object, const char* key) {
  const OrderedJson& value = needed(object, key);
  if (!value.is_string() || value.get<std::string>().empty())
    throw InputError("'{}' must be a text that is not empty", key);
  return value;
}

const OrderedJson& object(const OrderedJson& parent, const char* key) {
  const OrderedJson& value = needed(parent, key);
  if (!value.is_object()) throw InputError("'{}' must be an object", key);
  return value;
}

DType dtype_of(const Definition& definition, const char* input) {
  static const std::map<std::string, DType> known = {
      {"float32", DType::fp32}, {"float16", DType::fp16}, {"bfloat16", DType::bf16}};
  const std::string name = text(object(definition.inputs, input), "dtype");
  const auto it = known.find(name);
  if (it == known.end()) throw InputError("the dtype '{}' of '{}' has no op here", brief(name), input);
  return it->second;
}

/// A problem of a workload: op, dims and dtype, and what the workload has besides.
struct Mapped {
  std::string op;
  Assignment dims;
  DType dtype = DType::bf16;
  std::string note = {};
};

/// The mean over the sequences, rounded up.
std::int64_t mean_length(std::int64_t total, std::int64_t sequences) {
  if (sequences < 1) throw InputError("it has no sequence");
  return (total + sequences - 1) / sequences;
}

Mapped norm(const Definition& d, const Axes& axes) {
  const bool adds = d.has_input("residual");
  return {.op = adds ? "add_rms_norm" : "rms_norm",
          .dims = {{"tokens", axes["batch_size"]}, {"hidden", axes["hidden_size"]}},
          .dtype = dtype_of(d, "hidden_states")};
}

Mapped gemm(const Definition& d, const Axes& axes) {
  // Scales, or weights in another dtype, are those of quantized weights.
  for (const auto& [name, input] : d.inputs.items())
    if (name != "A" && name != "B")
      throw InputError("it has the input '{}', which no op here takes as it lies", brief(name));
  if (dtype_of(d, "A") != dtype_of(d, "B"))
    throw InputError("'A' and 'B' have different dtypes; quantized weights are packed here in another way");
  return {.op = "linear",
          .dims = {{"tokens", axes["M"]}, {"in", axes["K"]}, {"out", axes["N"]}},
          .dtype = dtype_of(d, "A")};
}

/// Pages of sizes that the op does not take become a contiguous cache.
Mapped paged_decode(const Definition& d, const Axes& axes) {
  const std::int64_t batch = axes["batch_size"], page = axes["page_size"],
                     context = mean_length(axes["num_kv_indices"] * page, batch);
  Mapped mapped{.op = "attention_decode",
                .dims = {{"batch", batch},
                         {"q_heads", axes["num_qo_heads"]},
                         {"kv_heads", axes["num_kv_heads"]},
                         {"head_dim", axes["head_dim"]},
                         {"context", context}},
                .dtype = dtype_of(d, "q")};
  if (page >= 16)
    mapped.dims.set("page_size", page);
  else
    mapped.note = fmt::format("pages of {} keys become a contiguous cache", page);
  return mapped;
}

Mapped ragged_prefill(const Definition& d, const Axes& axes) {
  const std::int64_t batch = axes["len_indptr"] - 1;
  return {.op = "attention_prefill",
          .dims = {{"batch", batch},
                   {"q_len", mean_length(axes["total_q"], batch)},
                   {"kv_len", mean_length(axes["total_kv"], batch)},
                   {"q_heads", axes["num_qo_heads"]},
                   {"kv_heads", axes["num_kv_heads"]},
                   {"head_dim", axes["head_dim"]}},
          .dtype = dtype_of(d, "q")};
}

Mapped mapped(const Definition& d, const Axes& axes) {
  if (d.is("rmsnorm") || d.is("fused_add_rmsnorm")) return norm(d, axes);
  if (d.is("gemm")) return gemm(d, axes);
  const bool prefill = d.name.find("prefill") != std::string::npos;
  if (d.is("gqa_paged") && !prefill) return paged_decode(d, axes);
  if (d.is("gqa_ragged") && prefill) return ragged_prefill(d, axes);
  throw InputError("no op here is its op type '{}'", brief(d.op_type));
}

/// A text that becomes the name of a file or folder of a trace set.
std::string file_name(const OrderedJson& json, const char* key) {
  const std::string name = text(json, key);
  if (const std::string fault = fault_of_file_name(name); !fault.empty())
    throw InputError("'{}' is '{}'; {}", key, brief(name), fault);
  return name;
}

Definition definition_of(const OrderedJson& json) {
  Definition d{.name = file_name(json, "name"),
               .op_type = file_name(json, "op_type"),
               .axes = object(json, "axes"),
               .inputs = object(json, "inputs")};
  for (const auto& [name, axis] : d.axes.items())
    if (const std::string type = text(axis, "type"); type != "const" && type != "var")
      throw InputError("the axis '{}' has the type '{}'; it must be const or var", brief(name), brief(type));
  return d;
}

Axes axes_of(const Definition& d, const OrderedJson& workload) {
  Axes axes;
  for (const auto& [name, axis] : d.axes.items())
    if (text(axis, "type") == "const") axes.set(name, needed(axis, "value"), "the axis");
  for (const auto& [name, value] : object(workload, "axes").items()) {
    if (!d.axes.contains(name)) throw InputError("'{}' has no axis '{}'", d.name, brief(name));
    axes.set(name, value, "the axis");
  }
  return axes;
}

class TraceReader {
 public:
  explicit TraceReader(const OpTable& ops) : ops_(ops) {}

  void read_definition(const fs::path& file) {
    const std::string origin = fmt::format("'{}'", file.string());
    const OrderedJson json = need_json<OrderedJson>(read_input(file, origin, kMaxConfigBytes), origin);
    try {
      const Definition d = definition_of(json);
      if (!definitions_.emplace(d.name, d).second) throw InputError("'{}' is defined twice", brief(d.name));
    } catch (const InputError& e) {
      throw InputError("{}: {}", origin, e.what());
    }
  }

  void read_workloads(const fs::path& file) {
    const std::string origin = fmt::format("'{}'", file.string());
    std::istringstream in(read_input(file, origin, kMaxPromptBytes));
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      const std::string where = fmt::format("{}:{}", file.string(), number);
      const OrderedJson json = need_json<OrderedJson>(line, where);
      try {
        add(json, file.stem(), where);
      } catch (const InputError& e) {
        throw InputError("{}: {}", where, e.what());
      }
    }
  }

  Traces traces() && { return std::move(traces_); }

 private:
  const Definition& definition_of_line(const OrderedJson& json, const std::string& stem) const {
    if (json.contains("definition")) {
      const auto it = definitions_.find(text(json, "definition"));
      if (it != definitions_.end()) return it->second;
      throw InputError("there is no file of the definition '{}'", brief(text(json, "definition")));
    }
    if (const auto it = definitions_.find(stem); it != definitions_.end()) return it->second;
    if (definitions_.size() == 1) return definitions_.begin()->second;
    throw InputError("it names no definition, and none has the name '{}'", brief(stem));
  }

  void add(const OrderedJson& json, const std::string& stem, const std::string& where) {
    const Definition& d = definition_of_line(json, stem);
    const OrderedJson& workload = json.contains("workload") ? object(json, "workload") : json;
    TracedWorkload traced{
        .definition = d.name, .op_type = d.op_type, .uuid = text(workload, "uuid"), .workload = workload};
    object(workload, "inputs");
    const Axes axes = axes_of(d, workload);
    try {
      const Mapped m = mapped(d, axes);
      traced.problem = ops_.find(m.op).op.problem(m.dims, m.dtype);
      traced.note = m.note;
    } catch (const InputError& e) {
      traces_.left_out.push_back(
          fmt::format("{}: the workload {} of {}: {}", where, brief(traced.uuid), d.name, e.what()));
      return;
    }
    const bool known = std::ranges::any_of(traces_.workloads, [&](const TracedWorkload& other) {
      return other.definition == traced.definition && other.uuid == traced.uuid;
    });
    if (!known) traces_.workloads.push_back(std::move(traced));
  }

  const OpTable& ops_;
  std::map<std::string, Definition> definitions_;
  Traces traces_;
};

}  // namespace

Traces read_traces(const OpTable& ops, const std::vector<fs::path>& files) {
  TraceReader reader(ops);
  for (const fs::path& file : files)
    if (file.extension() != ".jsonl") reader.read_definition(file);
  for (const fs::path& file : files)
    if (file.extension() == ".jsonl") reader.read_workloads(file);
  Traces traces = std::move(reader).traces();
  if (traces.workloads.empty())
    throw InputError(traces.left_out.empty()
                         ? std::string("the files have no workload: it takes definitions (*.json) "
                                       "and workloads (*.jsonl)")
                         : fmt::format("no workload is a problem here: {}", traces.left_out.front()));
  return traces;
}

std::string to_sweep(const Traces& traces, const std::string& name) {
  struct Group {
    std::string heading;
    std::vector<std::string> problems;
  };
  std::vector<Group> groups;
  std::vector<std::string> known;  // keys of problems: a sweep has each once
  for (const TracedWorkload& w : traces.workloads) {
    if (contains(known, w.problem.key())) continue;
    known.push_back(w.problem.key());
    const std::string heading =
        fmt::format("  # {}{}\n  - op: {}\n    dtypes: [{}]\n    problems:\n", brief(w.definition),
                    w.note.empty() ? "" : ": " + w.note, w.problem.op, name_of(w.problem.dtype));
    if (groups.empty() || groups.back().heading != heading) groups.push_back({heading, {}});
    groups.back().problems.push_back("      - " + w.problem.dims.yaml() + "\n");
  }
  std::string text = fmt::format(
      "# The workloads of flashinfer-bench definitions. Every sequence has the mean length of its "
      "workload.\nname: "
      "{}\nops:\n",
      name);
  for (const Group& group : groups) {
    text += group.heading;
    for (const std::string& problem : group.problems) text += problem;
  }
  return text;
}

}  // namespace warptune
