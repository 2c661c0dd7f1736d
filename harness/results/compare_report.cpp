#include "harness/results/compare_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace warptune {
namespace {
using Json = nlohmann::ordered_json;

constexpr Change kChanges[] = {Change::slower, Change::missing, Change::ambiguous,
                               Change::faster, Change::fresh,   Change::same};

std::string time_text(double us) { return std::isfinite(us) ? fmt::format("{:.3f}", us) : ""; }
std::string effect_text(double effect) {
  return std::isfinite(effect) ? fmt::format("{:+.2f} %", 100 * effect) : "";
}
std::string p_text(double p) { return std::isfinite(p) ? fmt::format("{:.2g}", p) : ""; }

std::string name_text(const TimedRow& row) {
  std::string name = row.problem + " " + row.variant;
  if (!row.config.empty()) name += " " + row.config;
  return name + " " + row.cache;
}

std::string summary(const Comparison& c) {
  std::string text;
  for (const Change change : kChanges)
    if (const std::size_t n = c.count(change))
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, name_of(change));
  if (c.matched == 0) text += text.empty() ? "no rows match" : "; no rows match";
  return fmt::format("{} (effect of at least {:.3g} %, family-wise alpha {:.3g})", text,
                     100 * c.options.min_effect, c.options.alpha);
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

}  // namespace

std::string as_text(const Comparison& c) {
  std::string text =
      fmt::format("{:<9} {:>11} {:>11} {:>10} {:>8}  row\n", "verdict", "base us", "new us", "change", "p");
  for (const RowChange& row : c.rows)
    text += fmt::format("{:<9} {:>11} {:>11} {:>10} {:>8}  {}{}\n", name_of(row.change),
                        time_text(row.base.time_us), time_text(row.now.time_us), effect_text(row.effect),
                        p_text(row.p), name_text(row.row()), row.note.empty() ? "" : "  (" + row.note + ")");
  return text + "\n" + summary(c) + "\n";
}

std::string as_markdown(const Comparison& c) {
  std::string text = "**" + summary(c) + "**\n\n| verdict | base us | new us | change | p | row | note |\n" +
                     "|---|---:|---:|---:|---:|---|---|\n";
  for (const RowChange& row : c.rows)
    text += fmt::format("| {} | {} | {} | {} | {} | `{}` | {} |\n", name_of(row.change),
                        time_text(row.base.time_us), time_text(row.now.time_us), effect_text(row.effect),
                        p_text(row.p), name_text(row.row()), row.note);
  return text;
}

std::string as_json(const Comparison& c) {
  Json json = {{"schema", 1},          {"min_effect", c.options.min_effect}, {"alpha", c.options.alpha},
               {"matched", c.matched}, {"exit_code", c.exit_code()},         {"counts", Json::object()},
               {"rows", Json::array()}};
  for (const Change change : kChanges) json["counts"][std::string(name_of(change))] = c.count(change);
  for (const RowChange& row : c.rows) {
    const TimedRow& key = row.row();
    json["rows"].push_back({{"verdict", name_of(row.change)},
                            {"device", key.device},
                            {"op", key.op},
                            {"problem", key.problem},
                            {"variant", key.variant},
                            {"config", key.config},
                            {"cache", key.cache},
                            {"base_us", number(row.base.time_us)},
                            {"new_us", number(row.now.time_us)},
                            {"effect", number(row.effect)},
                            {"p", number(row.p)},
                            {"note", row.note}});
  }
  return json.dump(1) + "\n";
}

}  // namespace warptune
