#pragma once
#include <memory>

#include "harness/device/device.h"

namespace warptune {

/// The CPU as a device: plans are functions, replays call them, time is the steady clock.
OwnedDevice make_host_device();

}  // namespace warptune
