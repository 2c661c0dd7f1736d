#include "harness/export/launch_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/core/variant_values.h"
#include "harness/device/compile.h"
#include "harness/select/tuned_plans.h"

namespace warptune {
namespace {

// Values of a dim at which constraints and names are checked: alone, and in combinations of dims.
constexpr std::size_t kServedSamples = 40, kGridSamples = 5;
constexpr std::size_t kMaxNesting = 40;  // the deepest formula: readers bound the depth of the file

/// Values of [from, to], ascending, with both ends: all of them, or `count` evenly spread.
std::vector<std::int64_t> sample_values(std::int64_t from, std::int64_t to, std::size_t count) {
  std::vector<std::int64_t> values;
  const auto steps = std::min<std::int64_t>(to - from, static_cast<std::int64_t>(count) - 1);
  for (std::int64_t i = 0; i <= steps; ++i)
    values.push_back(steps == 0 ? from : from + i * (to - from) / steps);
  return values;
}

std::size_t nesting_of(const nlohmann::json& json) {
  std::size_t deepest = 0;
  if (json.is_array())
    for (const auto& argument : json) deepest = std::max(deepest, 1 + nesting_of(argument));
  return deepest;
}

std::vector<std::string> names_of(const DimBox& box) {
  std::vector<std::string> names;
  for (const DimRange& range : box) names.push_back(range.dim);
  return names;
}

}  // namespace

std::optional<Problem> with_dim(const Op& op, const Problem& problem, const std::string& dim,
                                std::int64_t value) {
  Assignment dims = problem.dims;
  dims.set(dim, value);
  try {
    return op.problem(dims, problem.dtype);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

Specialization::Specialization(const OpEntry& op, const Variant& variant, const Problem& problem,
                               const Config& config, const DeviceFacts& facts)
    : op_(op),
      variant_(variant),
      problem_(problem),
      config_(config),
      facts_(facts),
      kernels_(kernels_of(problem)) {}

std::vector<std::string> Specialization::kernels_of(const Problem& problem) const {
  std::vector<std::string> names;
  for (const Stage* stage : active_kernels(variant_, problem, config_))
    names.push_back(kernel_key(variant_, *stage, problem, config_));
  return names;
}

bool Specialization::serves(const Problem& problem) const {
  return kernels_of(problem) == kernels_ && !why_unfit(variant_, problem, config_, facts_);
}

Problem Specialization::with(const DimBox& box, const std::vector<std::int64_t>& values) const {
  Problem problem = problem_;
  for (std::size_t i = 0; i < box.size(); ++i) problem.dims.set(box[i].dim, values[i]);
  return problem;
}

std::vector<Problem> Specialization::problems_in(const DimBox& box, std::size_t per_dim) const {
  std::vector<std::vector<std::int64_t>> points = {{}};
  for (const DimRange& range : box) {
    std::vector<std::vector<std::int64_t>> longer;
    for (const auto& point : points)
      for (const std::int64_t value : sample_values(range.from, range.to, per_dim)) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
    points = std::move(longer);
  }
  std::vector<Problem> problems;
  for (const auto& point : points)
    if (const Problem problem = with(box, point); !(problem == problem_)) problems.push_back(problem);
  problems.push_back(problem_);
  return problems;
}

/// The lowest value of a dim from which on all samples are served, with the other dims at the box's ends.
std::int64_t Specialization::lowest_served(const DimBox& box, std::size_t dim, std::int64_t from) const {
  const auto serves_at = [&](std::int64_t value) {
    for (const bool low : {false, true}) {
      std::vector<std::int64_t> values;
      for (const DimRange& range : box) values.push_back(low ? range.from : range.to);
      values[dim] = value;
      if (!serves(with(box, values))) return false;
    }
    return true;
  };
  std::int64_t lowest = box[dim].to;
  std::vector<std::int64_t> values = sample_values(from, box[dim].to, kServedSamples);
  std::ranges::reverse(values);
  for (const std::int64_t value : values) {
    if (value == lowest) continue;
    if (serves_at(value)) {
      lowest = value;
      continue;
    }
    for (std::int64_t refused = value; lowest - refused > 1;) {
      const std::int64_t middle = refused + (lowest - refused) / 2;
      (serves_at(middle) ? lowest : refused) = middle;
    }
    break;
  }
  return lowest;
}

bool Specialization::serves(const DimBox& box) const {
  for (const Problem& problem : problems_in(box, kGridSamples)) {
    try {
      if (op_.op.check) op_.op.check(problem);
    } catch (const InputError&) {
      return false;
    }
    if (!serves(problem)) return false;
  }
  try {
    model_of(box);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

DimBox Specialization::largest_box(const DimBox& limit) const {
  DimBox box;
  for (const DimRange& range : limit) box.push_back({range.dim, problem_[range.dim], problem_[range.dim]});
  for (std::size_t i = 0; i < box.size(); ++i) {
    box[i].from = lowest_served(box, i, std::min(limit[i].from, box[i].to));
    // What attributes or combinations of dims do not allow is cut off by halves.
    while (box[i].from < box[i].to && !serves(box)) box[i].from = box[i].to - (box[i].to - box[i].from) / 2;
  }
  return box;
}

Expression Specialization::partial(const Expression& expression, const DimBox& box,
                                   std::span<const std::string> kept) const {
  const auto is_kept = [&](const std::string& name) {
    const auto range = std::ranges::find(box, name, &DimRange::dim);
    const bool changes = range != box.end() && range->from < range->to && !config_.has(name);
    return changes || contains(kept, name);
  };
  const Expression left = VariantValues(variant_, problem_, config_, &facts_).partial(expression, is_kept);
  if (nesting_of(left.json()) > kMaxNesting)
    throw InputError("'{}' nests deeper than {} operators", brief(expression.text()), kMaxNesting);
  return left;
}

std::int64_t Specialization::constant(const Expression& expression, const DimBox& box,
                                      std::string_view what) const {
  const Expression left = partial(expression, box);
  if (left.number()) return VariantValues(variant_, problem_, config_, &facts_).integer(left);
  const auto at = [&](const Problem& p) {
    return VariantValues(variant_, p, config_, &facts_).integer(expression);
  };
  const std::int64_t value = at(problem_);
  for (const Problem& p : problems_in(box, kServedSamples))
    if (at(p) != value) throw InputError("{} depends on {}", what, fmt::join(left.names(), ", "));
  return value;
}

std::vector<TensorMapModel> Specialization::maps_of(const Stage& stage) const {
  std::vector<std::string> members;
  for (const ArgsField& field : op_.op.fields)
    if (is_integer(field)) members.push_back(field.name);
  std::vector<TensorMapModel> models;
  for (const TensorMapExpressions& map : stage.maps) {
    TensorMapModel& model = models.emplace_back(
        TensorMapModel{.base = map.base, .dtype = problem_.dtype, .swizzle = map.swizzle});
    for (const Expression& e : map.dims) model.dims.push_back(partial(e, {}, members));
    for (const Expression& e : map.strides) model.strides.push_back(partial(e, {}, members));
    for (const Expression& e : map.box) model.box.push_back(constant(e, {}, "the box of a tensor map"));
  }
  return models;
}

StageModel Specialization::model_of(const Stage& stage, const DimBox& box) const {
  if (stage.custom && stage.custom->constants) throw InputError("it fills constant memory");
  const LaunchExpressions& g = stage.geometry;
  if (constant(g.cooperative, box, "whether it is cooperative") != 0)
    throw InputError("its launch is cooperative");
  const auto extents = [&](const Extents& e) {
    return Extents{partial(e.x, box), partial(e.y, box), partial(e.z, box)};
  };
  const MarkedArgs args(op_.op, problem_);
  return {.file = stage.file,
          .kernel = expand_kernel_name(variant_, stage, problem_, config_),
          .grid = extents(g.grid),
          .block = extents(g.block),
          .shared_bytes = partial(g.shared_bytes, box),
          .max_blocks = partial(g.max_blocks, box),
          .cluster = static_cast<unsigned>(constant(g.cluster, box, "the cluster")),
          .pdl = constant(g.pdl, box, "programmatic dependent launch") != 0,
          .per_sm = constant(g.per_sm, box, "'per_sm'") != 0,
          .tensor_maps = maps_of(stage),
          .arguments = argument_list(stage, config_, problems_in(box, kGridSamples), args.bytes().size(),
                                     names_of(box))};
}

LaunchModel Specialization::model_of(const DimBox& box) const {
  LaunchModel model{.stages = {},
                    .workspace_bytes = partial(variant_.workspace + variant_.own_workspace, box)};
  for (const Stage* stage : active_kernels(variant_, problem_, config_)) {
    launch_of(variant_, *stage, problem_, config_, facts_);  // throws where a part is out of bounds
    model.stages.push_back(model_of(*stage, box));
  }
  return model;
}

LaunchModel Specialization::launch(const DimBox& box) const try {
  return model_of(box);
} catch (const std::runtime_error& e) {
  throw InputError("{} is not exported for {}: {}", quoted(variant_.name, config_), problem_.key(), e.what());
}

}  // namespace warptune
