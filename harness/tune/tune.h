#pragma once
// Runs a sweep: compiles ahead, has a worker verify and time every configuration, writes its row, and keeps
// the winners.
#include "harness/tune/summary.h"
#include "harness/tune/sweep.h"
#include "harness/tune/tune_options.h"

namespace warptune {

/// Devices of one kind share the problems, the CSV and the wisdom; each kind does the whole sweep. Throws
/// InputError before anything is measured; a configuration that fails costs its row only.
TuneSummary tune(const Sweep& sweep, const TuneOptions& options);

/// Prints the number of configurations per variant, the evaluations under the strategy and its budget, and an
/// estimate of the time. Measures nothing; with options.arch it needs no device.
void dry_run(const Sweep& sweep, const TuneOptions& options);

}  // namespace warptune
