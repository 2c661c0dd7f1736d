#pragma once
// What a sweep would try.
#include "harness/tune/sweep.h"
#include "harness/tune/tune_options.h"

namespace warptune {

/// Prints how many configurations each op and variant has before and after the constraints, and the budget.
void dry_run(const Sweep& sweep, const TuneOptions& options);

}  // namespace warptune
