#include "harness/results/sweep_row.h"

#include <fmt/format.h>

#include <cmath>
#include <concepts>
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

bool is_sampled(const Measurement& m) { return m.samples > 0; }
bool is_any(const Measurement&) { return true; }

FieldValue when(bool known, FieldValue value) { return known ? std::move(value) : FieldValue(); }

std::string text_of(const FieldValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text ? *text : std::string();
}

FieldValue value_of(std::floating_point auto number) { return number; }
FieldValue value_of(std::integral auto number) { return std::int64_t{number}; }
/// Sets a member to the number of a field; without a number the member keeps its default.
template <class T>
void put(T& member, const FieldValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value))
    member = static_cast<T>(*whole);
  else if (const auto* real = std::get_if<double>(&value); real && std::is_floating_point_v<T>)
    member = static_cast<T>(*real);
}

using Row = const SweepRow&;
using Field = const FieldValue&;

/// The member that a path of members leads to.
template <auto first, auto... rest>
auto& at(auto& object) {
  if constexpr (sizeof...(rest) == 0)
    return object.*first;
  else
    return at<rest...>(object.*first);
}

/// A column with the number at a path, in rows whose measurement is `known`.
template <bool (*known)(const Measurement&), auto... path>
constexpr Column number(std::string_view name, ColumnType type, std::string_view unit, std::string_view doc,
                        bool is_newer = false) {
  return {name,
          type,
          unit,
          doc,
          [](Row r) { return when(known(r.measurement), value_of(at<path...>(r.measurement))); },
          [](Measurement& m, Field v) { put(at<path...>(m), v); },
          is_newer};
}
constexpr Column text(std::string_view name, std::string_view doc, FieldValue (*get)(Row),
                      void (*set)(Measurement&, Field) = nullptr, bool is_newer = false) {
  return {name, ColumnType::text, "", doc, get, set, is_newer};
}

using M = Measurement;
constexpr auto kTime = ColumnType::time;
constexpr auto kReal = ColumnType::real;
constexpr auto kWhole = ColumnType::whole;

