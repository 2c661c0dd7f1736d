#pragma once
// What the tuning program and its worker say to each other: one JSON object per line.
//   worker  {"type":"hello", facts}             {"type":"facts", facts}
//           {"type":"result", measurement, "lost":true where the worker ends because its device is lost}
//           {"type":"error", "input":bool, "message":text}, and then it ends
//   parent  {"type":"measure_ceilings"}  {"type":"set_ceilings", facts}
//           {"type":"job", op, dims, dtype, variant, config, options}
#include <nlohmann/json.hpp>

#include "core/problem.h"
#include "measure/bench.h"

namespace warptune {

struct Job {
  Problem problem;
  BenchOptions options;
  std::string variant;
  Config config;
};

nlohmann::json to_json(const DeviceFacts& facts);
nlohmann::json to_json(const Measurement& measurement);
nlohmann::json to_json(const Job& job);
DeviceFacts facts_of(const nlohmann::json& json);
Measurement measurement_of(const nlohmann::json& json);
Job job_of(const nlohmann::json& json);

}  // namespace warptune
