#pragma once
// The protocol between the tuning program and its worker: one JSON object per line. Ranks of a group get the
// same lines, and each answers.
//   worker  {"type":"hello", facts}             {"type":"facts", facts}
//           {"type":"result", measurement, "lost":true if the worker ends because its device is lost}
//           {"type":"finalists", "times":[{main, hot, isolated}]}
//           {"type":"step", incumbent, candidate, ratio, problems}
//           all three with "stages":{name: seconds}, and "peaks":{facts} if the job measured the peaks again
//           {"type":"launch_floors", "graph_node":measurement, "single_launch":measurement}
//           {"type":"error", "input":bool, "message":text}, and then it ends
//   parent  {"type":"measure_peaks"}  {"type":"set_peaks", facts}  {"type":"measure_launch_floors"}
//           {"type":"job", op, dims, dtype, variant, config, options, best_us, sample_us}
//           {"type":"finalists", op, dims, dtype, options, rounds, other_caches, energy, sustained,
//           "finalists":[{variant, config}]}
//           {"type":"step", model, dtype, ranks, batch, context, "kv":KvFormat::suffix(), seed, rounds,
//           slow, "incumbent":plans, "candidate":plans}
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "harness/core/error.h"
#include "harness/core/problem.h"
#include "harness/llama/step_bench.h"
#include "harness/measure/bench.h"
#include "harness/measure/launch_floor.h"

namespace warptune {

/// A message lacks a field, or has another type there. One sentence that names the field.
struct ProtocolError : TextError {
  using TextError::TextError;
};

struct Job {
  Problem problem;
  BenchOptions options;
  std::string variant;
  Config config;
  double best_us = Measurement::NAN_VALUE;  // upper end of the confidence interval of the best so far
  double sample_us = kSampleUs;
};

/// Configurations of one problem that are timed interleaved.
struct FinalistsJob {
  struct Entry {
    std::string variant;
    Config config;
  };
  Problem problem;
  BenchOptions options;
  int rounds = 21;
  std::vector<Entry> finalists;
  FinalistExtras extras = {};
};

/// The plans of a model step, timed interleaved with the best ones so far.
struct StepJob {
  std::string model;  // a preset, or the folder of a checkpoint; the worker reads its configuration
  StepSpec spec;      // its model has only the format of the weights
  int rounds = 21;
  double slow = Measurement::NAN_VALUE;  // a candidate whose ratio is surely above it takes fewer rounds
  StepPlans incumbent, candidate;
};

/// The message in a line: an object with a type. Nothing for other lines: libraries print to stdout too.
std::optional<nlohmann::json> message_of(std::string_view line);

nlohmann::json to_json(const DeviceFacts& facts);
nlohmann::json to_json(const Measurement& measurement);
nlohmann::json to_json(const Job& job);
nlohmann::json to_json(const FinalistsJob& job);
nlohmann::json to_json(const std::vector<FinalistTimes>& times);
nlohmann::json to_json(const LaunchFloors& floors);
nlohmann::json to_json(const StageTimes& times);
nlohmann::json to_json(const StepJob& job);
nlohmann::json to_json(const StepTimes& times);

// The readers throw ProtocolError.
DeviceFacts facts_of(const nlohmann::json& json);
Measurement measurement_of(const nlohmann::json& json);
Job job_of(const nlohmann::json& json);
FinalistsJob finalists_job_of(const nlohmann::json& json);
std::vector<FinalistTimes> finalist_times_of(const nlohmann::json& json);
LaunchFloors launch_floors_of(const nlohmann::json& json);
StageTimes stage_times_of(const nlohmann::json& json);
StepJob step_job_of(const nlohmann::json& json);
StepTimes step_times_of(const nlohmann::json& json);

}  // namespace warptune
