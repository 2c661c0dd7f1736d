#pragma once
// Wisdom for other programs: a C++17 header without dependencies, Google Benchmark's names and JSON, which
// its compare.py and other tools read, and the part that the regression gate times (docs/regression.md).
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/op_table.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// namespace warptune_wisdom: a constexpr table and find(problem key, device), value(winner, parameter).
std::string to_header(const Wisdom& wisdom);

/// One sentence per winner with an op, dims or a variant that this program does not have.
std::vector<std::string> unknown_winners(const OpTable& ops, const Wisdom& wisdom);

struct Watched {
  Wisdom wisdom;                                // the steps and some winners, without the times of others
  std::map<std::string, std::size_t> left_out;  // how many winners are not in it, by op/variant
};

/// All steps, and of each variant the problems on which it wins that take longest, those of the steps first.
Watched watched_part(const Wisdom& wisdom, std::size_t problems_per_variant);

/// Two sentences: what is watched, and how many winners of each variant are not.
std::string summary_of(const Watched& watched);

/// The name of a benchmark of keys of a problem and a config, as Google Benchmark names arguments and without
/// characters of a regular expression: "rms_norm/tokens:1/hidden:4096/dtype:bf16/vectorized/block:256/vec:8".
std::string benchmark_name(const std::string& problem, const std::string& variant, const std::string& config);

/// What a reader of a time must know besides the name: a cache state other than cold, throttle reasons. May
/// be empty.
std::string benchmark_label(std::string_view cache, const std::string& throttled);

/// The JSON of the winners that were made on the wisdom's own device. `folder` holds the CSVs that they name
/// and their samples: each sample is a repetition, and mean, median, stddev and cv are those of the samples.
/// A winner whose samples are gone has its time only. Throws InputError where a CSV is wrong.
std::string to_benchmark_json(const OpTable& ops, const Wisdom& wisdom, const std::filesystem::path& folder);

}  // namespace warptune
