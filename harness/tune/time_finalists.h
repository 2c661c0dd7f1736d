#pragma once
// The finalists of a problem timed in turn, A B C A B C, so that drift is alike for all.
#include <cstdio>
#include <vector>

#include "harness/tune/device_rows.h"
#include "harness/tune/device_worker.h"
#include "harness/tune/trials.h"

namespace warptune {

/// Puts the interleaved times of the finalists (indices into the trials) in the place of those of the
/// screening; the others, which are slower, drop out of the choice. Where nothing of the trials is new, they
/// come from the rows of earlier runs; else they are timed, and their rows are written. Where that fails, the
/// screening decides, and a line in the log says so.
void time_finalists(const SweepItem& item, const std::vector<std::size_t>& finalists, Trials& trials,
                    DeviceWorker& worker, DeviceRows& rows, std::FILE* log);

}  // namespace warptune
