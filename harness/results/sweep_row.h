#pragma once
// A row of a sweep's CSV, schema 1. One table of columns defines the writer, the reader, the worker's
// protocol and docs/csv-schema.md.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/core/facts.h"
#include "harness/core/op.h"
#include "harness/measure/measurement.h"
#include "harness/results/csv.h"
#include "harness/results/run_info.h"

namespace warptune {

struct SweepRow {
  RunInfo run;
  std::string timestamp_utc;
  DeviceFacts facts;
  Problem problem;
  std::string variant;
  Config config;
  std::string cache;  // "cold", "hot", "isolated" or "step"
  Cost cost;
  Measurement measurement;
  std::string step = {};  // the key of the model step that was timed; empty: a launch was timed
};

/// The value of a field; monostate and NaN: not measured, the field is empty.
using FieldValue = std::variant<std::monostate, std::string, std::int64_t, double>;

/// time: a real number above 0.
enum class ColumnType { text, whole, real, time };

struct Column {
  std::string_view name;
  ColumnType type;
  std::string_view unit;  // empty: none
  std::string_view doc;   // one phrase, Markdown
  FieldValue (*get)(const SweepRow&);
  void (*set)(Measurement&, const FieldValue&) = nullptr;  // null: not part of a measurement
  bool is_newer = false;                                   // older files of schema 1 lack it
};

/// All columns, in the order of the file.
std::span<const Column> sweep_table();
/// Their names.
const std::vector<std::string>& sweep_columns();

/// One field per column; empty if not measured.
std::vector<std::string> fields_of(const SweepRow& row);
/// The measurement in a row. A missing column counts as empty.
Measurement measurement_of_row(const CsvRow& row);
/// How the times of a row were sampled. Of a file without that column `detail` and `cache` tell.
SamplingClass sampling_of(const CsvRow& row);
/// The columns as the Markdown table of docs/csv-schema.md.
std::string columns_markdown();

}  // namespace warptune
