#pragma once
// Parts of a sweep's file: its settings, and the variants of an op with the parameter values and constraints
// that the file gives them. Each function throws InputError with file and line.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/core/yaml_reader.h"
#include "harness/measure/bench.h"
#include "harness/search/budget.h"
#include "harness/tune/sweep_item.h"

namespace warptune {

/// "auto", "all", or a list of devices with commas.
std::string device_of(const YamlReader& yaml, const YAML::Node& node);
std::uint64_t seed_of(const YamlReader& yaml, const YAML::Node& node);
/// {max_rel_ci: ..., min_samples: ..., max_time: ..., duty_cycle: ...}, each optional.
void read_sampling(const YamlReader& yaml, const YAML::Node& node, BenchOptions& options);
/// A name, or {name: ..., budget: ..., seed: ..., resources: ...}.
SearchChoice search_of(const YamlReader& yaml, const YAML::Node& node);
/// Conditions that PruneRules accepts.
std::vector<std::string> prune_of(const YamlReader& yaml, const YAML::Node& node);
Objective objective_of(const YamlReader& yaml, const YAML::Node& node);
CacheMode cache_of(const YamlReader& yaml, const YAML::Node& node);
int max_configs_of(const YamlReader& yaml, const YAML::Node& node);
/// {TENSOR: {scale: ..., value: ..., every: ...}}, added to `inputs`: a tensor that comes again is replaced.
InputChanges inputs_of(const YamlReader& yaml, const YAML::Node& node, InputChanges inputs);
/// The value of `key`, 1 to 64.
int count_of(const YamlReader& yaml, const YAML::Node& node, const char* key);
std::vector<DType> dtypes_of(const YamlReader& yaml, const YAML::Node& node);

/// A name or a list; each item is a name or {name: {parameters: {...}, constraints: [...]}}, none twice.
std::vector<VariantChoice> read_variants(const YamlReader& yaml, const YAML::Node& node,
                                         const OpEntry& entry);
std::vector<VariantChoice> all_variants(const OpEntry& entry);
/// Adds each constraint to the variants that have all its names; a constraint that fits no variant is an
/// error.
void add_constraints(const YamlReader& yaml, const YAML::Node& node, const OpEntry& entry,
                     std::span<VariantChoice> choices);

}  // namespace warptune
