#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "harness/core/error.h"
#include "harness/device/device.h"

namespace warptune {
namespace {

TEST(HostDevice, TheSizeOfItsCacheCanBeGiven) {
  const auto refused = [](const char* mib) {
    ::setenv("WARPTUNE_HOST_CACHE_MIB", mib, 1);
    try {
      open_device("host");
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(refused("3"), "no error");
  const auto device = open_device("host");
  EXPECT_EQ(device->facts().l2_bytes, 3 << 20);
  for (const char* mib : {"", "0", "-1", "8x", "4097", "99999999999999999999"})
    EXPECT_EQ(refused(mib),
              "WARPTUNE_HOST_CACHE_MIB is '" + std::string(mib) + "'; it must be an integer from 1 to 4096");
  ::unsetenv("WARPTUNE_HOST_CACHE_MIB");
  const auto as_the_system_says = open_device("host");
  EXPECT_GT(as_the_system_says->facts().l2_bytes, 0);
  ::setenv("WARPTUNE_HOST_CACHE_MIB", "8", 1);  // as own_folder.cpp
}

}  // namespace
}  // namespace warptune
