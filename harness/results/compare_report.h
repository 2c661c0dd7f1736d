#pragma once
// A comparison as text: a table for people, Markdown for a pull request, JSON for programs, and the formats
// of CI systems and dashboards.
#include <string>
#include <vector>

#include "harness/results/compare.h"

namespace warptune {

std::string as_text(const Comparison& comparison);
/// Counts the SAME rows without listing them where there are more than 50: a comment has a limited length.
std::string as_markdown(const Comparison& comparison);
std::string as_json(const Comparison& comparison);
/// JUnit XML: SLOWER is a failure, MISSING an error, AMBIGUOUS and NEW are skipped.
std::string as_junit(const Comparison& comparison);
/// Google Benchmark's JSON with the times of the new file. A MISSING row is a benchmark with an error.
std::string as_google_benchmark(const Comparison& comparison);
/// Bencher Metric Format: of each row with a time the measure `latency` in ns, with the range of its runs.
std::string as_bencher(const Comparison& comparison);

/// The names that formatted() takes.
inline const std::vector<std::string> kComparisonFormats = {"text",  "markdown",         "json",
                                                            "junit", "google-benchmark", "bencher"};
std::string formatted(const Comparison& comparison, const std::string& format);

}  // namespace warptune
