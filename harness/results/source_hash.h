#pragma once
// What this program knows of a winner: hashes of its variant's sources and code, which tell whether rows and
// winners belong to the current variant, and what its device can reach.
#include <string>

#include "harness/core/op_table.h"
#include "harness/device/compile.h"
#include "harness/results/staleness.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// 16 hex digits. Covers the kernels with all their includes; for a host variant the C++ of its op and of
/// variants/helpers; for a variant that calls a library the C++ that calls it and the library's version.
std::string source_hash(const Compiler& compiler, const OpEntry& op, const Variant& variant);
/// The current source hash of a winner's variant; empty if the variant no longer exists.
std::string source_hash(const Compiler& compiler, const OpEntry& op, const Winner& winner);
std::string source_hash(const Compiler& compiler, const OpTable& ops, const Winner& winner);
/// The current code hash of a winner's configuration, compiled for the architecture that it was tuned on;
/// empty if it does not compile or has no machine code.
std::string code_hash(const Compiler& compiler, const OpEntry& op, const Winner& winner);
/// Times below this are impossible for a winner (measure/impossible.h). `peaks` count where they are of its
/// device. 0 where the program does not know its problem, or where no time of the winner is near.
double impossible_us(const OpEntry& op, const Winner& winner, const DeviceFacts& peaks = {});
/// All of it, for judge(); the compiler and the op must outlive the result.
CodeNow code_now(const Compiler& compiler, const OpEntry& op, const Winner& winner,
                 const DeviceFacts& peaks = {});
CodeNow code_now(const Compiler& compiler, const OpTable& ops, const Winner& winner,
                 const DeviceFacts& peaks = {});

}  // namespace warptune
