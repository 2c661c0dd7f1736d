#pragma once
// The wisdom that a program uses: one file, or the files of a search path, such as a user's, a team's and the
// shipped one.
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "harness/results/wisdom.h"
#include "harness/results/wisdom_merge.h"

namespace warptune {

/// A file of the search path.
struct WisdomFile {
  std::filesystem::path path;
  std::string hash = {};               // SHA-256 of its bytes; empty: there is no such file
  std::size_t winners = 0, steps = 0;  // that it holds
  std::size_t used = 0;                // winners and steps that no earlier file overrides
};

struct WisdomInUse {
  Wisdom wisdom;
  std::vector<WisdomFile> files;
  /// Equal hashes: equal wisdom. Of one file it is that of its bytes, as sha256sum prints it. Empty: no file.
  std::string hash;
  std::set<RefusedWinner> refused = {};  // left out: a time below what its device can reach

  bool found() const { return !hash.empty(); }
  /// "3f5a0c1d2e4b6978, 12 winners and 1 step of a.json, b.json": the first 16 digits of the hash.
  std::string str() const;
  /// The files that exist: "a.json, b.json".
  std::string present() const;
  /// The files that do not.
  std::string missing() const;
};

/// The entries of a search path, separated by colons. Empty ones are skipped.
std::vector<std::filesystem::path> search_path(const std::string& text);
/// The file that an entry means: itself, or of a folder <entry>/<slug>/wisdom.json, else <entry>/wisdom.json.
std::filesystem::path wisdom_file_of(const std::filesystem::path& entry, const std::string& slug);

/// Reads each file once, so that all of it is from one moment, and joins them: of two winners of a problem
/// and device the earlier file's stays, unless it is stale on the device in `here` or timed hot and the other
/// is not. The times of both are kept, as in a merge. Files that do not exist are skipped. Throws InputError.
WisdomInUse read_wisdom(const WinnerJudge& judge, const std::vector<std::filesystem::path>& files,
                        const Provenance& here);

}  // namespace warptune
