#include "harness/export/launch_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/core/error.h"
#include "harness/device/compile.h"
#include "harness/export/args_layout.h"
#include "harness/select/tuned_plans.h"

namespace warptune {
namespace {

// Values of a dim at which things are checked: constraints and names, launches, and combinations of dims.
constexpr std::size_t kServedSamples = 40, kLaunchSamples = 512, kGridSamples = 5;

/// All numbers of a launch, in one order.
std::vector<std::int64_t> numbers_of(const Launch& l) {
  return {l.grid.x, l.grid.y, l.grid.z, l.block.x, l.block.y, l.block.z, l.shared_bytes, l.max_blocks};
}

/// The formulas of these numbers.
std::vector<LaunchFormula> formulas_of(const StageModel& s) {
  return {s.grid[0], s.grid[1], s.grid[2], s.block[0], s.block[1], s.block[2], s.shared_bytes, s.max_blocks};
}

std::vector<std::string> names_of(const DimBox& box) {
  std::vector<std::string> names;
  for (const DimRange& range : box) names.push_back(range.dim);
  return names;
}

/// Whether what a formula cannot express is equal.
bool same_flags(const Launch& a, const Launch& b) {
  return a.pdl == b.pdl && a.per_sm == b.per_sm && a.cluster == b.cluster;
}

/// The numbers of a tensor map whose formulas are looked for: dims, then strides.
std::vector<std::int64_t> numbers_of(const TensorMapSpec& map) {
  std::vector<std::int64_t> numbers = map.dims;
  numbers.insert(numbers.end(), map.strides.begin(), map.strides.end());
  return numbers;
}

/// The member that holds the address of a tensor map.
std::optional<std::string> base_field(const MarkedArgs& args, const void* base) {
  for (const ArgsField& field : args.fields())
    if (field.is_pointer() &&
        args.whole(field) == static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(base)))
      return field.name;
  return std::nullopt;
}

/// The tensor maps of a stage as functions of the integers in the args.
std::optional<std::vector<TensorMapModel>> map_models(const Stage& stage, const Problem& problem,
                                                      const Config& config, const MarkedArgs& args) {
  std::vector<ArgsField> numbers;
  std::vector<Axis> axes;
  std::vector<std::int64_t> base;
  for (const ArgsField& field : args.fields())
    if (!field.is_pointer() && !field.is_real()) {
      const std::int64_t value = args.whole(field);
      numbers.push_back(field);
      base.push_back(value);
      axes.push_back({field.name, {value, value + 1, value + 2, 2 * value + 3, 3 * value + 8}});
    }
  const auto maps_at = [&](std::span<const std::int64_t> point) {
    MarkedArgs changed = args;
    for (std::size_t i = 0; i < numbers.size(); ++i) changed.set(numbers[i], point[i]);
    return stage.tensor_maps(problem, config, changed.bytes().data());
  };
  std::vector<TensorMapModel> models;
  const std::vector<TensorMapSpec> maps = maps_at(base);
  for (std::size_t m = 0; m < maps.size(); ++m) {
    const auto field = base_field(args, maps[m].base);
    if (!field) return std::nullopt;
    TensorMapModel model{.base = *field, .dtype = maps[m].dtype, .box = maps[m].box};
    for (std::size_t n = 0; n < numbers_of(maps[m]).size(); ++n) {
      const auto formula = fit_formula(axes, base, [&](std::span<const std::int64_t> point) {
        return numbers_of(maps_at(point).at(m)).at(n);
      });
      if (!formula) return std::nullopt;
      (n < maps[m].dims.size() ? model.dims : model.strides).push_back(*formula);
    }
    models.push_back(std::move(model));
  }
  return models;
}

bool maps_agree(const std::vector<TensorMapModel>& models, const std::vector<TensorMapSpec>& maps,
                const MarkedArgs& args) {
  const auto value = [&](const std::string& name) {
    return args.whole(*std::ranges::find(args.fields(), name, &ArgsField::name));
  };
  if (models.size() != maps.size()) return false;
  for (std::size_t m = 0; m < maps.size(); ++m) {
    std::vector<LaunchFormula> formulas = models[m].dims;
    formulas.insert(formulas.end(), models[m].strides.begin(), models[m].strides.end());
    const auto numbers = numbers_of(maps[m]);
    if (formulas.size() != numbers.size() || models[m].box != maps[m].box ||
        base_field(args, maps[m].base) != models[m].base)
      return false;
    for (std::size_t n = 0; n < numbers.size(); ++n)
      if (formulas[n].evaluate(value) != numbers[n]) return false;
  }
  return true;
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

std::int64_t Specialization::workspace_of(const Problem& problem) const {
  if (variant_.workspace_bytes) return variant_.workspace_bytes(problem, config_);
  return variant_.own_workspace_bytes ? variant_.own_workspace_bytes(problem, config_) : 0;
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
    std::vector<std::int64_t> values;
    const auto steps = static_cast<std::int64_t>(per_dim) - 1;
    for (std::int64_t i = 0; i <= steps; ++i)
      values.push_back(range.from + i * (range.to - range.from) / steps);
    values.erase(std::unique(values.begin(), values.end()), values.end());
    std::vector<std::vector<std::int64_t>> longer;
    for (const auto& point : points)
      for (const std::int64_t value : values) {
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
  std::string why;
  return model_of(box, why).has_value();
}

DimBox Specialization::largest_box(const DimBox& limit) const {
  DimBox box;
  for (const DimRange& range : limit) box.push_back({range.dim, problem_[range.dim], problem_[range.dim]});
  for (std::size_t i = 0; i < box.size(); ++i) {
    box[i].from = lowest_served(box, i, std::min(limit[i].from, box[i].to));
    // What formulas or combinations of dims do not allow is cut off by halves.
    while (box[i].from < box[i].to && !serves(box)) box[i].from = box[i].to - (box[i].to - box[i].from) / 2;
  }
  return box;
}

std::optional<LaunchModel> Specialization::model_of(const DimBox& box, std::string& why) const try {
  std::vector<Axis> axes;
  std::vector<std::int64_t> base;
  for (const DimRange& range : box) {
    axes.push_back({range.dim, sample_values(range.from, range.to, kLaunchSamples)});
    base.push_back(range.to);
  }
  const auto fit = [&](auto&& number_of) {
    const auto formula = fit_formula(axes, base, [&](std::span<const std::int64_t> point) {
      return number_of(with(box, {point.begin(), point.end()}));
    });
    if (!formula) why = "the numbers of a launch have no formula";
    return formula;
  };
  const auto workspace = fit([&](const Problem& p) { return workspace_of(p); });
  if (!workspace) return std::nullopt;
  LaunchModel model{.stages = {}, .workspace_bytes = *workspace};
  const MarkedArgs args(op_.op, problem_);
  const auto stages = active_kernels(variant_, problem_, config_);
  for (const Stage* stage : stages) {
    const Launch launch = launch_of(*stage, problem_, config_, facts_);
    if (launch.cooperative || (stage->custom && stage->custom->constants)) {
      why = launch.cooperative ? "its launch is cooperative" : "it fills constant memory";
      return std::nullopt;
    }
    std::vector<LaunchFormula> numbers;
    for (std::size_t n = 0; n < numbers_of(launch).size(); ++n) {
      const auto formula =
          fit([&](const Problem& p) { return numbers_of(launch_of(*stage, p, config_, facts_))[n]; });
      if (!formula) return std::nullopt;
      numbers.push_back(*formula);
    }
    StageModel s{.file = stage->file,
                 .kernel = expand_kernel_name(variant_, *stage, problem_, config_),
                 .grid = {numbers[0], numbers[1], numbers[2]},
                 .block = {numbers[3], numbers[4], numbers[5]},
                 .shared_bytes = numbers[6],
                 .max_blocks = numbers[7],
                 .cluster = launch.cluster,
                 .pdl = launch.pdl,
                 .per_sm = launch.per_sm,
                 .tensor_maps = {}};
    if (stage->tensor_maps) {
      const auto maps = map_models(*stage, problem_, config_, args);
      if (!maps) {
        why = "a tensor map has no formula";
        return std::nullopt;
      }
      s.tensor_maps = *maps;
    }
    s.arguments =
        argument_list(*stage, config_, problems_in(box, kGridSamples), args.bytes().size(), names_of(box));
    model.stages.push_back(std::move(s));
  }
  if (!agrees(model, box, stages)) {
    why = "a formula fails for a combination of dims";
    return std::nullopt;
  }
  return model;
} catch (const CompileError& e) {  // a formula of a kernel from a file gives no launch
  why = e.what();
  return std::nullopt;
} catch (const InputError& e) {
  why = e.what();
  return std::nullopt;
}

/// Whether the formulas give the launches of problems all over the box.
bool Specialization::agrees(const LaunchModel& model, const DimBox& box,
                            const std::vector<const Stage*>& stages) const {
  for (const Problem& p : problems_in(box, kGridSamples)) {
    const auto dim = [&](const std::string& name) { return p[name]; };
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const StageModel& s = model.stages[i];
      const Launch launch = launch_of(*stages[i], p, config_, facts_);
      std::vector<std::int64_t> numbers;
      for (const LaunchFormula& formula : formulas_of(s)) numbers.push_back(formula.evaluate(dim));
      if (numbers != numbers_of(launch) ||
          !same_flags(launch, launch_of(*stages[i], problem_, config_, facts_)))
        return false;
      if (!stages[i]->tensor_maps) continue;
      const MarkedArgs args(op_.op, p);
      if (!maps_agree(s.tensor_maps, stages[i]->tensor_maps(p, config_, args.bytes().data()), args))
        return false;
    }
    if (model.workspace_bytes.evaluate(dim) != workspace_of(p)) return false;
  }
  return true;
}

LaunchModel Specialization::launch(const DimBox& box) const {
  std::string why;
  if (auto model = model_of(box, why)) return *std::move(model);
  throw InputError(
      fmt::format("{} is not exported for {}: {}", quoted(variant_.name, config_), problem_.key(), why));
}

}  // namespace warptune
