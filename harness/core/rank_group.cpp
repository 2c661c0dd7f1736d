#include "harness/core/rank_group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <limits>
#include <system_error>
#include <thread>
#include <utility>

#include "harness/core/error.h"
#include "harness/core/stopwatch.h"

namespace warptune {
namespace {

constexpr const char* kFolder = "/dev/shm/";
constexpr int kSpins = 500;             // before a waiting rank sleeps
constexpr double kCheckSeconds = 0.05;  // how often a waiting rank looks for the others
constexpr auto kSleep = std::chrono::microseconds(50);

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw std::system_error(errno, std::generic_category(), fmt::format("{} '{}'", what, path));
}

/// A lock on byte `rank` of a file. The system releases it when the process that holds it ends.
struct flock lock_of(int rank) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

/// The file of a group, zero at first.
struct RankGroup::Shared {
  std::atomic<int> ranks;
  std::atomic<std::uint64_t> arrivals;  // counts every rank at every exchange
  // Double-buffered: a rank that begins the next exchange does not overwrite what another still reads.
  std::byte messages[2][kMaxRanks][kMaxMessageBytes];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

RankGroup::RankGroup(const std::string& name, int rank, int ranks, double seconds)
    : name_(name), path_(kFolder + ("warptune-" + name)), rank_(rank), ranks_(ranks) {
  if (ranks < 1 || ranks > kMaxRanks) throw InputError("a group has 1 to {} ranks, not {}", kMaxRanks, ranks);
  if (rank < 0 || rank >= ranks)
    throw InputError("rank {} is not one of {} ranks, which are 0 to {}", rank, ranks, ranks - 1);
  join(seconds);
  try {
    wait(seconds, "did not join in time");
  } catch (...) {
    if (rank == 0) ::unlink(path_.c_str());
    throw;
  }
  ::unlink(path_.c_str());  // all have joined; each does it, since rank 0 may be killed before it comes here
}

RankGroup::~RankGroup() {
  if (shared_) ::munmap(shared_, sizeof(Shared));
  if (file_ >= 0) ::close(file_);
}

/// Rank 0 makes the file; the others wait for one that a living rank 0 holds. Counts as the first exchange.
void RankGroup::join(double seconds) {
  const Stopwatch watch;
  const std::string fresh = fmt::format("{}.{}", path_, ::getpid());
  const auto take = [&](int rank) {
    struct flock lock = lock_of(rank);
    return ::fcntl(file_, F_SETLK, &lock) == 0;
  };
  if (rank_ == 0) {
    file_ = ::open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file_ < 0 || ::ftruncate(file_, sizeof(Shared)) != 0 || !take(0)) fail("cannot make", fresh);
  }
  while (file_ < 0) {
    file_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
    if (file_ >= 0 && !is_held(0)) ::close(std::exchange(file_, -1));  // left by a run that was killed
    if (file_ >= 0) break;
    if (watch.seconds() > seconds)
      throw RankLost("rank 0 of {} did not start within {:.0f} seconds", ranks_, seconds);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  void* const mapped = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) fail("cannot map", path_);
  shared_ = static_cast<Shared*>(mapped);
  if (rank_ == 0) {
    shared_->ranks = ranks_;
    if (::rename(fresh.c_str(), path_.c_str()) != 0) fail("cannot make", path_);
  } else if (shared_->ranks != ranks_) {
    throw InputError("rank {} is one of {} ranks, rank 0 is one of {}", rank_, ranks_, shared_->ranks.load());
  } else if (!take(rank_)) {
    throw InputError("rank {} is there twice", rank_);
  }
  ++exchanges_;
  ++shared_->arrivals;
}

bool RankGroup::is_held(int rank) const {
  struct flock lock = lock_of(rank);
  return ::fcntl(file_, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int RankGroup::missing_rank() const {
  for (int rank = 0; rank < ranks_; ++rank)
    if (rank != rank_ && !is_held(rank)) return rank;
  return -1;
}

/// Waits until all ranks have arrived at this exchange.
void RankGroup::wait(double seconds, const char* what) {
  const std::uint64_t all = exchanges_ * static_cast<std::uint64_t>(ranks_);
  const bool joins = exchanges_ == 1;
  const auto arrived = [&] { return shared_->arrivals.load(std::memory_order_acquire) >= all; };
  for (int i = 0; i < kSpins; ++i) {
    if (arrived()) return;
    ::sched_yield();
  }
  const Stopwatch watch;
  for (double checked = 0; !arrived();) {
    std::this_thread::sleep_for(kSleep);
    if (watch.seconds() - checked < kCheckSeconds) continue;
    checked = watch.seconds();
    const int missing = missing_rank();
    const bool late = checked > seconds;
    // A rank that has just arrived and ended is not missed.
    if (missing >= 0 && (late || !joins) && !arrived())
      throw RankLost("rank {} of {} {}", missing, ranks_, what);
    if (late) throw RankLost("the {} ranks did not meet within {:.0f} seconds", ranks_, seconds);
  }
}

void RankGroup::exchange(std::span<const std::byte> mine) {
  std::ranges::copy(mine, shared_->messages[++exchanges_ % 2][rank_]);
  shared_->arrivals.fetch_add(1, std::memory_order_release);
  wait(std::numeric_limits<double>::infinity(), "has ended");
}

const std::byte* RankGroup::message_of(int rank) const { return shared_->messages[exchanges_ % 2][rank]; }

double RankGroup::largest(double mine) {
  const std::vector<double> all = all_gather(mine);
  return *std::ranges::max_element(all);
}

}  // namespace warptune
