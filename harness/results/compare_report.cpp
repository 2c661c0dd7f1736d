#include "harness/results/compare_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/core/brief.h"

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

OrderedJson number(double value) { return std::isfinite(value) ? OrderedJson(value) : OrderedJson(); }

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
                            {"base_us", number(row.base.time_us())},
                            {"new_us", number(row.now.time_us())},
                            {"base_runs", row.base.runs.size()},
                            {"new_runs", row.now.runs.size()},
                            {"effect", number(row.effect)},
                            {"p", number(row.p)},
                            {"note", row.note}});
    if (row.since.empty()) return;
    json["rows"].back()["since"] = row.since;
    json["rows"].back()["commit"] = row.commit;
    json["rows"].back()["cause"] = row.cause;
  };
  for (const RowChange& row : c.rows) add(row, true);
  for (const RowChange& row : c.aside) add(row, false);
  return json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace warptune
