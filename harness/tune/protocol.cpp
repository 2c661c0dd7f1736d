#include "harness/tune/protocol.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <utility>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/json.h"
#include "harness/results/sweep_file.h"

namespace warptune {
using Json = nlohmann::json;
namespace {

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

template <class T>
bool fits(const Json& value) {
  if constexpr (std::is_same_v<T, bool>)
    return value.is_boolean();
  else if constexpr (std::is_integral_v<T>)
    return value.is_number_unsigned()  ? std::in_range<T>(value.get<std::uint64_t>())
           : value.is_number_integer() ? std::in_range<T>(value.get<std::int64_t>())
                                       : false;
  else if constexpr (std::is_floating_point_v<T>)
    return value.is_number();
  else
    return value.is_string();
}

template <class T>
T read(const Json& value, std::string_view name) {
  if (!fits<T>(value)) throw ProtocolError("'{}' of a message is {}", name, brief(value.dump()));
  return value.get<T>();
}

const Json& field(const Json& json, std::string_view name) {
  if (const auto it = json.find(name); it != json.end()) return *it;  // end() for everything but an object
  throw ProtocolError("a message has no '{}'", name);
}

/// The field of an object.
template <class T>
T get(const Json& json, std::string_view name) {
  return read<T>(field(json, name), name);
}

const Json& list(const Json& json, std::string_view name) {
  const Json& value = field(json, name);
  if (!value.is_array()) throw ProtocolError("'{}' of a message is not a list", name);
  return value;
}

/// A number, or null where there is none.
double number(const Json& json, std::string_view name) {
  const Json& value = field(json, name);
  return value.is_null() ? NAN : read<double>(value, name);
}

/// Calls f, which parses a word of a message.
template <class F>
auto word(F&& f) {
  try {
    return f();
  } catch (const InputError& e) {
    throw ProtocolError(e.what());
  }
}

/// A list of [name, value, label, omitted], in order.
Json list_of(const Assignment& values) {
  Json list = Json::array();
  for (const auto& entry : values) list.push_back({entry.name, entry.value, entry.label, entry.omitted});
  return list;
}

Assignment assignment(const Json& json, std::string_view name) {
  Assignment values;
  for (const Json& entry : list(json, name)) {
    if (!entry.is_array() || entry.size() != 4)
      throw ProtocolError("an item of '{}' is not [name, value, label, omitted]", name);
    values.set(read<std::string>(entry[0], name), read<std::int64_t>(entry[1], name),
               read<std::string>(entry[2], name), read<bool>(entry[3], name));
  }
  return values;
}

}  // namespace

std::optional<Json> message_of(std::string_view line) {
  try {
    Json json = parse_json(line, "a message");
    if (json.is_object() && json.contains("type") && json["type"].is_string()) return json;
  } catch (const InputError&) {
    // nests too deep
  }
  return std::nullopt;
}

Json to_json(const DeviceFacts& f) {
  return {{"backend", f.backend == Backend::cuda ? "cuda" : "host"},
          {"name", f.name},
          {"id", f.id},
          {"arch", f.arch},
          {"driver", f.driver},
          {"toolkit", f.toolkit},
          {"sms", f.sms},
          {"l2_bytes", f.l2_bytes},
          {"memory_bytes", f.memory_bytes},
          {"shared_per_block", f.shared_per_block},
          {"shared_per_sm", f.shared_per_sm},
          {"registers_per_sm", f.registers_per_sm},
          {"threads_per_sm", f.threads_per_sm},
          {"read_gb_per_s", f.read_gb_per_s},
          {"copy_gb_per_s", f.copy_gb_per_s},
          {"l2_read_gb_per_s", f.l2_read_gb_per_s},
          {"matrix_tflop_per_s", f.matrix_tflop_per_s},
          {"vector_tflop_per_s", f.vector_tflop_per_s},
          {"launch_floor_us", f.launch_floor_us}};
}

DeviceFacts facts_of(const Json& json) {
  const bool has_id = json.contains("id"), has_l2_rate = json.contains("l2_read_gb_per_s");  // newer files
  return {.backend = get<std::string>(json, "backend") == "cuda" ? Backend::cuda : Backend::host,
          .name = get<std::string>(json, "name"),
          .id = has_id ? get<std::string>(json, "id") : "",
          .arch = get<std::string>(json, "arch"),
          .driver = get<std::string>(json, "driver"),
          .toolkit = get<std::string>(json, "toolkit"),
          .sms = get<int>(json, "sms"),
          .l2_bytes = get<std::int64_t>(json, "l2_bytes"),
          .memory_bytes = get<std::int64_t>(json, "memory_bytes"),
          .shared_per_block = get<std::int64_t>(json, "shared_per_block"),
          .shared_per_sm = get<std::int64_t>(json, "shared_per_sm"),
          .registers_per_sm = get<std::int64_t>(json, "registers_per_sm"),
          .threads_per_sm = get<std::int64_t>(json, "threads_per_sm"),
          .read_gb_per_s = get<double>(json, "read_gb_per_s"),
          .copy_gb_per_s = get<double>(json, "copy_gb_per_s"),
          .l2_read_gb_per_s = has_l2_rate ? get<double>(json, "l2_read_gb_per_s") : 0,
          .matrix_tflop_per_s = get<double>(json, "matrix_tflop_per_s"),
          .vector_tflop_per_s = get<double>(json, "vector_tflop_per_s"),
          .launch_floor_us = get<double>(json, "launch_floor_us")};
}

/// The columns of a row that are part of a measurement, and the samples.
Json to_json(const Measurement& m) {
  Json json = {{"samples_us", thinned(m.samples_us)}};
  const SweepRow row{.measurement = m};
  for (const Column& column : sweep_table()) {
    if (!column.set) continue;
    Json& field = json[std::string(column.name)];
    std::visit(
        [&]<class T>(const T& value) {
          if constexpr (std::is_same_v<T, double>)
            field = number(value);
          else if constexpr (!std::is_same_v<T, std::monostate>)
            field = value;
        },
        column.get(row));
  }
  return json;
}

Measurement measurement_of(const Json& json) {
  Measurement m;
  for (const Column& column : sweep_table()) {
    if (!column.set) continue;
    const Json& given = field(json, column.name);
    FieldValue value;
    if (given.is_string()) value = given.get<std::string>();
    if (given.is_number_integer()) value = read<std::int64_t>(given, column.name);
    if (given.is_number_float()) value = given.get<double>();
    word([&] { column.set(m, value); });
  }
  for (const Json& us : list(json, "samples_us")) m.samples_us.push_back(read<double>(us, "samples_us"));
  return m;
}

namespace {

/// A list of [tensor, scale, value, every]. The value is text, since JSON has no infinity, or null.
Json list_of(const InputChanges& changes) {
  Json list = Json::array();
  for (const InputChange& change : changes)
    list.push_back({change.tensor, change.scale,
                    change.value ? Json(fmt::format("{}", *change.value)) : Json(), change.every});
  return list;
}

InputChanges inputs_of(const Json& json) {
  InputChanges changes;
  for (const Json& entry : list(json, "inputs")) {
    if (!entry.is_array() || entry.size() != 4)
      throw ProtocolError("an item of 'inputs' is not [tensor, scale, value, every]");
    InputChange& change = changes.emplace_back(InputChange{.tensor = read<std::string>(entry[0], "inputs"),
                                                           .scale = read<double>(entry[1], "inputs"),
                                                           .every = read<std::int64_t>(entry[3], "inputs")});
    if (!entry[2].is_null())
      change.value = std::strtod(read<std::string>(entry[2], "inputs").c_str(), nullptr);
  }
  return changes;
}

/// The fields that select the bench of a job.
Json bench_json(const char* type, const Problem& problem, const BenchOptions& options) {
  return {{"type", type},
          {"op", problem.op},
          {"dims", list_of(problem.dims)},
          {"dtype", name_of(problem.dtype)},
          {"cache", name_of(options.cache)},
          {"max_rel_ci", options.max_rel_ci},
          {"min_samples", options.min_samples},
          {"max_time", options.max_time},
          {"duty_cycle", options.duty_cycle},
          {"seed", options.seed},
          {"inputs", list_of(options.inputs)}};
}

Problem problem_of(const Json& json) {
  return {.op = get<std::string>(json, "op"),
          .dims = assignment(json, "dims"),
          .dtype = word([&] { return parse_dtype(get<std::string>(json, "dtype")); })};
}

BenchOptions options_of(const Json& json) {
  const auto cache = cache_mode_of(get<std::string>(json, "cache"));
  if (!cache) throw ProtocolError("'cache' of a message is neither cold nor hot");
  return {.cache = *cache,
          .max_rel_ci = get<double>(json, "max_rel_ci"),
          .min_samples = get<int>(json, "min_samples"),
          .max_time = get<double>(json, "max_time"),
          .duty_cycle = get<double>(json, "duty_cycle"),
          .seed = get<std::uint64_t>(json, "seed"),
          .inputs = inputs_of(json)};
}

}  // namespace

Json to_json(const Job& job) {
  Json json = bench_json("job", job.problem, job.options);
  json["variant"] = job.variant;
  json["config"] = list_of(job.config);
  json["best_us"] = number(job.best_us);
  json["sample_us"] = job.sample_us;
  return json;
}

Job job_of(const Json& json) {
  return {.problem = problem_of(json),
          .options = options_of(json),
          .variant = get<std::string>(json, "variant"),
          .config = assignment(json, "config"),
          .best_us = number(json, "best_us"),
          .sample_us = get<double>(json, "sample_us")};
}

Json to_json(const FinalistsJob& job) {
  Json json = bench_json("finalists", job.problem, job.options);
  json["rounds"] = job.rounds;
  json["other_caches"] = job.extras.other_caches;
  json["energy"] = job.extras.energy;
  json["sustained"] = job.extras.sustained;
  json["finalists"] = Json::array();
  for (const auto& entry : job.finalists)
    json["finalists"].push_back({{"variant", entry.variant}, {"config", list_of(entry.config)}});
  return json;
}

FinalistsJob finalists_job_of(const Json& json) {
  FinalistsJob job{.problem = problem_of(json),
                   .options = options_of(json),
                   .rounds = get<int>(json, "rounds"),
                   .finalists = {},
                   .extras = {.other_caches = get<bool>(json, "other_caches"),
                              .energy = get<bool>(json, "energy"),
                              .sustained = get<bool>(json, "sustained")}};
  for (const Json& entry : list(json, "finalists"))
    job.finalists.push_back({get<std::string>(entry, "variant"), assignment(entry, "config")});
  return job;
}

Json to_json(const std::vector<FinalistTimes>& times) {
  Json list = Json::array();
  for (const FinalistTimes& t : times)
    list.push_back({{"main", to_json(t.main)}, {"hot", to_json(t.hot)}, {"isolated", to_json(t.isolated)}});
  return {{"times", list}};
}

std::vector<FinalistTimes> finalist_times_of(const Json& json) {
  std::vector<FinalistTimes> times;
  for (const Json& t : list(json, "times"))
    times.push_back({measurement_of(field(t, "main")), measurement_of(field(t, "hot")),
                     measurement_of(field(t, "isolated"))});
  return times;
}

Json to_json(const LaunchFloors& floors) {
  return {{"graph_node", to_json(floors.graph_node)}, {"single_launch", to_json(floors.single_launch)}};
}

LaunchFloors launch_floors_of(const Json& json) {
  return {measurement_of(field(json, "graph_node")), measurement_of(field(json, "single_launch"))};
}

Json to_json(const StageTimes& times) {
  Json json;
  for (std::size_t i = 0; i < kTuningStages; ++i)
    json[std::string(name_of(TuningStage(i)))] = times[TuningStage(i)];
  return json;
}

StageTimes stage_times_of(const Json& json) {
  StageTimes times;
  for (std::size_t i = 0; i < kTuningStages; ++i)
    times[TuningStage(i)] = get<double>(json, name_of(TuningStage(i)));
  return times;
}

namespace {

Json to_json(const StepPlans& step) {
  Json plans = Json::array();
  for (const StepPlan& plan : step.plans)
    plans.push_back({{"op", plan.problem.op},
                     {"dims", list_of(plan.problem.dims)},
                     {"dtype", name_of(plan.problem.dtype)},
                     {"variant", plan.variant},
                     {"config", list_of(plan.config)}});
  return {{"options", list_of(step.options)}, {"plans", plans}};
}

StepPlans step_plans_of(const Json& json) {
  StepPlans step{.options = assignment(json, "options")};
  for (const Json& plan : list(json, "plans"))
    step.plans.push_back({.problem = problem_of(plan),
                          .variant = get<std::string>(plan, "variant"),
                          .config = assignment(plan, "config")});
  return step;
}

}  // namespace

Json to_json(const StepJob& job) {
  return {{"type", "step"},
          {"model", job.model},
          {"weights", job.spec.model.weights.str()},
          {"dtype", name_of(job.spec.dtype)},
          {"ranks", job.spec.model.shard.ranks},
          {"batch", job.spec.batch},
          {"context", job.spec.context},
          {"kv", job.spec.kv.suffix()},
          {"seed", job.spec.seed},
          {"rounds", job.rounds},
          {"slow", number(job.slow)},
          {"incumbent", to_json(job.incumbent)},
          {"candidate", to_json(job.candidate)}};
}

StepJob step_job_of(const Json& json) {
  return {.model = get<std::string>(json, "model"),
          .spec = {.model = {.weights =
                                 word([&] { return parse_weight_format(get<std::string>(json, "weights")); }),
                             .shard = {.ranks = get<int>(json, "ranks")}},
                   .dtype = word([&] { return parse_dtype(get<std::string>(json, "dtype")); }),
                   .batch = get<int>(json, "batch"),
                   .context = get<int>(json, "context"),
                   .kv = word([&] { return parse_kv_suffix(get<std::string>(json, "kv")); }),
                   .seed = get<std::uint64_t>(json, "seed")},
          .rounds = get<int>(json, "rounds"),
          .slow = number(json, "slow"),
          .incumbent = step_plans_of(field(json, "incumbent")),
          .candidate = step_plans_of(field(json, "candidate"))};
}

Json to_json(const StepTimes& times) {
  return {{"incumbent", to_json(times.incumbent)},
          {"candidate", to_json(times.candidate)},
          {"ratio", {number(times.ratio.median), number(times.ratio.low), number(times.ratio.high)}},
          {"problems", times.problems}};
}

StepTimes step_times_of(const Json& json) {
  StepTimes times{.incumbent = measurement_of(field(json, "incumbent")),
                  .candidate = measurement_of(field(json, "candidate"))};
  const Json& ratio = list(json, "ratio");
  if (ratio.size() != 3) throw ProtocolError("'ratio' of a message is not [median, low, high]");
  times.ratio = {read<double>(ratio[0], "ratio"), read<double>(ratio[1], "ratio"),
                 read<double>(ratio[2], "ratio")};
  for (const Json& key : list(json, "problems")) times.problems.push_back(read<std::string>(key, "problems"));
  return times;
}

}  // namespace warptune
