#include "harness/results/sweep_row.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "harness/measure/sampler.h"

namespace warptune {
namespace {

constexpr std::size_t kLongestDetail = 600;

/// One line of bounded length, so that a row is one line.
std::string one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool space = c == '\n' || c == '\r' || c == '\t' || c == ' ';
    if (!space)
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  if (line.size() > kLongestDetail) line = line.substr(0, kLongestDetail) + " ...";
  return line;
}

bool is_timed(const Measurement& m) { return std::isfinite(m.time_us) && m.time_us > 0; }
bool is_compiled(const Measurement& m) { return m.resources.registers > 0; }

FieldValue when(bool known, FieldValue value) { return known ? std::move(value) : FieldValue(); }

double real_of(const FieldValue& value) {
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  return Measurement::NAN_VALUE;
}
double real_or_zero(const FieldValue& value) {
  const double real = real_of(value);
  return std::isnan(real) ? 0 : real;
}
std::int64_t whole_of(const FieldValue& value) {
  const auto* whole = std::get_if<std::int64_t>(&value);
  return whole ? *whole : 0;
}
std::string text_of(const FieldValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text ? *text : std::string();
}

// Makers of columns, by the part of a row that they read.
using Row = const SweepRow&;
using Field = const FieldValue&;

template <double Measurement::*member>
constexpr Column measured(std::string_view name, ColumnType type, std::string_view unit,
                          std::string_view doc) {
  return {name,
          type,
          unit,
          doc,
          [](Row r) -> FieldValue { return r.measurement.*member; },
          [](Measurement& m, Field v) { m.*member = real_of(v); }};
}
template <double Clocks::*member>
constexpr Column clock(std::string_view name, std::string_view unit, std::string_view doc,
                       bool is_newer = false) {
  return {name,
          ColumnType::real,
          unit,
          doc,
          [](Row r) -> FieldValue { return r.measurement.clocks.*member; },
          [](Measurement& m, Field v) { m.clocks.*member = real_of(v); },
          is_newer};
}
template <int Measurement::*member>
constexpr Column count(std::string_view name, std::string_view doc) {
  return {name,
          ColumnType::whole,
          "",
          doc,
          [](Row r) { return when(r.measurement.samples > 0, std::int64_t{r.measurement.*member}); },
          [](Measurement& m, Field v) { m.*member = static_cast<int>(whole_of(v)); }};
}
template <auto member>
constexpr Column resource(std::string_view name, std::string_view unit, std::string_view doc) {
  return {name,
          ColumnType::whole,
          unit,
          doc,
          [](Row r) {
            return when(is_compiled(r.measurement),
                        static_cast<std::int64_t>(r.measurement.resources.*member));
          },
          [](Measurement& m, Field v) {
            m.resources.*member = static_cast<std::decay_t<decltype(m.resources.*member)>>(whole_of(v));
          }};
}
template <double Resources::*member>
constexpr Column resource_real(std::string_view name, std::string_view unit, std::string_view doc) {
  return {name,
          ColumnType::real,
          unit,
          doc,
          [](Row r) { return when(is_compiled(r.measurement), r.measurement.resources.*member); },
          [](Measurement& m, Field v) { m.resources.*member = real_or_zero(v); }};
}
constexpr Column text(std::string_view name, std::string_view doc, FieldValue (*get)(Row)) {
  return {name, ColumnType::text, "", doc, get};
}

using M = Measurement;
constexpr auto kTime = ColumnType::time;
constexpr auto kReal = ColumnType::real;

constexpr Column kColumns[] = {
    text("schema", "1", [](Row) -> FieldValue { return "1"; }),
    text("run_id", "start of the run and a random number; the same in `wisdom.json`",
         [](Row r) -> FieldValue { return r.run.run_id; }),
    text("timestamp_utc", "when the row was written, ISO 8601",
         [](Row r) -> FieldValue { return r.timestamp_utc; }),
    text("git_commit", "the sources that the program was built from; empty outside a checkout",
         [](Row r) -> FieldValue { return r.run.git_commit; }),
    text("host", "name of the machine", [](Row r) -> FieldValue { return r.run.host; }),
    text("device", "`NVIDIA H200`", [](Row r) -> FieldValue { return r.facts.name; }),
    text("arch", "`sm_90a`", [](Row r) -> FieldValue { return r.facts.arch; }),
    text("driver", "version; empty on the host device", [](Row r) -> FieldValue { return r.facts.driver; }),
    text("toolkit", "version of the CUDA Toolkit; empty on the host device",
         [](Row r) -> FieldValue { return r.facts.toolkit; }),
    text("op", "the op", [](Row r) -> FieldValue { return r.problem.op; }),
    text("problem", "the key of the problem everywhere: `rms_norm[tokens=1,hidden=4096,dtype=bf16]`",
         [](Row r) -> FieldValue { return r.problem.key(); }),
    text("dtype", "of the problem",
         [](Row r) -> FieldValue { return std::string(name_of(r.problem.dtype)); }),
    text("variant", "the implementation", [](Row r) -> FieldValue { return r.variant; }),
    text("config", "the values of its parameters: `block=256,vec=8`",
         [](Row r) -> FieldValue { return r.config.str(); }),
    {"status", ColumnType::text, "",
     "ok, constraint, compile_error, resource, launch_error, wrong_result, timeout, crash, too_fast",
     [](Row r) -> FieldValue { return std::string(name_of(r.measurement.status)); },
     [](M& m, Field v) { m.status = parse_status(text_of(v)); }},
    {"detail", ColumnType::text, "",
     "one line: why there is no time, or how an ok row was sampled (\"stopped at max_time with an interval "
     "of 1.3 %\", "
     "\"abandoned after 6 samples\")",
     [](Row r) -> FieldValue { return one_line(r.measurement.detail); },
     [](M& m, Field v) { m.detail = text_of(v); }},
    measured<&M::time_us>("time_us", kTime, "us per launch", "median of the samples"),
    measured<&M::time_us_min>("time_us_min", kTime, "us", "the smallest sample"),
    measured<&M::time_us_p10>("time_us_p10", kTime, "us", "10th percentile"),
    measured<&M::time_us_p90>("time_us_p90", kTime, "us", "90th percentile"),
    measured<&M::ci_low_us>(
        "ci_low_us", kTime, "us",
        "95 % confidence interval of the median, lower end; with fewer than 6 samples the smallest"),
    measured<&M::ci_high_us>("ci_high_us", kTime, "us", "upper end; with fewer than 6 samples the largest"),
    count<&M::samples>("samples", "graph replays that were timed"),
    count<&M::launches_per_sample>("launches_per_sample", "launches in each"),
    text("cache",
         "cold, hot, isolated (a flush before each sample of one launch), or step (the time is that of a "
         "whole "
         "decode step)",
         [](Row r) -> FieldValue { return r.cache; }),
    {"bytes", ColumnType::whole, "bytes", "compulsory traffic of the problem: each needed byte once",
     [](Row r) -> FieldValue { return std::llround(r.cost.bytes); }},
    {"flops", ColumnType::whole, "FLOP", "arithmetic of the problem",
     [](Row r) -> FieldValue { return std::llround(r.cost.flops); }},
    {"gb_per_s", kReal, "GB/s", "bytes over time_us",
     [](Row r) { return when(is_timed(r.measurement), r.cost.bytes / r.measurement.time_us * 1e-3); }},
    {"tflop_per_s", kReal, "TFLOP/s", "flops over time_us",
     [](Row r) { return when(is_timed(r.measurement), r.cost.flops / r.measurement.time_us * 1e-6); }},
    {"floor_us", kReal, "us",
     "roofline floor: the larger of bytes over measured read bandwidth and flops over the measured rate",
     [](Row r) { return when(r.measurement.floor_us > 0, r.measurement.floor_us); },
     [](M& m, Field v) { m.floor_us = real_of(v); }},
    {"pct_floor", kReal, "%", "100 * floor_us / time_us",
     [](Row r) {
       const M& m = r.measurement;
       return when(is_timed(m) && m.floor_us > 0, 100 * m.floor_us / m.time_us);
     }},
    measured<&M::max_abs_err>(
        "max_abs_err", kReal, "",
        "against the fp64 reference, the largest of the checks before and after timing"),
    measured<&M::rel_l2_err>(
        "rel_l2_err", kReal, "",
        "the same, as relative L2 error; of a step: of its logits against the naive plans, the worst row"),
    resource<&Resources::registers>("registers", "per thread",
                                    "the largest over the kernels of the configuration"),
    resource<&Resources::shared_bytes>("shared_bytes", "bytes per block", "static and dynamic"),
    resource<&Resources::spill_bytes>("spill_bytes", "bytes",
                                      "spill stores and loads, as the compiler counts them"),
    resource_real<&Resources::occupancy_pct>("occupancy_pct", "%",
                                             "resident threads per SM over the maximum"),
    clock<&Clocks::sm_mhz>("sm_clock_mhz", "MHz", "median clock of the samples, from NVML"),
    clock<&Clocks::mem_mhz>("mem_clock_mhz", "MHz", "the same of the memory clock", true),
    clock<&Clocks::temperature_c>("temperature_c", "degrees C", "after the samples"),
    clock<&Clocks::power_w>("power_w", "W", "after the samples"),
    {"throttled", ColumnType::text, "", "throttle reasons, `none`, or empty where unknown",
     [](Row r) -> FieldValue { return r.measurement.clocks.throttled; },
     [](M& m, Field v) { m.clocks.throttled = text_of(v); }},
    resource_real<&Resources::compile_ms>("compile_ms", "ms",
                                          "time to compile; 0 where the machine code was in the cache"),
    {"code_hash", ColumnType::text, "",
     "the machine code of all kernels of the configuration with their launch geometry, architecture and "
     "toolkit; empty "
     "for host and library variants",
     [](Row r) -> FieldValue { return r.measurement.resources.code_hash; },
     [](M& m, Field v) { m.resources.code_hash = text_of(v); }, true},
    {"sampling", ColumnType::text, "",
     "screened; abandoned (surely slower than the best); single (the only configuration of its problem); "
     "finalist; other_cache (a finalist in another cache state); rerun. Empty where there is no time",
     [](Row r) { return when(is_timed(r.measurement), std::string(name_of(r.measurement.sampling))); },
     [](M& m, Field v) {
       const std::string name = text_of(v);
       m.sampling = name.empty() ? SamplingClass::screened : parse_sampling_class(name);
     },
     true},
    {"step", ColumnType::text, "",
     "the model step that was timed with this configuration: "
     "`step[model=llama3.2-1b,batch=1,context=512,dtype=bf16]`; empty for a launch",
     [](Row r) -> FieldValue { return r.step; }, nullptr, true},
};

std::string formatted(const FieldValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *whole);
  const auto* real = std::get_if<double>(&value);
  return real && std::isfinite(*real) ? fmt::format("{:.6g}", *real) : std::string();
}

