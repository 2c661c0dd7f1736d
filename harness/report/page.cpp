#include "harness/report/page.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "harness/core/text_table.h"
#include "harness/report/summary.h"
#include "harness/results/published.h"
#include "harness/results/sha256.h"

namespace warptune {

extern const char kReportTemplate[];  // template.html, embedded at build time

namespace {

using Json = nlohmann::json;

/// Texts repeat, so a line of a table holds indices into one list of texts.
class TextPool {
 public:
  std::size_t place_of(const std::string& text) {
    const auto [it, is_new] = index_.try_emplace(text, texts_.size());
    if (is_new) texts_.push_back(text);
    return it->second;
  }
  const Json& texts() const { return texts_; }

 private:
  Json texts_ = Json::array();
  std::unordered_map<std::string, std::size_t> index_;
};

/// The columns of a row that plots use.
constexpr const char* kTexts[] = {"run_id", "timestamp_utc", "device", "problem",  "variant",
                                  "config", "status",        "cache",  "throttled"};
constexpr const char* kRole = "role";  // a text too
constexpr std::string_view kRoles[] = {"first", "finalist", "aside"};
constexpr const char* kNumbers[] = {"time_us",      "ci_low_us",     "ci_high_us", "pct_floor",
                                    "sm_clock_mhz", "temperature_c", "power_w"};

Json json_number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json rows_json(const std::vector<CsvRow>& rows, TextPool& pool) {
  Json table = Json::array();
  const std::vector<RowRole> roles = roles_of(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Json line = Json::array();
    for (const char* column : kTexts) line.push_back(pool.place_of(field(rows[i], column)));
    line.push_back(pool.place_of(std::string(kRoles[static_cast<int>(roles[i])])));
    for (const char* column : kNumbers) line.push_back(json_number(number(rows[i], column)));
    table.push_back(std::move(line));
  }
  Json text_columns = kTexts;
  text_columns.push_back(kRole);
  return {{"text_columns", text_columns}, {"number_columns", kNumbers}, {"table", table}};
}

Json devices_json(const std::vector<DeviceFacts>& devices) {
  Json list = Json::array();
  for (const DeviceFacts& f : devices)
    list.push_back({{"name", f.name},
                    {"arch", f.arch},
                    {"read_gb_per_s", f.read_gb_per_s},
                    {"matrix_tflop_per_s", f.matrix_tflop_per_s},
                    {"vector_tflop_per_s", f.vector_tflop_per_s},
                    {"launch_floor_us", f.launch_floor_us}});
  return list;
}

/// Five significant digits, which a plot shows.
double five_digits(double value) {
  const double scale = std::pow(10, 4 - std::floor(std::log10(value)));
  return std::round(value * scale) / scale;
}

/// The runs, and for each row of the history its times by run and its last change.
Json history_json(const ResultsSet& set) {
  Json runs = Json::array(), series = Json::array();
  std::map<std::string, std::size_t> places;
  for (const HistoryRun& run : set.history) {
    for (const TimedConfig& row : run.configs) {
      if (row.runs.empty()) continue;
      const auto [it, is_new] = places.try_emplace(row.key(), series.size());
      if (is_new)
        series.push_back({{"device", row.device},
                          {"op", row.op},
                          {"problem", row.problem},
                          {"variant", row.variant},
                          {"config", row.config},
                          {"us", Json::array()}});
      Json& us = series[it->second]["us"];  // by run; null where the run has no such row
      while (us.size() < runs.size()) us.push_back(nullptr);
      if (us.size() == runs.size()) us.push_back(five_digits(row.time_us()));
    }
    runs.push_back({{"id", run.file.run_id},
                    {"commit", run.file.commit},
                    {"driver", run.file.driver},
                    {"device", run.configs.empty() ? "" : run.configs.front().device}});
  }
  for (const RowChange& row : set.changes.rows) {
    const auto it = places.find(row.row().key());
    if (it == places.end()) continue;
    Json& one = series[it->second];
    one["verdict"] = name_of(row.change);
    if (row.since.empty()) continue;
    one["since"] = row.since;
    one["commit"] = row.commit;
    one["cause"] = row.cause;
    one["effect"] = json_number(row.effect);
  }
  return {{"runs", std::move(runs)}, {"series", std::move(series)}};
}

/// The key of a problem without the dims that are at their default, as the terminal shows it.
std::string label_of_row(const OpTable& ops, const Best& b) {
  const OpEntry* entry = ops.find_if_known(b.op);
  return entry ? label_of(entry->op, b.problem) : b.problem;
}

/// The time of others for a row, as a text that begins with microseconds; empty where there is none.
std::string published(const OpTable& ops, const Best& b) {
  const OpEntry* entry = ops.find_if_known(b.op);
  return entry ? published_time(b.device, entry->op, b.problem) : std::string();
}

Json winners_json(const OpTable& ops, const std::vector<Best>& winners, TextPool& pool) {
  Json table = Json::array();
  for (const Best& b : winners) {
    Json line = Json::array();
    for (const std::string& text : {b.device, b.op, b.problem, label_of_row(ops, b), b.variant, b.config,
                                    b.run_id, b.vendor, published(ops, b)})
      line.push_back(pool.place_of(text));
    for (const double value : {b.time_us, b.floor_us, b.pct_floor, b.bytes, b.flops, b.naive_us, b.vendor_us})
      line.push_back(json_number(value));
    table.push_back(std::move(line));
  }
  return {{"text_columns",
           {"device", "op", "problem", "label", "variant", "config", "run_id", "vendor", "published"}},
          {"number_columns", {"time_us", "floor_us", "pct_floor", "bytes", "flops", "naive_us", "vendor_us"}},
          {"table", table}};
}

Json steps_json(const std::vector<Step>& steps) {
  Json list = Json::array();
  for (const Step& s : steps) {
    Json parts = Json::array();
    for (const StepPart& p : s.parts)
      parts.push_back({{"role", p.role},
                       {"problem", p.problem},
                       {"variant", p.variant},
                       {"count", p.count},
                       {"us", json_number(p.us)}});
    list.push_back({{"device", s.device},
                    {"model", s.model},
                    {"plan_set", s.plan_set},
                    {"batch", s.batch},
                    {"context", s.context},
                    {"us_per_token", json_number(s.us_per_token)},
                    {"sum_of_ops_us", json_number(s.sum_of_ops_us)},
                    {"floor_us", json_number(s.floor_us)},
                    {"parts", parts}});
  }
  return list;
}

/// Code that may break after each comma.
std::string code(const std::string& text) {
  std::string out = html_text(text);
  for (std::size_t at = 0; (at = out.find(',', at)) != std::string::npos; at += 6)
    out.replace(at, 1, ",<wbr>");
  return "<code>" + out + "</code>";
}

/// The cell of a number, a text of four digits.
std::string cell(double value, const std::string& text) {
  return "<td>" + (std::isfinite(value) ? text : std::string("–")) + "</td>";
}

/// "22.48", "1234", "< 0.001".
std::string digits(double value) {
  if (value > 0 && value < 0.001) return "&lt; 0.001";
  return value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string winner_rows(const OpTable& ops, const std::vector<Best>& winners) {
  std::string html;
  int n = 0;
  for (const Best& b : winners) {
    const bool slowed = !b.throttled.empty() && b.throttled != "none";
    const std::string others = published(ops, b);
    html += fmt::format(
        "<tr id=\"row-{0}\"><td><button>{0}</button></td><td>{1}</td><td>{2}{3} "
        "{4}</td>{5}{6}{7}{8}{9}{10}</tr>\n",
        n + 1, code(label_of_row(ops, b)), html_text(b.variant),
        slowed ? fmt::format(" <strong>(throttled: {})</strong>", html_text(b.throttled)) : "",
        code(b.config), cell(b.time_us, digits(b.time_us)), cell(b.floor_us, digits(b.floor_us)),
        cell(b.pct_floor, fmt::format("{0:.1f} %<meter value=\"{1:.3f}\"></meter>", b.pct_floor,
                                      std::min(1.0, b.pct_floor / 100))),
        cell(b.naive_us / b.time_us, fmt::format("{:.2f} ×", b.naive_us / b.time_us)),
        cell(b.vendor_us / b.time_us, fmt::format("{:.2f} ×", b.vendor_us / b.time_us)),
        cell(others.empty() ? NAN : 0, html_text(others)));
    ++n;
  }
  return html;
}

/// A hash source of a Content-Security-Policy: of the text between two tags of the template.
std::string hash_source(std::string_view page, std::string_view open, std::string_view close) {
  const auto begin = page.find(open) + open.size();
  return fmt::format("'sha256-{}'", sha256_base64(page.substr(begin, page.find(close, begin) - begin)));
}

/// Nothing but the template's own script and style runs: no other script, no event attribute, no load.
std::string policy(std::string_view page) {
  return fmt::format(
      "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; script-src {}; style-src {}",
      hash_source(page, "<script>", "</script>"), hash_source(page, "<style>", "</style>"));
}

/// The template with the text of each {{mark}}, in one pass: marks in a text stay as they are.
std::string filled(std::string_view page, const std::map<std::string_view, std::string>& texts) {
  std::string out;
  for (std::size_t at = 0; at < page.size();) {
    const auto open = page.find("{{", at), close = page.find("}}", open);
    out += page.substr(at, open - at);
    if (close == std::string_view::npos) break;
    out += texts.at(page.substr(open + 2, close - open - 2));
    at = close + 2;
  }
  return out;
}

}  // namespace

std::string html_text(const std::string& text) {
  static const std::map<char, std::string_view> kEntities = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string out;
  for (const char c : text) {
    const auto entity = kEntities.find(c);
    out += entity == kEntities.end() ? std::string_view(&c, 1) : entity->second;
  }
  return out;
}

std::string report_page(const OpTable& ops, const ResultsSet& set, const std::string& title) {
  const auto winners = winners_of(set);
  std::string notes;
  for (const std::string& note : set.notes) notes += "<li>" + html_text(note) + "</li>\n";
  if (!notes.empty())
    notes = fmt::format("<details class=\"note\"><summary>{}</summary><ul>\n{}</ul></details>",
                        counted(set.notes.size(), "note"), notes);
  TextPool pool;
  Json data = {{"devices", devices_json(set.devices)},
               {"rows", rows_json(set.rows, pool)},
               {"winners", winners_json(ops, winners, pool)},
               {"history", history_json(set)},
               {"steps", steps_json(steps_of(ops, set, winners))}};
  data["texts"] = pool.texts();
  std::string json = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t at = 0; (at = json.find('<', at)) != std::string::npos;) json.replace(at, 1, "\\u003c");
  return filled(kReportTemplate, {{"policy", policy(kReportTemplate)},
                                  {"title", html_text(title)},
                                  {"notes", notes},
                                  {"winners", winner_rows(ops, winners)},
                                  {"data", json}});
}

}  // namespace warptune
