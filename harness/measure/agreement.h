#pragma once
// What ranks agree on, so that all go on alike. Without other ranks nothing changes.
#include "harness/measure/measurement.h"
#include "harness/measure/sampler.h"
#include "harness/verify/oracle.h"

namespace warptune {

/// The same time on all ranks.
Seconds common_clock(const Device& device, Seconds now);
/// Right where it is on all ranks; else the verdict of the first rank where it is wrong, which it names.
Verdict on_all_ranks(const Device& device, Verdict verdict);
/// A failure of any rank is one of all.
void fail_on_all_ranks(const Device& device, Measurement& measurement);

}  // namespace warptune
