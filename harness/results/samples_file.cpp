#include "harness/results/samples_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/results/csv.h"

namespace warptune {
namespace fs = std::filesystem;

std::vector<double> thinned(std::span<const double> samples, std::size_t max_samples) {
  if (samples.size() <= max_samples || max_samples < 2) return {samples.begin(), samples.end()};
  std::vector<double> kept;
  for (std::size_t i = 0; i < max_samples; ++i)
    kept.push_back(samples[i * (samples.size() - 1) / (max_samples - 1)]);
  return kept;
}

fs::path samples_path(const fs::path& csv) { return fs::path(csv).replace_extension(".samples.csv"); }

const std::vector<std::string>& samples_columns() {
  static const std::vector<std::string> columns = {"run_id", "device", "problem",   "variant",
                                                   "config", "cache",  "samples_us"};
  return columns;
}

std::vector<std::string> samples_fields(const SweepRow& row) {
  std::vector<std::string> texts;
  for (const double us : thinned(row.measurement.samples_us)) texts.push_back(fmt::format("{:.6g}", us));
  return {row.run.run_id,
          row.facts.name,
          row.problem.key(),
          row.variant,
          row.config.str(),
          row.cache,
          fmt::format("{}", fmt::join(texts, " "))};
}

std::string samples_key(const CsvRow& row) {
  std::string key;
  for (const char* column : {"run_id", "device", "problem", "variant", "config", "cache"})
    key += row.at(column) + '\n';
  return key;
}

std::map<std::string, std::vector<double>> read_samples(const fs::path& path) {
  std::map<std::string, std::vector<double>> samples;
  if (!fs::exists(path)) return samples;
  if (csv_columns(path) != samples_columns())
    throw InputError(fmt::format("{}:1: other columns than those of samples", path.string()));
  for_each_row(path, [&](int line, const auto& row) {
    std::vector<double>& values = samples[samples_key(row)];
    values.clear();  // a later row of the same run replaces an earlier one
    const std::string& text = row.at("samples_us");
    for (const char *at = text.data(), *end = at + text.size(); at < end;) {
      double value = 0;
      const auto [next, error] = std::from_chars(at, end, value);
      if (error != std::errc() || !(std::isfinite(value) && value > 0) || (next != end && *next != ' '))
        throw InputError(fmt::format("{}:{}: '{}' are not samples", path.string(), line, brief(text)));
      values.push_back(value);
      at = next == end ? end : next + 1;
    }
  });
  return samples;
}

}  // namespace warptune