constexpr Column kColumns[] = {
    text("schema", "1", [](Row) -> FieldValue { return "1"; }),
    text("run_id", "start of the run and a random number; the same in `wisdom.json`",
         [](Row r) -> FieldValue { return r.run.run_id; }),
    text("timestamp_utc", "when the row was written, ISO 8601",
         [](Row r) -> FieldValue { return r.timestamp_utc; }),
    text("git_commit",
         "the sources that the program was built from, `-dirty` with changes; empty outside a checkout",
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
    text(
        "status",
        "ok, constraint, compile_error, resource, launch_error, wrong_result, timeout, crash, too_fast",
        [](Row r) -> FieldValue { return std::string(name_of(r.measurement.status)); },
        [](M& m, Field v) { m.status = parse_status(text_of(v)); }),
    text(
        "detail",
        "one line: why there is no time, or how an ok row was sampled (\"stopped at max_time with an "
        "interval of "
        "1.3 %\", \"abandoned after 6 samples\")",
        [](Row r) -> FieldValue { return one_line(r.measurement.detail); },
        [](M& m, Field v) { m.detail = text_of(v); }),
    number<is_any, &M::time_us>("time_us", kTime, "us per launch", "median of the samples"),
    number<is_any, &M::time_us_min>("time_us_min", kTime, "us", "the smallest sample"),
    number<is_any, &M::time_us_p10>("time_us_p10", kTime, "us", "10th percentile"),
    number<is_any, &M::time_us_p90>("time_us_p90", kTime, "us", "90th percentile"),
    number<is_any, &M::ci_low_us>(
        "ci_low_us", kTime, "us",
        "95 % confidence interval of the median, lower end; with fewer than 6 samples the smallest; of "
        "what is timed interleaved without the drift that all share"),
    number<is_any, &M::ci_high_us>("ci_high_us", kTime, "us",
                                   "upper end; with fewer than 6 samples the largest"),
    number<is_sampled, &M::samples>("samples", kWhole, "", "graph replays that were timed"),
    number<is_sampled, &M::launches_per_sample>("launches_per_sample", kWhole, "", "launches in each"),
    text("cache",
         "cold, hot, isolated (a flush before each sample of one launch), or step (the time is that of a "
         "whole decode step)",
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
     [](M& m, Field v) { put(m.floor_us, v); }},
    {"pct_floor", kReal, "%", "100 * floor_us / time_us",
     [](Row r) {
       const M& m = r.measurement;
       return when(is_timed(m) && m.floor_us > 0, 100 * m.floor_us / m.time_us);
     }},
    number<is_any, &M::max_abs_err>(
        "max_abs_err", kReal, "",
        "against the fp64 reference, the largest of the checks before and after timing"),
    number<is_any, &M::rel_l2_err>(
        "rel_l2_err", kReal, "",
        "the same, as relative L2 error; of a step: of its logits against the naive plans, the worst row"),
    number<is_compiled, &M::resources, &Resources::registers>(
        "registers", kWhole, "per thread", "the largest over the kernels of the configuration"),
    number<is_compiled, &M::resources, &Resources::shared_bytes>("shared_bytes", kWhole, "bytes per block",
                                                                 "static and dynamic"),
    number<is_compiled, &M::resources, &Resources::spill_bytes>(
        "spill_bytes", kWhole, "bytes", "spill stores and loads, as the compiler counts them"),
    number<is_compiled, &M::resources, &Resources::occupancy_pct>("occupancy_pct", kReal, "%",
                                                                  "resident threads per SM over the maximum"),
    number<is_any, &M::clocks, &Clocks::sm_mhz>("sm_clock_mhz", kReal, "MHz",
                                                "median clock of the samples, from NVML"),
    number<is_any, &M::clocks, &Clocks::mem_mhz>("mem_clock_mhz", kReal, "MHz",
                                                 "the same of the memory clock", true),
    number<is_any, &M::clocks, &Clocks::temperature_c>("temperature_c", kReal, "degrees C",
                                                       "after the samples"),
    number<is_any, &M::clocks, &Clocks::power_w>("power_w", kReal, "W", "after the samples"),
    text(
        "throttled", "throttle reasons, `none`, or empty where unknown",
        [](Row r) -> FieldValue { return r.measurement.clocks.throttled; },
        [](M& m, Field v) { m.clocks.throttled = text_of(v); }),
    number<is_compiled, &M::resources, &Resources::compile_ms>(
        "compile_ms", kReal, "ms", "time to compile; 0 where the machine code was in the cache"),
    text(
        "code_hash",
        "the machine code of all kernels of the configuration with their launch geometry, architecture and "
        "toolkit; empty for host and library variants",
        [](Row r) -> FieldValue { return r.measurement.resources.code_hash; },
        [](M& m, Field v) { m.resources.code_hash = text_of(v); }, true),
    text(
        "sampling",
        "screened; abandoned (surely slower than the best); single (the only configuration of its problem); "
        "finalist; other_cache (a finalist in another cache state); rerun; fresh_process (a winner or the "
        "next finalists, at the end of the sweep). Empty where there is no time",
        [](Row r) { return when(is_timed(r.measurement), std::string(name_of(r.measurement.sampling))); },
        [](M& m, Field v) {
          const std::string name = text_of(v);
          m.sampling = name.empty() ? SamplingClass::screened : parse_sampling_class(name);
        },
        true),
    text(
        "step",
        "the model step that was timed with this configuration: "
        "`step[model=llama3.2-1b,batch=1,context=512,dtype=bf16]`; empty for a launch",
        [](Row r) -> FieldValue { return r.step; }, nullptr, true),
    text(
        "card", "the UUID of the GPU, as `nvidia-smi -L` prints it; `host` for the host device",
        [](Row r) -> FieldValue { return r.facts.id; }, nullptr, true),
    number<is_any, &M::energy_uj>("energy_uj", kReal, "uJ per launch",
                                  "of a finalist under steady load, where the sweep's objective needs it",
                                  true),
    number<is_any, &M::sustained_us>("sustained_us", kReal, "us per launch",
                                     "of a finalist after ten seconds of steady load, where the sweep has "
                                     "`sustained: true`",
                                     true),
    number<is_any, &M::sustained_power_w>("sustained_power_w", kReal, "W",
                                          "of the whole board at the end of that load", true),
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

Measurement measurement_of_row(const CsvRow& row) {
  Measurement m;
  for (const Column& column : kColumns) {
    if (!column.set) continue;
    column.set(m, parsed(field(row, std::string(column.name)), column.type));
  }
  m.sampling = sampling_of(row);
  return m;
}

SamplingClass sampling_of(const CsvRow& row) {
  if (const std::string name = field(row, "sampling"); !name.empty()) return parse_sampling_class(name);
  const std::string &detail = field(row, "detail"), &cache = field(row, "cache");
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
