#include "harness/tune/default_inspection.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/tune/compile_lanes.h"

namespace warptune {
namespace {

constexpr double kCompileSeconds = 3600;  // of one configuration

std::size_t inspect_arch(const OpTable& ops, const std::vector<Problem>& problems, const Compiler& compiler,
                         const DeviceFacts& facts, int lanes, std::FILE* log) {
  struct Example {
    Problem problem;
    std::vector<DefaultTile> tiles;
  };
  std::vector<Example> examples;
  for (const Problem& problem : problems) examples.push_back({problem, ops.default_tiles(problem, facts)});

  CompileLanes compiling(compile_with(compiler, facts), lanes > 0 ? lanes : default_lanes(), examples.size());
  for (const Example& e : examples)
    if (!e.tiles.empty()) compiling.add({e.tiles[0].variant, &e.problem, &e.tiles[0].config});

  std::size_t bad = 0, spilling = 0, task = 0;
  int registers = 0;
  std::int64_t shared = 0;
  fmt::print(log, "{} ({})\n", facts.arch, facts.name);
  if (const std::string note = facts.family_note(); !note.empty()) fmt::print(log, "note: {}\n", note);
  for (const Example& e : examples) {
    fmt::print(log, "{}\n", e.problem.key());
    if (e.tiles.empty()) {
      fmt::print(log, "  no row of the table fits\n");
      ++bad;
      continue;
    }
    const DefaultTile& tile = e.tiles[0];
    fmt::print(log, "  {} {}\n  {}\n", tile.variant->name, tile.config.str(), tile.origin());
    const CompileResult result = compiling.take(task++, kCompileSeconds);
    if (result.kind != CompileResult::Kind::ok) {
      fmt::print(log, "  does not compile: {}\n", result.detail.substr(0, 1500));
      ++bad;
      continue;
    }
    const Resources& r = result.resources;
    fmt::print(log,
               "  {} registers, {} bytes of shared memory per block, {} bytes spilled, {:.0f} % occupancy\n",
               r.registers, r.shared_bytes, r.spill_bytes, r.occupancy_pct);
    spilling += r.spill_bytes > 0 ? 1 : 0;
    bad += r.occupancy_pct == 0 ? 1 : 0;
    registers = std::max(registers, r.registers);
    shared = std::max(shared, r.shared_bytes);
  }
  fmt::print(
      log,
      "{} defaults for {}: at most {} registers and {} of {} bytes of shared memory per block; {} spill, "
      "{} do not compile or fit\n\n",
      examples.size(), facts.arch, registers, shared, facts.shared_per_block, spilling, bad);
  std::fflush(log);
  return bad;
}

}  // namespace

std::size_t inspect_defaults(const OpTable& ops, const std::vector<Problem>& examples,
                             const std::vector<std::string>& archs, int lanes, std::FILE* log) {
  std::vector<DeviceFacts> devices;
  for (const std::string& arch : archs) devices.push_back(known_device(arch));
  const Compiler compiler(KernelSources(), default_cache_folder());
  std::size_t bad = 0;
  for (const DeviceFacts& facts : devices) bad += inspect_arch(ops, examples, compiler, facts, lanes, log);
  return bad;
}

}  // namespace warptune
