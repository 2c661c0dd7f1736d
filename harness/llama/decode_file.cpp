// The CSV of decode.
#include <fmt/format.h>

#include <cmath>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/llama/decode_report.h"
#include "harness/results/sweep_file.h"
#include "harness/results/sweep_row.h"
#include "harness/results/wisdom.h"

namespace warptune {
namespace {

/// What a row holds.
struct DecodeRow {
  const DecodeReport& report;
  const DeviceFacts& facts;
  const RunInfo& run;
  const std::string& timestamp;
};
using Row = const DecodeRow&;

struct DecodeColumn {
  const char* name;
  std::string (*field)(Row);
  bool is_number = false;
};

std::string decimal(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "";
}

constexpr bool kNumber = true;
constexpr DecodeColumn kColumns[] = {
    {"schema", [](Row) { return std::string("1"); }},
    {"run_id", [](Row r) { return r.run.run_id; }},
    {"timestamp_utc", [](Row r) { return r.timestamp; }},
    {"git_commit", [](Row r) { return r.run.git_commit; }},
    {"host", [](Row r) { return r.run.host; }},
    {"device", [](Row r) { return r.facts.name; }},
    {"model", [](Row r) { return r.report.model; }},
    {"dtype", [](Row r) { return r.report.dtype; }},
    {"batch", [](Row r) { return std::to_string(r.report.batch); }, kNumber},
    {"prompt_len", [](Row r) { return std::to_string(r.report.prompt_len); }, kNumber},
    {"context", [](Row r) { return std::to_string(r.report.step.context); }, kNumber},
    {"steps", [](Row r) { return std::to_string(r.report.steps); }, kNumber},
    {"plan_set", [](Row r) { return r.report.plan_set; }},
    {"graph", [](Row r) { return std::string(r.report.graph ? "on" : "off"); }},
    {"us_per_token", [](Row r) { return decimal(r.report.step.us, 3); }, kNumber},
    {"us_per_token_p10", [](Row r) { return decimal(r.report.step.us_p10, 3); }, kNumber},
    {"us_per_token_p90", [](Row r) { return decimal(r.report.step.us_p90, 3); }, kNumber},
    {"tokens_per_s", [](Row r) { return decimal(r.report.tokens_per_s(), 2); }, kNumber},
    {"prefill_us", [](Row r) { return decimal(r.report.prefill_us, 3); }, kNumber},
    {"sum_of_ops_us", [](Row r) { return decimal(r.report.sum_of_ops_us(), 3); }, kNumber},
    {"floor_us", [](Row r) { return decimal(r.report.floor_us > 0 ? r.report.floor_us : NAN, 3); }, kNumber},
    {"pct_floor", [](Row r) { return decimal(r.report.floor_us > 0 ? r.report.pct_floor() : NAN, 2); },
     kNumber},
    {"device_memory_mib", [](Row r) { return decimal(r.report.device_memory_mib, 1); }, kNumber},
    {"check", [](Row r) { return r.report.check; }},
    {"ranks", [](Row r) { return std::to_string(r.report.ranks); }, kNumber},
};

/// The error in a row, or empty.
std::string fault_of(const CsvRow& row) {
  if (row.at("schema") != "1")
    return fmt::format("schema '{}'; this program reads schema 1", brief(row.at("schema")));
  for (const DecodeColumn& column : kColumns)
    if (const std::string& text = row.at(column.name); column.is_number && !text.empty() && !number_of(text))
      return fmt::format("{} is '{}', which is not a number", column.name, brief(text));
  return {};
}

/// Adds the column `ranks`, the last, to a file that was written before there was one: its runs had one.
void add_ranks(const std::filesystem::path& path, const std::function<void(const std::string&)>& tell) {
  std::vector<std::string> without = decode_columns();
  without.pop_back();
  if (!std::filesystem::exists(path) || csv_columns(path) != without) return;
  if (const std::string note = CsvFile(path, without).note(); !note.empty()) tell(note);
  std::vector<CsvRow> rows = read_csv(path);
  for (CsvRow& row : rows) row.emplace("ranks", "1");
  write_csv(path, decode_columns(), rows);
}

}  // namespace

const std::vector<std::string>& decode_columns() {
  static const std::vector<std::string> names = names_of(kColumns);
  return names;
}

std::vector<std::string> to_row(const DecodeReport& report, const DeviceFacts& facts, const RunInfo& run,
                                const std::string& timestamp) {
  std::vector<std::string> fields;
  for (const DecodeColumn& column : kColumns) fields.push_back(column.field({report, facts, run, timestamp}));
  return fields;
}

CsvRow history_row(const DecodeReport& report, const DeviceFacts& facts, const RunInfo& run,
                   const std::string& timestamp) {
  CsvRow row;
  for (const std::string& column : sweep_columns()) row[column];
  const auto fields = to_row(report, facts, run, timestamp);
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (const auto at = row.find(kColumns[i].name); at != row.end()) at->second = fields[i];
  row["arch"] = facts.arch;
  row["driver"] = facts.driver;
  row["toolkit"] = facts.toolkit;
  row["card"] = facts.id;
  row["op"] = kStepOp;
  const std::string ranks = report.ranks == 1 ? "" : fmt::format("ranks={},", report.ranks);
  row["problem"] = fmt::format("{}[model={},batch={},context={},{}dtype={}]", kStepOp, report.model,
                               report.batch, report.step.context, ranks, report.dtype);
  row["variant"] = report.plan_set;
  row["config"] = fmt::format("prompt_len={},steps={},graph={}", report.prompt_len, report.steps,
                              report.graph ? "on" : "off");
  row["status"] = "ok";
  row["time_us"] = decimal(report.step.us, 3);
  row["time_us_p10"] = decimal(report.step.us_p10, 3);
  row["time_us_p90"] = decimal(report.step.us_p90, 3);
  row["cache"] = kStepCache;
  row["sampling"] = name_of(SamplingClass::rerun);
  return row;
}

std::unique_ptr<CsvFile> open_decode_csv(const std::filesystem::path& path,
                                         const std::function<void(const std::string&)>& tell) try {
  add_ranks(path, tell);
  auto csv = std::make_unique<CsvFile>(path, decode_columns());
  if (const std::string note = csv->note(); !note.empty()) tell(note);
  for_each_row(path, [&](int line, const auto& row) {
    if (const std::string fault = fault_of(row); !fault.empty())
      throw InputError("{}:{}: {}", path.string(), line, fault);
  });
  return csv;
} catch (const std::exception& e) {  // the user chose the folder: an error is bad input
  throw InputError(e.what());
}

}  // namespace warptune
