#pragma once
// Google Benchmark's names and its JSON for winners, which its compare.py and other tools read.
#include <filesystem>
#include <string>
#include <string_view>

#include "harness/core/op_table.h"
#include "harness/results/wisdom.h"

namespace warptune {

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
