#pragma once
// The CSV of a sweep, schema 1: its columns, and the row of a measurement. docs/csv-schema.md explains them.
#include <map>
#include <string>
#include <vector>

#include "harness/core/facts.h"
#include "harness/core/op.h"
#include "harness/measure/measurement.h"
#include "harness/results/run_info.h"

namespace warptune {

const std::vector<std::string>& sweep_columns();

struct SweepRow {
  RunInfo run;
  std::string timestamp_utc;
  DeviceFacts facts;
  Problem problem;
  std::string variant;
  Config config;
  std::string cache;  // "cold" or "hot"
  Cost cost;
  Measurement measurement;
};

/// One field per column. What was not measured is empty.
std::vector<std::string> fields_of(const SweepRow& row);
/// What a row says of its measurement.
Measurement measurement_of_row(const std::map<std::string, std::string>& row);

}  // namespace warptune
