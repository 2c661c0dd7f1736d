#pragma once
// The ranks of a run, of which this process is one.
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "harness/core/rank_group.h"
#include "harness/core/rank_identity.h"

namespace warptune {

/// A process without others is rank 0 of 1. All ranks call the same functions in the same order.
class Ranks {
 public:
  Ranks() = default;
  /// Joins the group of the identity. While this lives, the process ends when another rank has ended, even if
  /// the device waits for it.
  explicit Ranks(const RankIdentity& identity);

  const std::shared_ptr<RankGroup>& group() const { return group_; }
  int count() const { return group_ ? group_->ranks() : 1; }
  int rank() const { return group_ ? group_->rank() : 0; }
  /// Whether this one reads prompts, reports and writes files.
  bool is_first() const { return rank() == 0; }

  void barrier() const {
    if (group_) group_->barrier();
  }
  /// Calls it on one rank after the other.
  template <class Call>
  void in_order(Call&& call) const {
    for (int rank = 0; rank < count(); ++rank) {
      if (rank == this->rank()) call();
      barrier();
    }
  }
  /// The value of rank 0.
  template <class T>
  T of_first(const T& mine) const {
    static_assert(std::is_trivially_copyable_v<T>);
    return group_ ? group_->all_gather(mine).front() : mine;
  }
  bool of_first(bool mine) const { return of_first<int>(mine ? 1 : 0) != 0; }
  std::vector<std::vector<int>> of_first(const std::vector<std::vector<int>>& rows) const;
  std::vector<int> of_first(std::vector<int> numbers) const;
  /// A sentence that a rank has, empty where none has one.
  std::string any_of(const std::string& sentence) const;
  /// Whether no earlier rank has an equal text, such as the id of its device.
  bool is_first_with(const std::string& text) const;
  /// Waits until all ranks are done.
  void end();

 private:
  std::shared_ptr<RankGroup> group_;  // null: alone
  std::jthread watch_;
};

/// The device of a rank: of `cuda:2,cuda:3` one for each, of `auto` the GPU with the rank's number, or the
/// host for all. Throws InputError where there are too few.
std::string device_of_rank(const std::string& devices, int rank, int ranks);

/// While this lives, stdout and stderr go nowhere.
class SilentStreams {
 public:
  SilentStreams();
  ~SilentStreams();
  SilentStreams(const SilentStreams&) = delete;
  SilentStreams& operator=(const SilentStreams&) = delete;

 private:
  int out_, err_;
};

/// The exit code of a rank that says nothing: it has lost another one, whose end is the cause.
inline constexpr int kLostAnotherRank = 75;

/// Runs this command with the same arguments on each of the ranks (harness/core/rank_identity.h) and returns
/// its exit code. stdout and stderr are those of rank 0. When a rank fails or is killed, all others are
/// killed, and one sentence says why. Signals that end this process end all ranks.
int launch_ranks(int ranks);

}  // namespace warptune
