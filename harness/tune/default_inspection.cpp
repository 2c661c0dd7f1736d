// `inspect --defaults`: the tile table on architectures that need not be present.
#include <fmt/format.h>

#include <algorithm>

#include "harness/core/print.h"
#include "harness/core/text_table.h"
#include "harness/tune/compile_pool.h"
#include "harness/tune/inspection.h"

namespace warptune {
namespace {

struct Totals {
  std::size_t bad = 0, spilling = 0;
  int registers = 0;
  std::int64_t shared = 0;

  void add(const Resources& r) {
    spilling += r.spill_bytes > 0;
    bad += r.occupancy_pct == 0;
    registers = std::max(registers, r.registers);
    shared = std::max(shared, r.shared_bytes);
  }
};

std::size_t inspect_arch(const OpTable& ops, const std::vector<Problem>& problems, const Compiler& compiler,
                         const DeviceFacts& facts, int jobs, std::FILE* log) {
  struct Example {
    Problem problem;
    std::vector<DefaultTile> tiles;
  };
  std::vector<Example> examples;
  for (const Problem& problem : problems) {
    examples.push_back({problem, ops.default_tiles(problem, facts)});
    std::erase_if(examples.back().tiles, [](const DefaultTile& t) { return !has_machine_code(*t.variant); });
  }

  CompilePool pool(compile_with(compiler, facts), compile_jobs(jobs), examples.size());
  for (const Example& e : examples)
    if (!e.tiles.empty()) pool.add({e.tiles[0].variant, &e.problem, e.tiles[0].config});

  Totals totals;
  std::size_t task = 0;
  TextTable table({text_column("problem"), {"registers"}, {"shared B/block"}, {"spill B"}, {"occupancy %"}});
  for (const Example& e : examples) {
    if (e.tiles.empty()) {
      table.add({e.problem.key()}, "no row of the table fits");
      ++totals.bad;
      continue;
    }
    const DefaultTile& tile = e.tiles[0];
    const std::string name = fmt::format("{} {} ({})", tile.variant->name, tile.config.str(), tile.origin());
    const CompileResult result = pool.take(task++, kMaxCompileSeconds);
    if (result.kind != CompileResult::Kind::ok) {
      table.add({e.problem.key()},
                fmt::format("{} does not compile: {}", name, result.detail.substr(0, 1500)));
      ++totals.bad;
      continue;
    }
    const Resources& r = result.resources;
    table.add({e.problem.key(), std::to_string(r.registers), std::to_string(r.shared_bytes),
               Cell{std::to_string(r.spill_bytes), r.spill_bytes > 0 ? Color::yellow : Color::none},
               fmt::format("{:.0f}", r.occupancy_pct)},
              name);
    totals.add(r);
  }
  print(log, "{} ({})\n", facts.arch, facts.name);
  if (const std::string note = facts.family_note(); !note.empty()) print(log, "note: {}\n", note);
  print(log, table);
  print(log,
        "{} defaults for {}: at most {} registers and {} of {} bytes of shared memory per block; {} spill, "
        "{} do not compile or fit\n\n",
        examples.size(), facts.arch, totals.registers, totals.shared, facts.shared_per_block, totals.spilling,
        totals.bad);
  std::fflush(log);
  return totals.bad;
}

}  // namespace

std::size_t inspect_defaults(const OpTable& ops, const std::vector<Problem>& examples,
                             const std::vector<std::string>& archs, int compile_jobs, std::FILE* log) {
  std::vector<DeviceFacts> devices;
  for (const std::string& arch : archs) devices.push_back(known_device(arch));
  const Compiler compiler(KernelSources(), default_cache_folder());
  compiler.make_cache();
  std::size_t bad = 0;
  for (const DeviceFacts& facts : devices)
    bad += inspect_arch(ops, examples, compiler, facts, compile_jobs, log);
  return bad;
}

}  // namespace warptune
