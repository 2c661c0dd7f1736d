#pragma once
// Whether a winner of the wisdom still holds here: a rule for each thing that may have changed since.
#include <functional>
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

/// refuse: a winner tuned on other code is not taken; use: it is, with a warning.
enum class StaleCode { refuse, use };

/// A winner's variant as it is now.
struct CodeNow {
  std::string source_hash;  // of its sources; empty where there is no such variant any more
  /// The code hash of the winner's configuration (Resources::code_hash). It compiles, so it is asked for only
  /// where the sources differ. Empty where the configuration does not compile or has no machine code.
  std::function<std::string()> code_hash = {};
};

/// Whether a winner's code is that of now: its sources are the same, or they compile to the same machine
/// code. The machine code of another architecture or toolkit says nothing.
bool is_same_code(const Winner& winner, const Provenance& here, const CodeNow& now);

/// The rules of use, in full:
///   other architecture                          refused
///   other code of the variant's kernels         refused, or warned where `stale` says so
///   other device of the same architecture       warned
///   other driver major, other toolkit           warned
///   other sources of the harness (git commit)   nothing: the code hash tells
Judgement judge(const Winner& winner, const Provenance& here, const CodeNow& now,
                StaleCode stale = StaleCode::refuse);

/// Whether anything has changed since that judge() has a rule for.
bool is_stale(const Winner& winner, const Provenance& here, const CodeNow& now);

/// Of two winners of a problem and a device that come from separate choices, whether the second is to be
/// kept: a cold one goes before a hot one, then a fresh one before a stale one, else the faster before the
/// slower.
bool is_better(const Winner& second, bool second_stale, const Winner& first, bool first_stale);

}  // namespace warptune
