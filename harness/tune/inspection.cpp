#include "harness/tune/inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "harness/core/error.h"
#include "harness/results/csv.h"
#include "harness/tune/compile_lanes.h"
#include "harness/tune/plan.h"
#include "harness/tune/progress.h"

namespace warptune {
namespace {

constexpr double kCompileSeconds = 3600;  // of one configuration

struct Row {
  std::size_t configurations = 0, errors = 0, resource = 0, kernels = 0;
  int registers_min = 1 << 30, registers_max = 0;
  std::int64_t shared_max = 0, spill_max = 0;
  std::size_t spilling = 0;
  double occupancy_min = 101, occupancy_max = 0;
  std::vector<std::string> messages;
};

/// At most `most` of the candidates of each variant, evenly spread, the first and the last among them.
std::vector<Candidate> sampled(const std::vector<Candidate>& candidates, int most) {
  if (most <= 0) return candidates;
  std::vector<Candidate> chosen;
  for (std::size_t begin = 0; begin < candidates.size();) {
    std::size_t end = begin;
    while (end < candidates.size() && candidates[end].variant == candidates[begin].variant) ++end;
    const std::size_t count = end - begin, want = std::min(count, static_cast<std::size_t>(most));
    for (std::size_t i = 0; i < want; ++i)
      chosen.push_back(candidates[begin + (want == 1 ? 0 : i * (count - 1) / (want - 1))]);
    begin = end;
  }
  return chosen;
}

void count(Row& row, const CompileResult& result) {
  ++row.configurations;
  if (result.kind == CompileResult::Kind::resource) {
    ++row.resource;
    return;
  }
  if (result.kind == CompileResult::Kind::compile_error) {
    ++row.errors;
    if (row.messages.size() < 3) row.messages.push_back(result.detail);
    return;
  }
  const Resources& r = result.resources;
  row.registers_min = std::min(row.registers_min, r.registers);
  row.registers_max = std::max(row.registers_max, r.registers);
  row.shared_max = std::max(row.shared_max, r.shared_bytes);
  row.spill_max = std::max(row.spill_max, r.spill_bytes);
  row.spilling += r.spill_bytes > 0 ? 1 : 0;
  row.occupancy_min = std::min(row.occupancy_min, r.occupancy_pct);
  row.occupancy_max = std::max(row.occupancy_max, r.occupancy_pct);
}

void print_row(std::FILE* log, const std::string& name, const Row& row) {
  const bool any = row.registers_max > 0;
  fmt::print(log, "{:<34} {:>7} {:>7} {:>9} {:>10} {:>8} {:>8} {:>9} {:>8} {:>6}\n", name, row.configurations,
             row.kernels, any ? fmt::format("{}-{}", row.registers_min, row.registers_max) : "",
             row.shared_max, row.spilling, row.spill_max,
             any ? fmt::format("{:.0f}-{:.0f}", row.occupancy_min, row.occupancy_max) : "", row.resource,
             row.errors);
  for (std::string message : row.messages) {
    if (message.size() > 1500) message = message.substr(0, 1500) + " ...";
    fmt::print(log, "    {}\n", message);
  }
}

const std::vector<std::string> kColumns = {"arch",         "op",          "problem",       "variant",
                                           "config",       "status",      "detail",        "registers",
                                           "shared_bytes", "spill_bytes", "occupancy_pct", "compile_ms"};

std::vector<std::string> fields_of(const std::string& arch, const CompileTask& task, const CompileResult& r) {
  static constexpr const char* kStatus[] = {"ok", "compile_error", "resource"};
  std::string detail = r.detail.substr(0, 600);
  std::ranges::replace(detail, '\n', ' ');
  const bool ok = r.kind == CompileResult::Kind::ok;
  const auto number = [&](auto value) { return ok ? fmt::format("{:.6g}", static_cast<double>(value)) : ""; };
  return {arch,
          task.problem->op,
          task.problem->key(),
          task.variant->name,
          task.config->str(),
          kStatus[static_cast<int>(r.kind)],
          detail,
          number(r.resources.registers),
          number(r.resources.shared_bytes),
          number(r.resources.spill_bytes),
          number(r.resources.occupancy_pct),
          number(r.resources.compile_ms)};
}

}  // namespace

std::size_t inspect_sweep(const Sweep& sweep, const InspectOptions& options) {
  std::vector<DeviceFacts> devices;
  for (const std::string& arch : options.archs) devices.push_back(known_device(arch));
  const Compiler compiler(KernelSources(), default_cache_folder());
  std::unique_ptr<CsvFile> csv;
  if (!options.csv.empty()) {
    try {
      csv = std::make_unique<CsvFile>(options.csv, kColumns);
    } catch (const InputError&) {
      throw;
    } catch (const std::exception& e) {
      throw InputError(e.what());
    }
  }
  std::size_t errors = 0;
  for (const DeviceFacts& facts : devices) {
    const auto problems = plan_sweep(sweep, facts, options.filter);
    std::vector<std::pair<const PlannedProblem*, std::vector<Candidate>>> chosen;
    for (const PlannedProblem& p : problems) chosen.emplace_back(&p, sampled(p.candidates, options.sample));
    // A kernel that configurations share is compiled once, then found in the cache. A library has none.
    std::vector<CompileTask> tasks;
    std::vector<std::string> names;
    for (const auto& [problem, candidates] : chosen)
      for (const Candidate& c : candidates)
        if (!c.variant->stages.empty()) {
          tasks.push_back({c.variant, &problem->item->problem, &c.config});
          names.push_back(problem->item->entry->op.name + "/" + c.variant->name);
        }
    if (tasks.empty())
      throw InputError(fmt::format(
          "nothing of this sweep{} is compiled for {}: neither library calls nor host "
          "variants are, nor what the constraints exclude",
          options.filter.empty() ? "" : fmt::format(" in --filter '{}'", options.filter), facts.arch));
    std::vector<std::string> order;
    std::map<std::string, Row> rows;
    std::map<std::string, std::set<std::string>> kernels;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (!rows.contains(names[i])) order.push_back(names[i]);
      rows[names[i]];
      for (const Stage* stage : active_kernels(*tasks[i].variant, *tasks[i].problem, *tasks[i].config))
        kernels[names[i]].insert(
            expand_kernel_name(*tasks[i].variant, *stage, *tasks[i].problem, *tasks[i].config));
    }
    {
      CompileLanes lanes(compile_with(compiler, facts), options.lanes > 0 ? options.lanes : default_lanes(),
                         tasks.size());
      for (const CompileTask& task : tasks) lanes.add(task);
      Progress progress(stderr, std::max<std::size_t>(tasks.size(), 1));
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        const CompileResult result = lanes.take(i, kCompileSeconds);
        count(rows[names[i]], result);
        if (csv) csv->append(fields_of(facts.arch, tasks[i], result));
        progress.step(names[i], NAN);
      }
      progress.clear();
    }
    fmt::print(options.log, "{} ({})\n", facts.arch, facts.name);
    if (const std::string note = facts.family_note(); !note.empty())
      fmt::print(options.log, "note: {}\n", note);
    fmt::print(options.log, "{:<34} {:>7} {:>7} {:>9} {:>10} {:>8} {:>8} {:>9} {:>8} {:>6}\n", "op/variant",
               "configs", "kernels", "registers", "shared max", "spilling", "most B", "occupancy", "resource",
               "errors");
    Row total;
    for (const std::string& name : order) {
      Row& row = rows[name];
      row.kernels = kernels[name].size();
      print_row(options.log, name, row);
      total.configurations += row.configurations;
      total.kernels += row.kernels;
      total.errors += row.errors;
      total.resource += row.resource;
    }
    fmt::print(options.log,
               "{} configurations, {} kernels, {} ask for more than the device has, {} do not compile\n\n",
               total.configurations, total.kernels, total.resource, total.errors);
    std::fflush(options.log);
    errors += total.errors;
  }
  return errors;
}

}  // namespace warptune
