#include "tune/device_rows.h"

#include "results/source_hash.h"

namespace warptune {
namespace {

std::string cache_name(const SweepItem& item) {
  return item.options.cache == CacheMode::hot ? "hot" : "cold";
}

}  // namespace

void DeviceRows::begin(const std::vector<PlannedProblem>& problems) {
  Stamps stamps;
  for (const PlannedProblem& p : problems) {
    const auto add = [&](const Candidate& c) {
      stamps.try_emplace(stamp_name(p.item->problem.key(), cache_name(*p.item), c.variant->name),
                         stamp(*p.item, *c.variant));
    };
    for (const Candidate& c : p.candidates) add(c);
    for (const Excluded& e : p.excluded) add(e.candidate);
  }
  store_.begin(run_.run_id, stamps);
}

/// What a row of an earlier run depends on besides what it says itself.
std::string DeviceRows::stamp(const SweepItem& item, const Variant& variant) const {
  auto& source = sources_[&variant];
  if (source.empty()) source = source_hash(compiler_, item.problem.op, variant);
  return stamp_of(source, item.options);
}

std::string DeviceRows::key(const SweepItem& item, const Candidate& c) const {
  return key_of({{"device", facts_.name},
                 {"arch", facts_.arch},
                 {"driver", facts_.driver},
                 {"toolkit", facts_.toolkit},
                 {"problem", item.problem.key()},
                 {"variant", c.variant->name},
                 {"config", c.config.str()},
                 {"cache", cache_name(item)}},
                stamp(item, *c.variant));
}

const KnownRow* DeviceRows::known(const SweepItem& item, const Candidate& c) const {
  return store_.known(key(item, c));
}

const KnownRow* DeviceRows::tried(const SweepItem& item, const Candidate& c) const {
  const KnownRow* row = known(item, c);
  if (!row || row->measurement.status == Status::constraint) return nullptr;
  return retry_.contains(row->measurement.status) ? nullptr : row;
}

const KnownRow* DeviceRows::finalist(const SweepItem& item, const Candidate& c) const {
  return store_.finalist(key(item, c));
}

void DeviceRows::write(const SweepItem& item, const Candidate& candidate, const Measurement& m,
                       const char* cache) {
  store_.append({.run = run_,
                 .timestamp_utc = timestamp_utc(),
                 .facts = facts_,
                 .problem = item.problem,
                 .variant = candidate.variant->name,
                 .config = candidate.config,
                 .cache = cache ? cache : cache_name(item),
                 .cost = item.entry->op.cost(item.problem),
                 .measurement = m});
}

Provenance DeviceRows::provenance() const {
  return {facts_.name, facts_.arch, facts_.driver, facts_.toolkit, run_.git_commit};
}

}  // namespace warptune
