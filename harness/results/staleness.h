#pragma once
// Whether a winner of the wisdom still holds here: a rule for each thing that may have changed since.
#include <string>
#include <vector>

#include "harness/results/wisdom.h"

namespace warptune {

enum class Use { yes, warned, refused };

/// What is to be done with a winner, and one sentence per thing that has changed.
struct Judgement {
  Use use = Use::yes;
  std::vector<std::string> warnings;  // the same words for every winner they hold for: say them once
  std::vector<std::string> refusals;
};

/// refuse: a winner tuned on other kernel sources is not taken; use: it is, with a warning.
enum class StaleSources { refuse, use };

/// The rules of use, in full:
///   other architecture                          refused
///   other sources of the variant's kernels      refused, or warned where `stale` says so
///   other device of the same architecture       warned
///   other driver major, other toolkit           warned
///   other sources of the harness (git commit)   nothing: the kernels' hash tells
/// `source_hash`: of the winner's variant as it is now, or empty where there is no such variant any more.
Judgement judge(const Winner& winner, const Provenance& here, const std::string& source_hash,
                StaleSources stale = StaleSources::refuse);

/// Whether anything has changed since that judge() has a rule for.
bool is_stale(const Winner& winner, const Provenance& here, const std::string& source_hash);

/// Of two winners of a problem and a device that come from separate choices, whether the second is to be
/// kept: a cold one goes before a hot one, then a fresh one before a stale one, else the faster before the
/// slower.
bool is_better(const Winner& second, bool second_stale, const Winner& first, bool first_stale);

}  // namespace warptune
