#include "harness/export/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/core/op.h"

namespace warptune {
namespace {

constexpr std::size_t kMaxPlans = 20'000;

std::vector<std::string> work_dims(const Op& op) {
  std::vector<std::string> dims;
  for (const Dim& dim : op.dims)
    if (dim.role == DimRole::work) dims.push_back(dim.name);
  return dims;
}

/// Problems that differ in dims of work only, and the ends of their cells.
struct Shape {
  std::vector<Problem> problems;
  std::vector<std::set<std::int64_t>> ends;  // per dim of work
  std::vector<std::int64_t> lowest;          // that is covered
};

class TableMaker {
 public:
  TableMaker(ExportChooser& chooser, const std::vector<Cover>& covers) : chooser_(chooser), covers_(covers) {}

  void add(Problem problem) {
    const Op& op = chooser_.ops().find(problem.op).op;
    for (const Dim& dim : op.dims)  // what only changes data has the same plan
      if (dim.role == DimRole::data && dim.fallback && problem.dims.has(dim.name))
        if (auto plain = with_dim(op, problem, dim.name, *dim.fallback)) problem = *std::move(plain);
    Problem key = problem;
    for (const std::string& dim : work_dims(op)) key.dims.set(dim, 0);
    Shape& shape = shapes_[key.key()];
    if (!contains(shape.problems, problem)) shape.problems.push_back(problem);
  }

  PlanTable make() {
    for (auto& [key, shape] : shapes_) {
      set_ends(shape);
      const auto dims = work_dims(chooser_.ops().find(shape.problems.front().op).op);
      const bool whole =
          std::ranges::any_of(covers_, [&](const Cover& cover) { return contains(dims, cover.dim); });
      if (whole)
        fill_cells(shape, dims);
      else
        for (const Problem& problem : shape.problems) fill(cell_below(shape, dims, problem), problem, false);
    }
    return std::move(table_);
  }

 private:
  void set_ends(Shape& shape) const {
    const auto dims = work_dims(chooser_.ops().find(shape.problems.front().op).op);
    for (const std::string& dim : dims) {
      std::set<std::int64_t> ends;
      for (const Problem& problem : shape.problems) ends.insert(problem[dim]);
      std::int64_t lowest = 1;
      for (const Cover& cover : covers_) {
        if (cover.dim != dim) continue;
        lowest = cover.from;
        ends.insert(cover.to);
        for (std::int64_t end = 1; end < cover.to; end *= 2)
          if (end >= cover.from) ends.insert(end);
      }
      shape.ends.push_back(std::move(ends));
      shape.lowest.push_back(lowest);
    }
  }

  static DimBox cell_below(const Shape& shape, const std::vector<std::string>& dims, const Problem& corner) {
    DimBox cell;
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const std::int64_t to = corner[dims[i]];
      const auto end = shape.ends[i].find(to);
      const std::int64_t from = end == shape.ends[i].begin() ? shape.lowest[i] : *std::prev(end) + 1;
      cell.push_back({dims[i], std::min(from, to), to});
    }
    return cell;
  }

  void fill_cells(const Shape& shape, const std::vector<std::string>& dims) {
    std::vector<Problem> corners = {shape.problems.front()};
    for (std::size_t i = 0; i < dims.size(); ++i) {
      std::vector<Problem> more;
      for (const Problem& corner : corners)
        for (const std::int64_t end : shape.ends[i]) {
          more.push_back(corner);
          more.back().dims.set(dims[i], end);
        }
      corners = std::move(more);
    }
    for (const Problem& corner : corners) fill(cell_below(shape, dims, corner), corner, true);
  }

