#include "harness/results/wisdom_file.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <iterator>

#include "harness/core/error.h"
#include "harness/results/durable_file.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

/// A lock for reading and writing the file. Writing replaces the file, so the lock is a file of its own.
OpenFile locked(const fs::path& path) {
  const fs::path file = file_behind(path);  // one lock, whatever links lead to the file
  if (file.empty()) throw InputError("'{}' is not a regular file", path.string());
  make_folder(file.parent_path());
  OpenFile lock(file.string() + ".lock", O_RDWR | O_CREAT);
  ::flock(lock.get(), LOCK_EX);
  return lock;
}

Wisdom reread(const fs::path& path, const Provenance& provenance) {
  Wisdom wisdom(provenance);
  if (fs::exists(path)) {
    const Wisdom before = Wisdom::load(path);
    for (const Winner& winner : before.winners()) wisdom.put(winner);
    for (const StepWinner& winner : before.steps()) wisdom.put(winner);
  }
  return wisdom;
}

}  // namespace

std::optional<Winner> put_winner(const fs::path& path, const Provenance& here, Winner winner,
                                 const Contest& contest) {
  const OpenFile lock = locked(path);
  Wisdom wisdom = reread(path, here);
  const Winner* old = wisdom.winner_on(winner.problem, here.device);
  if (old && old->cache == CacheMode::cold && winner.cache == CacheMode::hot) return *old;
  const CodeNow code = old ? contest.code(*old) : CodeNow{};
  if (old && old->cache == winner.cache && why_too_fast(*old, code.impossible_us).empty()) {
    std::vector<VariantTimes> times = old->times;
    add_times(times, winner.times);
    winner.times = std::move(times);
  }
  if (old && old->cache == winner.cache && !is_stale(*old, here, code)) {
    if (!contest.tried(old->variant, old->config) && !(winner.time_us < old->time_us)) {
      Winner stays = *old;
      stays.times = std::move(winner.times);
      wisdom.put(stays);
      wisdom.save(path);
      return stays;
    }
    if (winner.variant == old->variant && winner.config == old->config)
      std::ranges::copy_if(old->tied, std::back_inserter(winner.tied),
                           [&](const TiedConfig& t) { return !contest.tried(t.variant, t.config); });
  }
  wisdom.put(std::move(winner));
  wisdom.save(path);
  return std::nullopt;
}

std::optional<Winner> add_winner(const fs::path& path, const Provenance& here, const Winner& winner) {
  const OpenFile lock = locked(path);
  Wisdom wisdom = reread(path, here);
  if (const Winner* old = wisdom.winner_on(winner.problem, here.device)) return *old;
  wisdom.put(winner);
  wisdom.save(path);
  return std::nullopt;
}

void put_step(const fs::path& path, const Provenance& here, StepWinner winner) {
  const OpenFile lock = locked(path);
  Wisdom wisdom = reread(path, here);
  wisdom.put(std::move(winner));
  wisdom.save(path);
}

bool change_wisdom(const fs::path& path, const Provenance& here, const std::function<void(Wisdom&)>& add) {
  const OpenFile lock = locked(path);
  Wisdom wisdom = fs::exists(path) ? Wisdom::load(path) : Wisdom(here);
  const std::string before = wisdom.to_json();
  add(wisdom);
  if (wisdom.to_json() == before) return false;
  wisdom.save(path);
  return true;
}

void open_wisdom(const fs::path& path, const Provenance& provenance) {
  const OpenFile lock = locked(path);
  reread(path, provenance).save(path);
}

}  // namespace warptune
