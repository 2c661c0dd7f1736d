#pragma once
// What the time of a variant depends on that can be edited: its sources, by which rows and winners are known
// to be of the variant as it is now.
#include <string>

#include "harness/core/op_table.h"
#include "harness/device/compile.h"
#include "harness/results/staleness.h"
#include "harness/results/wisdom.h"

namespace warptune {

/// 16 hex digits: of its kernels with all they include; of a host variant the C++ of its op and of
/// variants/helpers; of a variant that calls a library the C++ that calls it, and the library's version.
std::string source_hash(const Compiler& compiler, const OpEntry& op, const Variant& variant);
/// Of the variant that a winner of this op names, as it is now; empty where there is none any more.
std::string source_hash(const Compiler& compiler, const OpEntry& op, const Winner& winner);
std::string source_hash(const Compiler& compiler, const OpTable& ops, const Winner& winner);
/// The code hash of a winner's configuration as it compiles now for the architecture that it was tuned on;
/// empty where it does not compile or has no machine code.
std::string code_hash(const Compiler& compiler, const OpEntry& op, const Winner& winner);
/// Both, for judge(); the compiler and the op must outlive the result.
CodeNow code_now(const Compiler& compiler, const OpEntry& op, const Winner& winner);
CodeNow code_now(const Compiler& compiler, const OpTable& ops, const Winner& winner);

}  // namespace warptune
