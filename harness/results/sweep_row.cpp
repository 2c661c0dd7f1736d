#include "harness/results/sweep_row.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "harness/measure/sampler.h"

namespace warptune {
namespace {

constexpr std::size_t kLongestDetail = 600;

std::string number(double value) { return std::isfinite(value) ? fmt::format("{:.6g}", value) : ""; }

/// One line of bounded length, so that a row is a line.
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

}  // namespace

const std::vector<std::string>& sweep_columns() {
  static const std::vector<std::string> columns = {
      "schema",        "run_id",       "timestamp_utc", "git_commit", "host",         "device",
      "arch",          "driver",       "toolkit",       "op",         "problem",      "dtype",
      "variant",       "config",       "status",        "detail",     "time_us",      "time_us_min",
      "time_us_p10",   "time_us_p90",  "ci_low_us",     "ci_high_us", "samples",      "launches_per_sample",
      "cache",         "bytes",        "flops",         "gb_per_s",   "tflop_per_s",  "floor_us",
      "pct_floor",     "max_abs_err",  "rel_l2_err",    "registers",  "shared_bytes", "spill_bytes",
      "occupancy_pct", "sm_clock_mhz", "temperature_c", "power_w",    "throttled",    "compile_ms"};
  return columns;
}

std::vector<std::string> fields_of(const SweepRow& row) {
  const Measurement& m = row.measurement;
  const Resources& r = m.resources;
  const bool timed = std::isfinite(m.time_us) && m.time_us > 0;
  const bool compiled = r.registers > 0;
  const auto count = [](bool known, auto value) { return known ? fmt::format("{}", value) : std::string(); };
  return {"1",
          row.run.run_id,
          row.timestamp_utc,
          row.run.git_commit,
          row.run.host,
          row.facts.name,
          row.facts.arch,
          row.facts.driver,
          row.facts.toolkit,
          row.problem.op,
          row.problem.key(),
          std::string(name_of(row.problem.dtype)),
          row.variant,
          row.config.str(),
          std::string(name_of(m.status)),
          one_line(m.detail),
          number(m.time_us),
          number(m.time_us_min),
          number(m.time_us_p10),
          number(m.time_us_p90),
          number(m.ci_low_us),
          number(m.ci_high_us),
          count(m.samples > 0, m.samples),
          count(m.samples > 0, m.launches_per_sample),
          row.cache,
          fmt::format("{:.0f}", row.cost.bytes),
          fmt::format("{:.0f}", row.cost.flops),
          timed ? number(row.cost.bytes / m.time_us * 1e-3) : "",
          timed ? number(row.cost.flops / m.time_us * 1e-6) : "",
          m.floor_us > 0 ? number(m.floor_us) : "",
          timed && m.floor_us > 0 ? number(100 * m.floor_us / m.time_us) : "",
          number(m.max_abs_err),
          number(m.rel_l2_err),
          count(compiled, r.registers),
          count(compiled, r.shared_bytes),
          count(compiled, r.spill_bytes),
          compiled ? number(r.occupancy_pct) : "",
          number(m.clocks.sm_mhz),
          number(m.clocks.temperature_c),
          number(m.clocks.power_w),
          m.clocks.throttled,
          compiled ? number(r.compile_ms) : ""};
}

Measurement measurement_of_row(const std::map<std::string, std::string>& row) {
  const auto value = [&](const char* column) {
    const std::string& text = row.at(column);
    return text.empty() ? NAN : std::strtod(text.c_str(), nullptr);
  };
  const auto whole = [&](const char* column) { return std::strtoll(row.at(column).c_str(), nullptr, 10); };
  const auto known = [](double v) { return std::isnan(v) ? 0 : v; };
  Measurement m;
  m.status = parse_status(row.at("status"));
  m.detail = row.at("detail");
  m.abandoned = m.status == Status::ok && m.detail.find(kAbandoned) != std::string::npos;
  m.time_us = value("time_us");
  m.time_us_min = value("time_us_min");
  m.time_us_p10 = value("time_us_p10");
  m.time_us_p90 = value("time_us_p90");
  m.ci_low_us = value("ci_low_us");
  m.ci_high_us = value("ci_high_us");
  m.samples = static_cast<int>(whole("samples"));
  m.launches_per_sample = static_cast<int>(whole("launches_per_sample"));
  m.floor_us = value("floor_us");
  m.max_abs_err = value("max_abs_err");
  m.rel_l2_err = value("rel_l2_err");
  m.resources.registers = static_cast<int>(whole("registers"));
  m.resources.shared_bytes = whole("shared_bytes");
  m.resources.spill_bytes = whole("spill_bytes");
  m.resources.occupancy_pct = known(value("occupancy_pct"));
  m.resources.compile_ms = known(value("compile_ms"));
  m.clocks = {value("sm_clock_mhz"), value("temperature_c"), value("power_w"), row.at("throttled")};
  return m;
}

}  // namespace warptune
