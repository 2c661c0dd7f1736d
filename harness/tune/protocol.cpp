#include "harness/tune/protocol.h"

#include <cmath>

#include "harness/results/samples_file.h"

namespace warptune {
using Json = nlohmann::json;
namespace {

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }
double number(const Json& json) { return json.is_null() ? NAN : json.get<double>(); }

/// A list of [name, value, label, omitted], in order.
Json list_of(const Assignment& values) {
  Json list = Json::array();
  for (const auto& entry : values) list.push_back({entry.name, entry.value, entry.label, entry.omitted});
  return list;
}

Assignment assignment(const Json& list) {
  Assignment values;
  for (const Json& entry : list)
    values.set(entry.at(0).get<std::string>(), entry.at(1).get<std::int64_t>(),
               entry.at(2).get<std::string>(), entry.at(3).get<bool>());
  return values;
}

}  // namespace

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
  return {.backend = json.at("backend") == "cuda" ? Backend::cuda : Backend::host,
          .name = json.at("name"),
          .id = json.value("id", ""),  // older files lack it
          .arch = json.at("arch"),
          .driver = json.at("driver"),
          .toolkit = json.at("toolkit"),
          .sms = json.at("sms"),
          .l2_bytes = json.at("l2_bytes"),
          .memory_bytes = json.at("memory_bytes"),
          .shared_per_block = json.at("shared_per_block"),
          .shared_per_sm = json.at("shared_per_sm"),
          .registers_per_sm = json.at("registers_per_sm"),
          .threads_per_sm = json.at("threads_per_sm"),
          .read_gb_per_s = json.at("read_gb_per_s"),
          .copy_gb_per_s = json.at("copy_gb_per_s"),
          .l2_read_gb_per_s = json.value("l2_read_gb_per_s", 0.0),  // older files lack it
          .matrix_tflop_per_s = json.at("matrix_tflop_per_s"),
          .vector_tflop_per_s = json.at("vector_tflop_per_s"),
          .launch_floor_us = json.at("launch_floor_us")};
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
    const Json& field = json.at(std::string(column.name));
    FieldValue value;
    if (field.is_string()) value = field.get<std::string>();
    if (field.is_number_integer()) value = field.get<std::int64_t>();
    if (field.is_number_float()) value = field.get<double>();
    column.set(m, value);
  }
  m.samples_us = json.at("samples_us").get<std::vector<double>>();
  return m;
}

namespace {

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
          {"seed", options.seed}};
}

Problem problem_of(const Json& json) {
  return {.op = json.at("op"),
          .dims = assignment(json.at("dims")),
          .dtype = parse_dtype(json.at("dtype").get<std::string>())};
}

BenchOptions options_of(const Json& json) {
  return {.cache = cache_mode_of(json.at("cache").get<std::string>()).value(),
          .max_rel_ci = json.at("max_rel_ci"),
          .min_samples = json.at("min_samples"),
          .max_time = json.at("max_time"),
          .seed = json.at("seed")};
}

}  // namespace

Json to_json(const Job& job) {
  Json json = bench_json("job", job.problem, job.options);
  json["variant"] = job.variant;
  json["config"] = list_of(job.config);
  json["best_us"] = number(job.best_us);
  return json;
}

Job job_of(const Json& json) {
  return {.problem = problem_of(json),
          .options = options_of(json),
          .variant = json.at("variant"),
          .config = assignment(json.at("config")),
          .best_us = number(json.at("best_us"))};
}

Json to_json(const FinalistsJob& job) {
  Json json = bench_json("finalists", job.problem, job.options);
  json["rounds"] = job.rounds;
  json["finalists"] = Json::array();
  for (const auto& entry : job.finalists)
    json["finalists"].push_back({{"variant", entry.variant}, {"config", list_of(entry.config)}});
  return json;
}

FinalistsJob finalists_job_of(const Json& json) {
  FinalistsJob job{
      .problem = problem_of(json), .options = options_of(json), .rounds = json.at("rounds"), .finalists = {}};
  for (const Json& entry : json.at("finalists"))
    job.finalists.push_back({entry.at("variant"), assignment(entry.at("config"))});
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
  for (const Json& t : json.at("times"))
    times.push_back(
        {measurement_of(t.at("main")), measurement_of(t.at("hot")), measurement_of(t.at("isolated"))});
  return times;
}

Json to_json(const LaunchFloors& floors) {
  return {{"graph_node", to_json(floors.graph_node)}, {"single_launch", to_json(floors.single_launch)}};
}

LaunchFloors launch_floors_of(const Json& json) {
  return {measurement_of(json.at("graph_node")), measurement_of(json.at("single_launch"))};
}

}  // namespace warptune
