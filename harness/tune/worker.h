#pragma once
// The process that touches the device: it proves and times what it is told, until its input ends.
#include <string>

#include "harness/core/op_table.h"

namespace warptune {

/// Reads jobs from file descriptor `in` and answers on `out`, as protocol.h says. Returns the exit code.
/// WARPTUNE_WORKER_FAULT="KIND:TEXT;KIND:TEXT" makes it misbehave on configurations that contain TEXT (for
/// tests); segv, abort, exit0, throw, memory, stop,
/// kill, loop.
int run_worker(const OpTable& ops, const std::string& device, int in, int out);

}  // namespace warptune
