#pragma once
// The process that touches the device: it verifies and times the jobs that it reads, until its input ends.
#include <string>

#include "harness/core/op_table.h"

namespace warptune {

/// Reads jobs from file descriptor `in` and answers on `out`, in the format of protocol.h. Returns the exit
/// code. WARPTUNE_RANK, WARPTUNE_RANKS and WARPTUNE_GROUP make it a rank of a group.
/// For tests, WARPTUNE_WORKER_FAULT="KIND:TEXT;KIND@RANK:TEXT" makes it fail where "problem config" contains
/// TEXT; kinds: segv, abort, exit0, throw, memory, stop, kill, loop.
int run_worker(const OpTable& ops, const std::string& device, int in, int out);

}  // namespace warptune
