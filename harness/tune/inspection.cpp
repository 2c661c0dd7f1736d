#include "harness/tune/inspection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <regex>
#include <set>

#include "harness/core/error.h"
#include "harness/core/print.h"
#include "harness/core/text_table.h"
#include "harness/core/variant_values.h"
#include "harness/device/launch_check.h"
#include "harness/results/csv.h"
#include "harness/tune/compile_pool.h"
#include "harness/tune/progress.h"
#include "harness/tune/schedule.h"

namespace warptune {
namespace {

struct Row {
  std::size_t configurations = 0, errors = 0, resource = 0, spilling = 0;
  std::set<std::string> kernels;
  int registers_min = 1 << 30, registers_max = 0;
  std::int64_t shared_max = 0, spill_max = 0;
  double occupancy_min = 101, occupancy_max = 0;
};

/// Why configurations fail. Equal reasons are counted.
class ReasonList {
 public:
  void add(const std::string& variant, const std::string& message) {
    const auto [it, is_new] = at_.try_emplace(essence(message), reasons_.size());
    if (is_new) reasons_.push_back({variant, message});
    ++reasons_[it->second].count;
  }
  /// `one` and `several` end the sentence "3 configurations do not compile".
  void print(std::FILE* log, const char* one, const char* several) const {
    for (const Reason& r : reasons_) {
      std::string message = r.message;
      if (message.size() > kLongestMessage) message = message.substr(0, kLongestMessage) + " ...";
      warptune::print(
          log, "\n{} configuration{}{}, the first of {}:\n{}\n", r.count, r.count > 1 ? "s " : " ",
          r.count > 1 ? fmt::format("{} for the same reason", several) : one, r.variant, Lines{message});
    }
  }

