#pragma once
// Turns the failure of a configuration into its status.
#include <functional>

#include "harness/measure/measurement.h"

namespace warptune {

/// Runs `body`; a failure of the configuration becomes its status. Throws if the device is lost.
void guarded(Device& device, Measurement& measurement, const std::function<void()>& body);

}  // namespace warptune