FieldValue parsed(const std::string& field, ColumnType type) {
  if (type == ColumnType::text) return field;
  if (field.empty()) return {};
  if (type == ColumnType::whole) return std::int64_t{std::strtoll(field.c_str(), nullptr, 10)};
  return std::strtod(field.c_str(), nullptr);
}

}  // namespace

std::span<const Column> sweep_table() { return kColumns; }

const std::vector<std::string>& sweep_columns() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Column& column : kColumns) list.emplace_back(column.name);
    return list;
  }();
  return names;
}

std::vector<std::string> fields_of(const SweepRow& row) {
  std::vector<std::string> fields;
  for (const Column& column : kColumns) fields.push_back(formatted(column.get(row)));
  return fields;
}

Measurement measurement_of_row(const std::map<std::string, std::string>& row) {
  Measurement m;
  for (const Column& column : kColumns) {
    if (!column.set) continue;
    const auto field = row.find(std::string(column.name));
    column.set(m, parsed(field == row.end() ? std::string() : field->second, column.type));
  }
  m.sampling = sampling_of(row);
  return m;
}

SamplingClass sampling_of(const std::map<std::string, std::string>& row) {
  const auto field = [&](const char* name) {
    const auto it = row.find(name);
    return it == row.end() ? std::string() : it->second;
  };
  if (const std::string name = field("sampling"); !name.empty()) return parse_sampling_class(name);
  const std::string detail = field("detail"), cache = field("cache");
  if (cache == "isolated") return SamplingClass::other_cache;
  if (detail.starts_with("finalist")) return SamplingClass::finalist;
  return detail.find(kAbandoned) != std::string::npos ? SamplingClass::abandoned : SamplingClass::screened;
}

std::string columns_markdown() {
  std::string table = "| column | unit | meaning |\n|---|---|---|\n";
  for (const Column& column : kColumns)
    table += fmt::format("| {} |{}| {} |\n", column.name,
                         column.unit.empty() ? " " : fmt::format(" {} ", column.unit), column.doc);
  return table;
}

}  // namespace warptune
