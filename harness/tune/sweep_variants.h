#pragma once
// The variants of a sweep's file, with the parameter values and constraints that it gives them. Each function
// throws InputError with file and line.
#include <span>
#include <vector>

#include "harness/core/yaml_reader.h"
#include "harness/tune/sweep_item.h"

namespace warptune {

/// A name or a list; each item is a name or {name: {parameters: {...}, constraints: [...]}}, none twice.
std::vector<VariantChoice> read_variants(const YamlReader& yaml, const YAML::Node& node,
                                         const OpEntry& entry);
std::vector<VariantChoice> all_variants(const OpEntry& entry);
/// Adds each constraint to the variants that have all its names; a constraint that fits no variant is an
/// error.
void add_constraints(const YamlReader& yaml, const YAML::Node& node, const OpEntry& entry,
                     std::span<VariantChoice> choices);

}  // namespace warptune
