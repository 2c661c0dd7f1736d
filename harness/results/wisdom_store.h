#pragma once
// A team's wisdom: a folder that several machines share, with one file per push. A file is named by the
// SHA-256 of its bytes, holds wisdom as any wisdom.json, and is never changed. So writers need no lock and no
// server, and a reader knows a damaged or half-written file by its name. Of the file system only create,
// rename, list and read are assumed.
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "harness/results/wisdom.h"
#include "harness/results/wisdom_merge.h"

namespace warptune {

class WisdomStore {
 public:
  /// `place`: a folder, or its file:// URL. Throws InputError where it is neither.
  explicit WisdomStore(const std::string& place);

  /// Calls `use` for each object, in the order of the names. Returns one sentence per object that is damaged
  /// or that this program cannot read.
  std::vector<std::string> read(const std::function<void(const Wisdom&)>& use) const;

  struct Pushed {
    std::size_t winners = 0, steps = 0;  // that the store did not have
    std::filesystem::path object = {};   // empty: nothing was written
    std::vector<std::string> damaged = {};
  };
  /// Writes one object with the winners and steps that no object has. Throws std::runtime_error where the
  /// folder cannot be written.
  Pushed push(const Wisdom& wisdom) const;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

struct Pulled {
  bool changed = false;                   // the local file
  std::size_t winners = 0, steps = 0;     // in the local file after the pull
  std::size_t other_devices = 0;          // winners of other devices, which are left in the store
  std::set<RefusedWinner> refused = {};   // by judge()
  std::vector<std::string> damaged = {};  // one sentence per object
};
/// Merges the store's winners of the device in `here` into a wisdom file, by the rules of a merge, under the
/// file's lock.
Pulled pull_wisdom(const WisdomStore& store, const std::filesystem::path& file, const Provenance& here,
                   const WinnerJudge& judge);

}  // namespace warptune
