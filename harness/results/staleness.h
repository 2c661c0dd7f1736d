#pragma once
// Decides whether a winner of the wisdom is valid here, by one rule for each thing that may have changed.
#include <functional>
#include <string>
#include <vector>

#include "harness/results/wisdom.h"

namespace warptune {

enum class Use { yes, warned, refused };

/// The reasons to refuse a winner or to warn: one sentence per change.
struct Judgement {
  Use use = Use::yes;
  std::vector<std::string> warnings;  // equal text for equal changes, so that each can be printed once
  std::vector<std::string> refusals;
};

/// How to treat a winner that was tuned on other code. refuse: not used; use: used with a warning.
enum class StaleCode { refuse, use };

/// What this program knows of a winner.
struct CodeNow {
  std::string source_hash;  // its variant; empty if the variant no longer exists
  /// Computes the code hash of the winner's configuration (Resources::code_hash). It has to compile, so it is
  /// called only if the sources differ. Empty if the configuration does not compile or has no machine code.
  std::function<std::string()> code_hash = {};
  /// Its device cannot be this fast, in microseconds (measure/impossible.h); 0: not known.
  double impossible_us = 0;
};

/// Whether a winner's code is unchanged: its sources are equal, or they compile to the same machine code.
/// Machine code of different architectures or toolkits is not comparable.
bool is_same_code(const Winner& winner, const Provenance& here, const CodeNow& now);

/// The shortest of all times that a winner brings: its own, of ties, of other configurations. 0 in one that
/// no file gave: not measured.
double least_us(const Winner& winner);
/// Why none of the times that a winner brings can be trusted: one of them is impossible on its device. Empty
/// if all are possible.
std::string why_too_fast(const Winner& winner, double impossible_us);

/// The rules:
///   a time below what its device can reach      refused
///   other architecture                          refused
///   other code of the variant's kernels         refused, or warned with StaleCode::use
///   other device of the same architecture       warned
///   other driver major, other toolkit           warned
///   other sources of the harness (git commit)   ignored: the code hash covers the kernels
Judgement judge(const Winner& winner, const Provenance& here, const CodeNow& now,
                StaleCode stale = StaleCode::refuse);

/// Whether judge() refuses or warns.
bool is_stale(const Winner& winner, const Provenance& here, const CodeNow& now);

/// Whether the second of two independent winners of a problem and device is better: cold before hot, then
/// fresh before stale, then faster before slower.
bool is_better(const Winner& second, bool second_stale, const Winner& first, bool first_stale);

}  // namespace warptune
