#include "harness/tune/device_rows.h"

#include <mutex>
#include <thread>

#include "harness/core/error.h"
#include "harness/core/parallel.h"
#include "harness/results/source_hash.h"
#include "harness/results/sweep_file.h"
#include "harness/tune/compile_pool.h"

namespace warptune {
namespace {

std::string cache_name(const SweepItem& item) { return name_of(item.options.cache); }

constexpr const char* kGraphNode = "graph_node";
constexpr const char* kSingleLaunch = "single_launch";

std::string launch_stamp() { return stamp_of("launch floor", {}); }

}  // namespace

DeviceRows::DeviceRows(const Compiler& compiler, const DeviceFacts& facts, RowStore& store,
                       const Schedule& schedule, std::set<Status> retry)
    : compiler_(compiler), facts_(facts), store_(store), retry_(std::move(retry)) {
  recognize_code(schedule);
}

void DeviceRows::begin(const Schedule& schedule) {
  Stamps stamps;
  for (const ScheduledProblem& p : schedule) {
    const auto add = [&](const Candidate& c) {
      stamps.try_emplace(stamp_name(p.item->problem.key(), cache_name(*p.item), c.variant->name),
                         stamp(*p.item, *c.variant));
    };
    for (const Candidate& c : p.candidates) add(c);
    for (const Excluded& e : p.excluded) add(e.candidate);
  }
  const std::string launch = launch_problem().key();
  stamps[stamp_name(launch, "hot", kGraphNode)] = launch_stamp();
  stamps[stamp_name(launch, "isolated", kSingleLaunch)] = launch_stamp();
  store_.begin(run_.run_id, stamps);
}

/// The inputs of a row that are not columns.
std::string DeviceRows::stamp(const SweepItem& item, const Variant& variant) const {
  auto& source = sources_[&variant];
  if (source.empty()) source = source_hash(compiler_, *item.entry, variant);
  return stamp_of(source, item.options);
}

std::string DeviceRows::key(const Problem& problem, const std::string& variant, const Config& config,
                            const std::string& cache, const std::string& stamp) const {
  return key_of({{"device", facts_.name},
                 {"arch", facts_.arch},
                 {"driver", facts_.driver},
                 {"toolkit", facts_.toolkit},
                 {"problem", problem.key()},
                 {"variant", variant},
                 {"config", config.str()},
                 {"cache", cache}},
                stamp);
}

/// The key by the variant's sources, or by machine code if no row has these sources.
std::string DeviceRows::key(const SweepItem& item, const Candidate& c) const {
  const std::string by_source = stamp(item, *c.variant);
  const auto code = code_.find({&item, c.variant, c.config().str()});
  return key(item.problem, c.variant->name, c.config(), cache_name(item),
             code == code_.end() ? by_source : code_stamp(by_source, code->second));
}

/// If the sources of a variant have changed since its rows were written, its configurations that have rows
/// are compiled. Those whose machine code is unchanged need no new measurement.
void DeviceRows::recognize_code(const Schedule& schedule) {
  struct Unknown {
    const SweepItem* item;
    const Candidate* candidate;
  };
  std::vector<Unknown> unknown;
  for (const ScheduledProblem& p : schedule)
    for (const Candidate& c : p.candidates)
      if (has_machine_code(*c.variant) &&
          store_.has_code(p.item->problem.key(), c.variant->name, c.config().str()) &&
          !store_.known(key(*p.item, c)))
        unknown.push_back({p.item, &c});
  std::mutex mutex;
  const auto jobs = static_cast<int>(std::thread::hardware_concurrency());
  parallel_for(unknown.size(), jobs, [&](std::size_t i) {
    const auto& [item, c] = unknown[i];
    try {
      std::string code = code_hash(compiler_, *c->variant, item->problem, c->config(), facts_.arch);
      const std::lock_guard lock(mutex);
      code_.emplace(CodeKey{item, c->variant, c->config().str()}, std::move(code));
    } catch (const CompileError&) {  // its row gets the error
    }
  });
}

const KnownRow* DeviceRows::known(const SweepItem& item, const Candidate& c) const {
  const KnownRow* row = store_.known(key(item, c));
  return row && retry_.contains(row->measurement.status) ? nullptr : row;
}

const KnownRow* DeviceRows::finalist(const SweepItem& item, const Candidate& c) const {
  return store_.later(key(item, c));
}

const KnownRow* DeviceRows::in_fresh_process(const SweepItem& item, const Candidate& c) const {
  return store_.in_fresh_process(key(item, c));
}

bool DeviceRows::has_launch_floors() const {
  return store_.later(key(launch_problem(), kGraphNode, {}, "hot", launch_stamp())) &&
         store_.later(key(launch_problem(), kSingleLaunch, {}, "isolated", launch_stamp()));
}

void DeviceRows::append(const Problem& problem, const std::string& variant, const Config& config,
                        const std::string& cache, const Cost& cost, const Measurement& measurement) {
  store_.append({.run = run_,
                 .timestamp_utc = timestamp_utc(),
                 .facts = facts_,
                 .problem = problem,
                 .variant = variant,
                 .config = config,
                 .cache = cache,
                 .cost = cost,
                 .measurement = measurement});
}

void DeviceRows::write(const SweepItem& item, const Candidate& candidate, const Measurement& m,
                       const char* cache) {
  append(item.problem, candidate.variant->name, candidate.config(), cache ? cache : cache_name(item),
         item.entry->op.cost(item.problem), m);
}

void DeviceRows::write(const LaunchFloors& floors) {
  if (floors.graph_node.samples > 0) append(launch_problem(), kGraphNode, {}, "hot", {}, floors.graph_node);
  if (floors.single_launch.samples > 0)
    append(launch_problem(), kSingleLaunch, {}, "isolated", {}, floors.single_launch);
}

Provenance DeviceRows::provenance() const {
  return {facts_.name, facts_.arch, facts_.driver, facts_.toolkit, run_.git_commit};
}

}  // namespace warptune