  /// The plan of the cell's upper corner; `whole`: also of what it does not serve.
  void fill(const DimBox& cell, const Problem& corner, bool whole) {
    const OpEntry& entry = chooser_.ops().find(corner.op);
    DimBox served;
    for (const DimRange& range : cell) served.push_back({range.dim, range.to, range.to});
    try {
      const Problem problem = entry.op.problem(corner.dims, corner.dtype);
      const ExportChoice choice = chooser_.choose(problem);
      if (choice.lost_winner() && lost_.insert(problem.key()).second)
        table_.lost_winners.push_back(
            fmt::format("{}: the winner '{}' is not exported, '{}' ({}) takes its place{}{}", problem.key(),
                        choice.instead_of->variant, choice.variant->name, choice.source,
                        choice.why_not.empty() ? "" : ": ", choice.why_not));
      const Specialization kernels(entry, *choice.variant, problem, choice.config, chooser_.facts());
      served = kernels.largest_box(cell);
      ExportedPlan plan{.problem = problem,
                        .box = served,
                        .choice = choice,
                        .launch = kernels.launch(served),
                        .args = args_layout(entry.op, problem, varied(entry.op, problem))};
      for (std::size_t i = 0; i < plan.launch.stages.size(); ++i)
        if (auto& list = plan.launch.stages[i].arguments) place_arguments(*list, i, plan.args);
      table_.plans.push_back(std::move(plan));
    } catch (const InputError& e) {
      table_.left_out.push_back(fmt::format("{}: {}", corner.key(), e.what()));
      if (const Winner* winner = chooser_.winner_of(corner); winner && lost_.insert(corner.key()).second)
        table_.lost_winners.push_back(
            fmt::format("{}: the winner '{}' is not exported, and nothing takes its place", corner.key(),
                        winner->variant));
      if (whole) served = cell;  // its other problems would fail alike
    }
    if (table_.plans.size() > kMaxPlans)
      throw InputError("the table has more than {} plans: fewer --problem or a shorter --cover", kMaxPlans);
    if (!whole) return;
    // What is left of the cell, one slab below `served` per dim.
    for (std::size_t i = 0; i < cell.size(); ++i) {
      if (served[i].from == cell[i].from) continue;
      DimBox slab;
      for (std::size_t k = 0; k < cell.size(); ++k) slab.push_back(k < i ? served[k] : cell[k]);
      slab[i].to = served[i].from - 1;
      Problem below = corner;
      for (const DimRange& range : slab) below.dims.set(range.dim, range.to);
      fill(slab, below, true);
    }
  }

  /// Legal problems with other amounts of work.
  static std::vector<Problem> varied(const Op& op, const Problem& problem) {
    std::vector<Problem> problems;
    for (const std::string& dim : work_dims(op))
      for (const std::int64_t value : {problem[dim] + 1, 2 * problem[dim] + 64})
        if (auto other = with_dim(op, problem, dim, value)) problems.push_back(*std::move(other));
    return problems;
  }

  ExportChooser& chooser_;
  const std::vector<Cover>& covers_;
  std::map<std::string, Shape> shapes_;
  PlanTable table_;
  std::set<std::string> lost_;  // keys of problems
};

}  // namespace

Cover parse_cover(const std::string& text) {
  const auto fail = [&] {
    return InputError("--cover is '{}'; it must be DIM=FROM:TO, as tokens=1:4096", brief(text));
  };
  const auto equals = text.find('='), colon = text.find(':', equals == std::string::npos ? 0 : equals);
  if (equals == std::string::npos || colon == std::string::npos || equals == 0) throw fail();
  Cover cover{.dim = text.substr(0, equals)};
  const std::string what = fmt::format("--cover {}", brief(cover.dim));
  cover.from = whole_number(text.substr(equals + 1, colon - equals - 1), what);
  cover.to = whole_number(text.substr(colon + 1), what);
  if (cover.from < 1 || cover.from > cover.to || cover.to > kLargestDim) throw fail();
  return cover;
}

PlanTable make_plan_table(ExportChooser& chooser, const std::vector<Problem>& problems,
                          const std::vector<Cover>& covers) {
  std::set<std::string> known;
  for (const Problem& problem : problems)
    for (const std::string& dim : work_dims(chooser.ops().find(problem.op).op)) known.insert(dim);
  for (const Cover& cover : covers)
    if (!known.contains(cover.dim))
      throw InputError("--cover names '{}', which is no dim of work of these problems{}", brief(cover.dim),
                       did_you_mean(cover.dim, std::vector(known.begin(), known.end())));
  TableMaker maker(chooser, covers);
  for (const Problem& problem : problems) maker.add(problem);
  return maker.make();
}

}  // namespace warptune
