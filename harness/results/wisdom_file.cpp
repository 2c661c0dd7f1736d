#include "harness/results/wisdom_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <stdexcept>

#include "harness/core/error.h"
#include "harness/results/durable_file.h"
#include "harness/results/staleness.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

/// A lock for reading and writing the file. Writing replaces the file, so the lock is a file of its own.
class Lock {
 public:
  explicit Lock(const fs::path& path) {
    const fs::path file = file_behind(path);  // one lock, whatever links lead to the file
    if (file.empty()) throw InputError(fmt::format("'{}' is not a regular file", path.string()));
    const fs::path beside = file.string() + ".lock";
    make_folder(file.parent_path());
    file_ = ::open(beside.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file_ < 0)
      throw std::runtime_error(
          fmt::format("'{}' cannot be written: {}", beside.string(), std::strerror(errno)));
    ::flock(file_, LOCK_EX);
  }
  ~Lock() { ::close(file_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int file_ = -1;
};

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
  const Lock lock(path);
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
  const Lock lock(path);
  Wisdom wisdom = reread(path, here);
  if (const Winner* old = wisdom.winner_on(winner.problem, here.device)) return *old;
  wisdom.put(winner);
  wisdom.save(path);
  return std::nullopt;
}

void put_step(const fs::path& path, const Provenance& here, StepWinner winner) {
  const Lock lock(path);
  Wisdom wisdom = reread(path, here);
  wisdom.put(std::move(winner));
  wisdom.save(path);
}

bool change_wisdom(const fs::path& path, const Provenance& here, const std::function<void(Wisdom&)>& add) {
  const Lock lock(path);
  Wisdom wisdom = fs::exists(path) ? Wisdom::load(path) : Wisdom(here);
  const std::string before = wisdom.to_json();
  add(wisdom);
  if (wisdom.to_json() == before) return false;
  wisdom.save(path);
  return true;
}

void open_wisdom(const fs::path& path, const Provenance& provenance) {
  const Lock lock(path);
  reread(path, provenance).save(path);
}

}  // namespace warptune
