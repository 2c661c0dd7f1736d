// The JSON of a table of plans: warptune.json.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/export/export_files.h"
#include "harness/measure/bench.h"
#include "harness/results/run_info.h"

namespace warptune {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson json_of(const Expression& e) { return e.json(); }
OrderedJson json_of(const Extents& e) { return {json_of(e.x), json_of(e.y), json_of(e.z)}; }

OrderedJson json_list(const std::vector<Expression>& expressions) {
  OrderedJson list = OrderedJson::array();
  for (const Expression& e : expressions) list.push_back(json_of(e));
  return list;
}

/// Values with their labels: {"vec": 8, "cache_hint": "none"}.
OrderedJson json_of(const Assignment& values) {
  OrderedJson object = OrderedJson::object();
  for (const auto& entry : values)
    if (entry.label.empty())
      object[entry.name] = entry.value;
    else
      object[entry.name] = entry.label;
  return object;
}

/// The double with the fewest digits that is this float: 1e-05, not 9.999999747378752e-06.
double short_decimal(float value) { return std::stod(fmt::format("{}", value)); }

/// A list with one line per element.
std::string lines_of(const std::vector<OrderedJson>& elements) {
  std::string text;
  for (const OrderedJson& element : elements) text += (text.empty() ? "\n  " : ",\n  ") + element.dump();
  return "[" + text + "\n ]";
}

std::string role_of(DimRole role) {
  static constexpr const char* kNames[] = {"shape", "work", "parallel", "data"};
  return kNames[static_cast<std::size_t>(role)];
}

OrderedJson json_of(const Op& op) {
  OrderedJson dims = OrderedJson::array();
  for (const Dim& dim : op.dims) {
    OrderedJson entry = {{"name", dim.name}, {"role", role_of(dim.role)}};
    if (!dim.labels.empty()) entry["labels"] = dim.labels;
    if (dim.fallback && dim.labels.empty()) entry["default"] = *dim.fallback;
    if (dim.fallback && !dim.labels.empty()) entry["default"] = dim.labels[*dim.fallback];
    if (dim.optional) entry["optional"] = true;
    entry["doc"] = dim.doc;
    dims.push_back(std::move(entry));
  }
  return {{"name", op.name}, {"summary", op.summary}, {"dims", std::move(dims)}};
}

OrderedJson json_of(const TensorMapModel& map) {
  return {{"base", map.base},
          {"dtype", name_of(map.dtype)},
          {"dims", json_list(map.dims)},
          {"strides", json_list(map.strides)},
          {"box", map.box},
          {"swizzle_bytes", static_cast<int>(map.swizzle)},
          {"l2_promotion_bytes", kL2PromotionBytes}};
}

OrderedJson json_of(const StageModel& stage, const ExportedKernel& kernel) {
  OrderedJson maps = OrderedJson::array();
  for (const TensorMapModel& map : stage.tensor_maps) maps.push_back(json_of(map));
  OrderedJson json = {{"cubin", kernel.file},          {"kernel", kernel.entry},
                      {"expression", stage.kernel},    {"grid", json_of(stage.grid)},
                      {"block", json_of(stage.block)}, {"shared_bytes", json_of(stage.shared_bytes)},
                      {"cluster", stage.cluster},      {"pdl", stage.pdl},
                      {"per_sm", stage.per_sm},        {"max_blocks", json_of(stage.max_blocks)},
                      {"tensor_maps", std::move(maps)}};
  if (!stage.arguments) return json;
  OrderedJson arguments = OrderedJson::array();
  for (const ArgumentModel& argument : *stage.arguments)
    arguments.push_back({{"offset", argument.offset}, {"size", argument.bytes}});
  json["arguments"] = std::move(arguments);
  return json;
}

OrderedJson json_of(const ArgsLayout& args) {
  const auto type_of = [](const ArgsField& f) {
    if (f.is_pointer()) return "pointer";
    if (f.is_real()) return f.bytes == 8 ? "float64" : "float32";
    return f.bytes == 8 ? "int64" : "int32";
  };
  OrderedJson fields = OrderedJson::array();
  for (const ExportedField& f : args.fields) {
    OrderedJson field = {{"name", f.field.name},
                         {"type", type_of(f.field)},
                         {"offset", f.field.offset},
                         {"size", f.field.bytes}};
    if (!f.tensor.empty()) field["tensor"] = f.tensor;
    if (f.tensor_offset != 0) field["tensor_offset"] = f.tensor_offset;
    if (f.workspace) field["workspace"] = true;
    if (!f.dim.empty()) field["dim"] = f.dim;
    if (f.value && f.field.is_real())
      field["value"] = f.field.bytes == 8 ? *f.value : short_decimal(static_cast<float>(*f.value));
    else if (f.value)
      field["value"] = static_cast<std::int64_t>(*f.value);
    if (f.required) field["required"] = true;
    fields.push_back(std::move(field));
  }
  return {{"bytes", args.bytes}, {"fields", std::move(fields)}};
}

/// The tensors of the named problem. Their shapes are those of that problem.
OrderedJson tensors_of(const Op& op, const Problem& problem) {
  static constexpr const char* kRoles[] = {"input", "output", "inout"};
  OrderedJson list = OrderedJson::array();
  for (const TensorSpec& tensor : op.tensors(problem, 1))
    list.push_back({{"name", tensor.name},
                    {"dtype", name_of(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"role", kRoles[static_cast<std::size_t>(tensor.role)]}});
  return list;
}

OrderedJson json_of(const Provenance& made_on) {
  return {{"device", made_on.device},
          {"arch", made_on.arch},
          {"driver", made_on.driver},
          {"toolkit", made_on.toolkit},
          {"git_commit", made_on.git_commit}};
}

/// How the plan was chosen and what was measured.
OrderedJson origin_of(const ExportedPlan& plan, const OpEntry& entry, const DeviceFacts& facts) {
  const ExportChoice& choice = plan.choice;
  OrderedJson origin = {{"source", choice.source}};
  if (!choice.reason.empty()) origin["reason"] = choice.reason;
  if (std::isfinite(choice.time_us)) origin["time_us"] = choice.time_us;
  if (const double floor = floor_us(facts, entry.op.cost(plan.problem), plan.problem); floor > 0)
    origin["floor_us"] = floor;
  if (choice.instead_of)
    origin["instead_of"] = {{"variant", choice.instead_of->variant},
                            {"config", choice.instead_of->config.str()},
                            {"time_us", choice.instead_of->time_us}};
  if (choice.winner) {
    origin["made_on"] = json_of(choice.winner->made_on);
    origin["run_id"] = choice.winner->run_id;
    if (choice.source == "nearest") origin["winner_of"] = choice.winner->problem.key();
  }
  return origin;
}

}  // namespace

std::string export_json(const OpTable& ops, const PlanTable& table, const Compiler& compiler,
                        const DeviceFacts& facts,
                        const std::function<ExportedKernel(const ExportedPlan&, const Stage&)>& kernel_of) {
  std::vector<OrderedJson> used_ops, plans;
  for (const OpEntry& entry : ops)
    for (const ExportedPlan& plan : table.plans)
      if (plan.problem.op == entry.op.name) {
        used_ops.push_back(json_of(entry.op));
        break;
      }
  for (const ExportedPlan& plan : table.plans) {
    const OpEntry& entry = ops.find(plan.problem.op);
    OrderedJson fixed = OrderedJson::object(), ranges = OrderedJson::object(), stages = OrderedJson::array();
    for (const auto& dim : plan.problem.dims) {
      const DimRole role = entry.op.find_dim(dim.name)->role;
      if (role == DimRole::work || role == DimRole::data) continue;
      if (dim.label.empty())
        fixed[dim.name] = dim.value;
      else
        fixed[dim.name] = dim.label;
    }
    for (const DimRange& range : plan.box) ranges[range.dim] = {range.from, range.to};
    const auto kernels = active_kernels(*plan.choice.variant, plan.problem, plan.choice.config);
    for (std::size_t i = 0; i < kernels.size(); ++i)
      stages.push_back(json_of(plan.launch.stages.at(i), kernel_of(plan, *kernels[i])));
    plans.push_back({{"problem", plan.problem.key()},
                     {"op", plan.problem.op},
                     {"dtype", name_of(plan.problem.dtype)},
                     {"dims", std::move(fixed)},
                     {"ranges", std::move(ranges)},
                     {"variant", plan.choice.variant->name},
                     {"config", json_of(plan.choice.config)},
                     {"code_hash", code_hash(compiler, *plan.choice.variant, plan.problem, plan.choice.config,
                                             facts.arch)},
                     {"origin", origin_of(plan, entry, facts)},
                     {"stages", std::move(stages)},
                     {"args", json_of(plan.args)},
                     {"workspace", {{"bytes", json_of(plan.launch.workspace_bytes)}, {"zeroed", "once"}}},
                     {"tensors", tensors_of(entry.op, plan.problem)}});
  }
  const OrderedJson head = {
      {"schema", kExportSchema},
      {"warptune", {{"version", program_version()}, {"git_commit", git_commit()}}},
      {"arch", facts.arch},
      {"device", facts.name},
      {"toolkit", compiler.toolkit()},
      {"written", timestamp_utc()},
      {"left_out", table.left_out},
  };
  std::string text = head.dump(1);
  text.resize(text.size() - 2);  // without the end of the object
  return fmt::format("{},\n \"ops\": {},\n \"plans\": {}\n}}\n", text, lines_of(used_ops), lines_of(plans));
}

}  // namespace warptune
