#pragma once
// Processes of one host that run the same program on a device each, in lock-step: the ranks of a group.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "harness/core/error.h"

namespace warptune {

/// A rank has ended, or does not answer: the others cannot go on.
struct RankLost : TextError {
  using TextError::TextError;
};

/// Exchanges small messages through a file in shared memory. All ranks call the same functions in the same
/// order. A rank that waits throws RankLost soon after another has ended.
class RankGroup {
 public:
  static constexpr int kMaxRanks = 8;
  static constexpr std::size_t kMaxMessageBytes = 1024;

  /// Waits until all ranks have joined. `name` is that of the file, and tells groups apart. Throws InputError
  /// for impossible numbers, RankLost where a rank does not join in time.
  RankGroup(const std::string& name, int rank, int ranks, double seconds = 60);
  /// The others lose this rank.
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  const std::string& name() const { return name_; }

  /// The values of all ranks, in their order.
  template <class T>
  std::vector<T> all_gather(const T& mine) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kMaxMessageBytes);
    exchange(std::as_bytes(std::span(&mine, 1)));
    std::vector<T> all(static_cast<std::size_t>(ranks_));
    for (int rank = 0; rank < ranks_; ++rank) std::memcpy(&all[rank], message_of(rank), sizeof(T));
    return all;
  }
  double largest(double mine);
  void barrier() { exchange({}); }
  /// A rank that has not joined or has ended, or -1. Another thread may call it.
  int missing_rank() const;

 private:
  struct Shared;
  /// Publishes a message and waits for the ones of all ranks. They stay until the next exchange.
  void exchange(std::span<const std::byte> mine);
  const std::byte* message_of(int rank) const;
  void join(double seconds);
  void wait(double seconds, const char* what);
  bool is_held(int rank) const;

  std::string name_, path_;
  int rank_, ranks_;
  int file_ = -1;
  Shared* shared_ = nullptr;     // mapped
  std::uint64_t exchanges_ = 0;  // so far
};

}  // namespace warptune
