// A row of the table of plans. It comes from warptune.json and is checked once: its largest problem can be
// launched.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "warptune/args_layout.h"
#include "warptune/detail/formula.h"
#include "warptune/detail/json.h"
#include "warptune/detail/stage.h"
#include "warptune/problem.h"

namespace warptune {

/// A row of the table: a plan, and the problems that it serves.
struct Entry {
  using Range = warptune::Range;
  std::string problem;  // the key of the largest one
  std::string op, dtype, variant;
  std::map<std::string, std::string> dims;  // that must be equal
  Ranges ranges;
  ArgsLayout args;
  std::vector<detail::Stage> stages;
  detail::Formula workspace_bytes;

  /// `ops` by name.
  Entry(const detail::Json& json, const std::map<std::string, Op>& ops)
      : problem(json["problem"].text()),
        op(json["op"].text()),
        dtype(json["dtype"].text()),
        variant(json["variant"].text()),
        dims(dims_of(json["dims"])),
        ranges(ranges_of(json["ranges"])),
        args(detail::within("args", [&] { return ArgsLayout(json["args"], ranges); })),
        workspace_bytes(json["workspace"]["bytes"],
                        [&](const detail::Json& name) { return detail::index_of(ranges, name); }) {
    for (const detail::Json& stage : json["stages"].list())
      stages.push_back(detail::within(stage.name(), [&] { return detail::Stage(stage, ranges, args); }));
    if (stages.empty()) throw Error("'stages' is empty");
    expect_workspace(json["workspace"]);
    expect_description(json);
    expect_dims(ops);
    expect_launch();
  }

  /// Bytes of the workspace for the values of the dims in `ranges`.
  std::size_t workspace_size(const std::vector<std::int64_t>& values) const {
    return static_cast<std::size_t>(
        workspace_bytes.evaluate([&](std::size_t i) { return values.at(i); }, 0, detail::kMaxMagnitude));
  }

  /// "rms_norm[tokens=5..8,hidden=4096,dtype=bf16]"
  std::string covered() const {
    std::string text = op + "[";
    for (const auto& [name, range] : ranges)
      text += name + "=" + (range.from == range.to ? "" : std::to_string(range.from) + "..") +
              std::to_string(range.to) + ",";
    for (const auto& [name, value] : dims) text += name + "=" + value + ",";
    return text + "dtype=" + dtype + "]";
  }

  /// `complete`: the dims of the problem with its defaults.
  bool serves(const Problem& other, const std::map<std::string, std::string>& complete) const {
    if (op != other.op || dtype != other.dtype) return false;
    for (const auto& [name, value] : dims)
      if (complete.at(name) != value) return false;
    for (const auto& [name, range] : ranges)
      if (const std::int64_t value = Problem::number(name, complete.at(name));
          value < range.from || value > range.to)
        return false;
    return true;
  }

 private:
  static std::map<std::string, std::string> dims_of(const detail::Json& json) {
    std::map<std::string, std::string> dims;
    for (const detail::Json& dim : json.members())
      if (!dims.emplace(dim.name(), dim.word()).second) throw Error("'dims' has '" + dim.name() + "' twice");
    return dims;
  }

  static Ranges ranges_of(const detail::Json& json) {
    Ranges ranges;
    for (const detail::Json& range : json.members()) {
      const std::int64_t to = range.list(2)[1].whole(0, detail::kMaxMagnitude),
                         from = range.list(2)[0].whole(0, to);
      if (!ranges.emplace(range.name(), Range{from, to}).second)
        throw Error("'ranges' has '" + range.name() + "' twice");
    }
    return ranges;
  }

  void expect_workspace(const detail::Json& json) const {
    if (json["zeroed"].text() != "once")
      throw Error("'zeroed' is '" + json["zeroed"].text() + "'; it must be once");
    if (!workspace_bytes.is_zero() && !args.workspace())
      throw Error("there is a workspace, but no member of the args has 'workspace'");
  }

  /// What describes the plan to a reader is not used, but must be what it should be.
  static void expect_description(const detail::Json& json) {
    using Kind = detail::Json::Kind;
    json["config"].expect(Kind::object);
    json["tensors"].expect(Kind::list);
    if (const detail::Json* origin = json.find("origin")) origin->expect(Kind::object);
    if (const detail::Json* hash = json.find("code_hash")) hash->expect(Kind::text);
  }

  /// Each dim of the op is fixed or has a range, and the plan serves its own problem.
  void expect_dims(const std::map<std::string, Op>& ops) const {
    const auto known = ops.find(op);
    if (known == ops.end()) throw Error("'op' is '" + op + "', which 'ops' lacks");
    std::size_t count = 0;
    for (const Op::Dim& dim : known->second.dims) {
      if (dim.is_data) continue;
      ++count;
      if (dims.count(dim.name) + ranges.count(dim.name) != 1)
        throw Error("the dim '" + dim.name + "' must be in one of 'dims' and 'ranges'");
    }
    if (dims.size() + ranges.size() != count) throw Error("'dims' or 'ranges' has a dim that the op has not");
    const Problem largest = Problem::parse(problem);
    if (!serves(largest, known->second.complete(largest)))
      throw Error("the plan does not serve its 'problem'");
  }

  /// The largest problem can be launched.
  void expect_launch() const {
    std::vector<std::int64_t> largest;
    for (const auto& [name, range] : ranges) largest.push_back(range.to);
    detail::within("workspace", [&] { return workspace_size(largest); });
    for (const detail::Stage& stage : stages) detail::geometry_of(stage, largest);
  }
};

}  // namespace warptune
