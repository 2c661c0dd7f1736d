// A comparison for CI systems and dashboards.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/core/brief.h"
#include "harness/results/benchmark_json.h"
#include "harness/results/compare_report.h"
#include "harness/results/run_info.h"

namespace warptune {
namespace {
using OrderedJson = nlohmann::ordered_json;

/// A text in an attribute of XML 1.0, which has no control characters.
std::string xml(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// What JUnit calls a verdict: empty for a test that passed.
std::string_view element_of(Change change) {
  if (change == Change::slower) return "failure";
  if (change == Change::missing) return "error";
  return change == Change::ambiguous || change == Change::fresh ? "skipped" : "";
}

std::string change_text(const RowChange& row) {
  std::string text(name_of(row.change));
  if (std::isfinite(row.effect))
    text += fmt::format(" {:+.2f} %: {:.3f} -> {:.3f} us", 100 * row.effect, row.base.time_us(),
                        row.now.time_us());
  return row.note.empty() ? text : text + "; " + row.note;
}

/// The name of a row's benchmark; rows of other cache states than cold end in theirs.
std::string benchmark_of(const TimedConfig& row) {
  return benchmark_name(row.problem, row.variant, row.config) + (row.cache == "cold" ? "" : "/" + row.cache);
}

std::string dump(const OrderedJson& json) {
  return json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace

std::string as_junit(const Comparison& c) {
  std::string cases;
  for (const RowChange& row : c.rows) {
    const TimedConfig& key = row.row();
    const double us = row.now.time_us();
    cases += fmt::format("  <testcase classname=\"{}\" name=\"{}\" time=\"{:.9f}\">",
                         xml(key.device + "." + key.op),
                         xml(fmt::format("{} {}{}{} {}", key.problem, key.variant,
                                         key.config.empty() ? "" : " ", key.config, key.cache)),
                         std::isfinite(us) ? us * 1e-6 : 0);
    const std::string_view element = element_of(row.change);
    if (!element.empty()) cases += fmt::format("<{} message=\"{}\"/>", element, xml(change_text(row)));
    cases += "</testcase>\n";
  }
  const auto count = [&](std::string_view element) {
    return std::ranges::count_if(c.rows,
                                 [&](const RowChange& row) { return element_of(row.change) == element; });
  };
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n <testsuite name=\"warptune\" tests=\"{}\" "
      "failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n{} </testsuite>\n</testsuites>\n",
      c.rows.size(), count("failure"), count("error"), count("skipped"), cases);
}

std::string as_google_benchmark(const Comparison& c) {
  OrderedJson benchmarks = OrderedJson::array();
  for (const RowChange& row : c.rows) {
    const std::string name = benchmark_of(row.row());
    OrderedJson entry = {{"name", name},
                         {"family_index", benchmarks.size()},
                         {"per_family_instance_index", 0},
                         {"run_name", name},
                         {"run_type", "iteration"},
                         {"repetitions", 1},
                         {"repetition_index", 0},
                         {"threads", 1}};
    if (row.change == Change::missing) {
      entry["error_occurred"] = true;
      entry["error_message"] = change_text(row);
      entry["iterations"] = 0;
    } else {
      entry["iterations"] = row.now.runs.size();
    }
    const double us = row.change == Change::missing ? 0 : row.now.time_us();
    entry["real_time"] = us;
    entry["cpu_time"] = 0;  // required, and not measured
    entry["time_unit"] = "us";
    entry["label"] = change_text(row);
    benchmarks.push_back(std::move(entry));
  }
  const OrderedJson context = {{"date", timestamp_utc()},
                               {"executable", "warptune"},
                               {"json_schema_version", 1},
                               {"device", c.rows.empty() ? "" : c.rows.front().row().device}};
  return dump({{"context", context}, {"benchmarks", std::move(benchmarks)}});
}

std::string as_bencher(const Comparison& c) {
  OrderedJson metrics = OrderedJson::object();
  for (const RowChange& row : c.rows) {
    if (row.now.runs.empty()) continue;
    const auto [low, high] = std::ranges::minmax(row.now.times_us());
    // Bencher's measure `latency` is in nanoseconds.
    metrics[benchmark_of(row.row())] = {
        {"latency",
         {{"value", row.now.time_us() * 1e3}, {"lower_value", low * 1e3}, {"upper_value", high * 1e3}}}};
  }
  return dump(metrics);
}

std::string formatted(const Comparison& c, const std::string& format) {
  if (format == "markdown") return as_markdown(c);
  if (format == "json") return as_json(c);
  if (format == "junit") return as_junit(c);
  if (format == "google-benchmark") return as_google_benchmark(c);
  if (format == "bencher") return as_bencher(c);
  return as_text(c);
}

}  // namespace warptune