 private:
  static constexpr std::size_t kLongestMessage = 1500;
  struct Reason {
    std::string variant, message;
    std::size_t count = 0;
  };
  /// The first line that names an error, else the whole message, without what differs between configurations:
  /// numbers, template arguments and mangled names.
  static std::string essence(const std::string& message) {
    std::string text = message;
    if (const auto at = message.find("error"); at != std::string::npos) {
      const auto begin = message.rfind('\n', at) + 1;  // npos + 1 is 0
      text = message.substr(begin, message.find('\n', at) - begin);
    }
    static const std::regex mangled("_Z[A-Za-z0-9_]+"), arguments("<[^<>]*>"),
        numbers("0x[0-9a-fA-F]+|[0-9]+");
    text = std::regex_replace(text, mangled, "_Z");
    for (std::string inner; inner != text;) {
      inner = text;
      text = std::regex_replace(inner, arguments, "");
    }
    return std::regex_replace(text, numbers, "#");
  }
  std::vector<Reason> reasons_;
  std::map<std::string, std::size_t> at_;
};

/// At most `limit` candidates of each variant (core/space.h: spread).
std::vector<Candidate> sampled(const std::vector<Candidate>& candidates, int limit) {
  std::vector<Candidate> chosen;
  for (auto begin = candidates.begin(); begin != candidates.end();) {
    const auto end = std::find_if(begin, candidates.end(),
                                  [&](const Candidate& c) { return c.variant != begin->variant; });
    std::ranges::move(spread(std::vector(begin, end), limit), std::back_inserter(chosen));
    begin = end;
  }
  return chosen;
}

/// Keeps at most `limit` candidates of each variant of all lists, evenly spread; of one, the middle one.
void keep_per_variant(std::vector<std::vector<Candidate>>& lists, int limit) {
  if (limit <= 0) return;
  std::map<const Variant*, std::size_t> counts, seen;
  for (const auto& list : lists)
    for (const Candidate& c : list) ++counts[c.variant];
  for (auto& list : lists)
    std::erase_if(list, [&](const Candidate& c) {
      const std::size_t i = seen[c.variant]++, count = counts[c.variant];
      const std::size_t want = std::min(count, static_cast<std::size_t>(limit));
      return (i * want + (count + 1) / 2) % count >= want;
    });
}

void count(Row& row, const CompileResult& result) {
  ++row.configurations;
  row.resource += result.kind == CompileResult::Kind::resource;
  row.errors += result.kind == CompileResult::Kind::compile_error;
  if (result.kind != CompileResult::Kind::ok) return;
  const Resources& r = result.resources;
  row.registers_min = std::min(row.registers_min, r.registers);
  row.registers_max = std::max(row.registers_max, r.registers);
  row.shared_max = std::max(row.shared_max, r.shared_bytes);
  row.spill_max = std::max(row.spill_max, r.spill_bytes);
  row.spilling += r.spill_bytes > 0;
  row.occupancy_min = std::min(row.occupancy_min, r.occupancy_pct);
  row.occupancy_max = std::max(row.occupancy_max, r.occupancy_pct);
}

TextTable table_of_resources() {
  return TextTable({text_column("op/variant"),
                    {"configs"},
                    {"kernels"},
                    {"registers"},
                    {"max shared B"},
                    {"configs that spill"},
                    {"max spill B"},
                    {"occupancy %"},
                    {"too large"},
                    {"errors"}});
}

std::string range_of(double low, double high) {
  return low == high ? fmt::format("{:.0f}", low) : fmt::format("{:.0f}-{:.0f}", low, high);
}

void add_row(TextTable& table, const std::string& name, const Row& row) {
  const bool any = row.registers_max > 0;
  const auto number = [](std::size_t value, Color color) {
    return Cell{std::to_string(value), value > 0 ? color : Color::none};
  };
  table.add({name, std::to_string(row.configurations), std::to_string(row.kernels.size()),
             any ? range_of(row.registers_min, row.registers_max) : "", std::to_string(row.shared_max),
             number(row.spilling, Color::yellow), std::to_string(row.spill_max),
             any ? range_of(row.occupancy_min, row.occupancy_max) : "", std::to_string(row.resource),
             number(row.errors, Color::red)});
}

const std::vector<std::string> kColumns = {"arch",         "op",          "problem",       "variant",
                                           "config",       "status",      "detail",        "registers",
                                           "shared_bytes", "spill_bytes", "occupancy_pct", "compile_ms",
                                           "kernel",       "grid",        "block",         "dynamic_bytes"};

/// The launches of a configuration as columns: name expression, grid, block and dynamic shared memory of each
/// kernel.
std::vector<std::string> launch_fields_of(const CompileTask& task, const DeviceFacts& facts) {
  std::vector<std::string> kernels, grids, blocks, bytes;
  const auto text = [](const Dim3& d) { return fmt::format("{}x{}x{}", d.x, d.y, d.z); };
  for (const Stage* stage : active_kernels(*task.variant, *task.problem, task.config)) {
    const Launch launch = launch_of(*task.variant, *stage, *task.problem, task.config, facts);
    kernels.push_back(kernel_key(*task.variant, *stage, *task.problem, task.config));
    grids.push_back(text(launched_grid(launch, facts)));
    blocks.push_back(text(launch.block));
    bytes.push_back(std::to_string(launch.shared_bytes));
  }
  const auto joined = [](const auto& list) { return fmt::format("{}", fmt::join(list, "; ")); };
  return {joined(kernels), joined(grids), joined(blocks), joined(bytes)};
}

std::vector<std::string> fields_of(const DeviceFacts& facts, const CompileTask& task,
                                   const CompileResult& r) {
  static constexpr const char* kStatus[] = {"ok", "compile_error", "resource"};
  std::string detail = r.detail.substr(0, 600);
  std::ranges::replace(detail, '\n', ' ');
  const bool ok = r.kind == CompileResult::Kind::ok;
  const auto number = [&](auto value) { return ok ? fmt::format("{:.6g}", static_cast<double>(value)) : ""; };
  std::vector<std::string> fields = {facts.arch,
                                     task.problem->op,
                                     task.problem->key(),
                                     task.variant->name,
                                     task.config.str(),
                                     kStatus[static_cast<int>(r.kind)],
                                     detail,
                                     number(r.resources.registers),
                                     number(r.resources.shared_bytes),
                                     number(r.resources.spill_bytes),
                                     number(r.resources.occupancy_pct),
                                     number(r.resources.compile_ms)};
  std::ranges::move(ok ? launch_fields_of(task, facts) : std::vector<std::string>(4),
                    std::back_inserter(fields));
  return fields;
}

/// The compiled configurations of a sweep on one architecture, with the op/variant of each.
struct CompileList {
  Schedule schedule;                               // what the tasks point to
  std::vector<std::vector<Candidate>> candidates;  // per problem
  std::vector<CompileTask> tasks;
  std::vector<std::string> names;
};

/// Empty where nothing is compiled: libraries have no kernels of their own.
CompileList compile_list(const Sweep& sweep, const DeviceFacts& facts, const InspectOptions& options) {
  CompileList list{.schedule = make_schedule(sweep, facts, options.filter)};
  for (const ScheduledProblem& p : list.schedule)
    list.candidates.push_back(sampled(p.candidates, options.sample));
  keep_per_variant(list.candidates, options.per_variant);
  for (std::size_t i = 0; i < list.schedule.size(); ++i)
    for (const Candidate& c : list.candidates[i])
      if (!c.variant->stages.empty()) {
        const SweepItem& item = *list.schedule[i].item;
        list.tasks.push_back({c.variant, &item.problem, c.config()});
        list.names.push_back(item.entry->op.name + "/" + c.variant->name);
      }
  return list;
}

std::string nothing_is_compiled(const InspectOptions& options, const std::string& archs) {
  return fmt::format(
      "nothing of this sweep{} is compiled for {}: library calls, host variants and configurations that "
      "break a constraint are not",
      options.filter.empty() ? "" : fmt::format(" in --filter '{}'", options.filter), archs);
}

/// Compiles one architecture and prints its table. Returns the number of compile errors.
std::size_t inspect_arch(const CompileList& list, const Compiler& compiler, const DeviceFacts& facts,
                         const InspectOptions& options, CsvFile* csv) {
  std::vector<std::string> order;
  std::map<std::string, Row> rows;
  ReasonList errors, too_large;
  CompilePool pool(compile_with(compiler, facts), compile_jobs(options.compile_jobs), list.tasks.size());
  for (const CompileTask& task : list.tasks) pool.add(task);
  Progress progress(stderr, list.tasks.size());
  for (std::size_t i = 0; i < list.tasks.size(); ++i) {
    const CompileTask& task = list.tasks[i];
    if (!rows.contains(list.names[i])) order.push_back(list.names[i]);
    Row& row = rows[list.names[i]];
    for (const Stage* stage : active_kernels(*task.variant, *task.problem, task.config))
      row.kernels.insert(kernel_key(*task.variant, *stage, *task.problem, task.config));
    const CompileResult result = pool.take(i, kMaxCompileSeconds);
    count(row, result);
    if (result.kind == CompileResult::Kind::compile_error) errors.add(list.names[i], result.detail);
    if (result.kind == CompileResult::Kind::resource) too_large.add(list.names[i], result.detail);
    if (csv) csv->append(fields_of(facts, task, result));
    progress.step(list.names[i], NAN);
  }
  progress.clear();

  TextTable table = table_of_resources();
  Row total;
  std::size_t kernels = 0;
  for (const std::string& name : order) {
    const Row& row = rows[name];
    add_row(table, name, row);
    total.configurations += row.configurations;
    total.errors += row.errors;
    total.resource += row.resource;
    kernels += row.kernels.size();
  }
  print(options.log, "{} ({})\n", facts.arch, facts.name);
  if (const std::string note = facts.family_note(); !note.empty()) print(options.log, "note: {}\n", note);
  print(options.log, table);
  too_large.print(options.log, "cannot be launched", "cannot be launched");
  errors.print(options.log, "does not compile", "do not compile");
  print(options.log, "{} configurations, {} kernels, {} too large for the device, {} do not compile\n\n",
        total.configurations, kernels, total.resource, total.errors);
  std::fflush(options.log);
  return total.errors;
}

}  // namespace

std::size_t inspect_sweep(const Sweep& sweep, const InspectOptions& options) {
  std::vector<DeviceFacts> devices;
  for (const std::string& arch : options.archs) devices.push_back(known_device(arch));
  const Compiler compiler(KernelSources(), default_cache_folder(),
                          nvrtc_for(options.program, kMaxCompileSeconds));
  compiler.make_cache();
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
  bool any = false;
  for (const DeviceFacts& facts : devices) {
    const CompileList list = compile_list(sweep, facts, options);
    any |= !list.tasks.empty();
    const bool empty = std::ranges::all_of(list.schedule, [](const auto& p) { return p.candidates.empty(); });
    if (empty && devices.size() == 1) throw no_configuration(sweep, list.schedule, facts);
    if (!list.tasks.empty())
      errors += inspect_arch(list, compiler, facts, options, csv.get());
    else if (devices.size() > 1)
      print(options.log, "{} ({}): {}\n\n", facts.arch, facts.name, nothing_is_compiled(options, facts.arch));
  }
  if (!any) throw InputError(nothing_is_compiled(options, fmt::format("{}", fmt::join(options.archs, ", "))));
  return errors;
}

}  // namespace warptune
