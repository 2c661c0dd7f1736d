#include "harness/results/compare_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/core/brief.h"
#include "harness/results/run_info.h"
#include "harness/results/wisdom_export.h"

namespace warptune {

namespace {
using OrderedJson = nlohmann::ordered_json;

constexpr Change kChanges[] = {Change::slower, Change::missing, Change::ambiguous,
                               Change::faster, Change::fresh,   Change::same};

constexpr std::size_t kSameRowsListed = 50;  // in Markdown

std::string time_text(double us) { return std::isfinite(us) ? fmt::format("{:.3f}", us) : ""; }
std::string effect_text(double effect) {
  return std::isfinite(effect) ? fmt::format("{:+.2f} %", 100 * effect) : "";
}
std::string p_text(double p) { return std::isfinite(p) ? fmt::format("{:.2g}", p) : ""; }

std::string name_text(const TimedConfig& row) {
  std::string name = row.problem + " " + row.variant;
  if (!row.config.empty()) name += " " + row.config;
  return printable(name + " " + row.cache);
}

/// A text in a cell of a Markdown table.
std::string cell_text(const std::string& text) {
  std::string cell;
  for (const char c : printable(text)) cell += c == '|' ? "\\|" : c == '`' ? "'" : std::string(1, c);
  return cell;
}

std::string summary(const Comparison& c) {
  std::string text;
  for (const Change change : kChanges)
    if (const std::size_t n = c.count(change))
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, name_of(change));
  if (c.matched == 0) text += text.empty() ? "no rows match" : "; no rows match";
  text += fmt::format(" (effect of at least {:.3g} %, family-wise alpha {:.3g}; {} of {} judged)",
                      100 * c.options.min_effect, c.options.alpha, c.judged, c.matched);
  if (const std::string why = c.why_unjudged(); !why.empty()) text += "; " + printable(why);
  return text;
}

/// A text in an attribute of XML 1.0, which has no control characters.
std::string xml(const std::string& text) {
  std::string out;
  for (const char c : printable(text))
    out += c == '&'   ? "&amp;"
           : c == '<' ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
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

std::string as_text(const Comparison& c) {
  std::string text =
      fmt::format("{:<9} {:>11} {:>11} {:>10} {:>8}  row\n", "verdict", "base us", "new us", "change", "p");
  const auto add = [&](const std::vector<RowChange>& rows) {
    for (const RowChange& row : rows)
      text += fmt::format("{:<9} {:>11} {:>11} {:>10} {:>8}  {}{}\n", name_of(row.change),
                          time_text(row.base.time_us()), time_text(row.now.time_us()),
                          effect_text(row.effect), p_text(row.p), name_text(row.row()),
                          row.note.empty() ? "" : "  (" + printable(row.note) + ")");
  };
  add(c.rows);
  if (!c.aside.empty()) text += "\nThese rows do not decide (neither a winner or finalist nor a rerun):\n";
  add(c.aside);
  return text + "\n" + summary(c) + "\n";
}

std::string as_markdown(const Comparison& c) {
  std::string text = "**" + summary(c) + "**\n\n| verdict | base us | new us | change | p | row | note |\n" +
                     "|---|---:|---:|---:|---:|---|---|\n";
  const bool lists_same = c.count(Change::same) <= kSameRowsListed;
  for (const auto* rows : {&c.rows, &c.aside})
    for (const RowChange& row : *rows) {
      if (row.change == Change::same && !lists_same) continue;
      text += fmt::format("| {} | {} | {} | {} | {} | `{}` | {}{} |\n", name_of(row.change),
                          time_text(row.base.time_us()), time_text(row.now.time_us()),
                          effect_text(row.effect), p_text(row.p), cell_text(name_text(row.row())),
                          rows == &c.aside ? "does not decide; " : "", cell_text(row.note));
    }
  return text;
}

std::string as_json(const Comparison& c) {
  OrderedJson json = {{"schema", 1},
                      {"min_effect", c.options.min_effect},
                      {"alpha", c.options.alpha},
                      {"matched", c.matched},
                      {"judged", c.judged},
                      {"exit_code", c.exit_code()},
                      {"counts", OrderedJson::object()},
                      {"rows", OrderedJson::array()}};
  for (const Change change : kChanges) json["counts"][std::string(name_of(change))] = c.count(change);
  const auto add = [&](const RowChange& row, bool decides) {
    const TimedConfig& key = row.row();
    json["rows"].push_back({{"verdict", name_of(row.change)},
                            {"decides", decides},
                            {"device", key.device},
                            {"op", key.op},
                            {"problem", key.problem},
                            {"variant", key.variant},
                            {"config", key.config},
                            {"cache", key.cache},
                            {"sampling", name_of(key.sampling)},
                            {"base_us", row.base.time_us()},
                            {"new_us", row.now.time_us()},
                            {"base_runs", row.base.runs.size()},
                            {"new_runs", row.now.runs.size()},
                            {"effect", row.effect},
                            {"p", row.p},
                            {"note", row.note}});
    if (row.since.empty()) return;
    json["rows"].back()["since"] = row.since;
    json["rows"].back()["commit"] = row.commit;
    json["rows"].back()["cause"] = row.cause;
  };
  for (const RowChange& row : c.rows) add(row, true);
  for (const RowChange& row : c.aside) add(row, false);
  return dump(json);
}

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
