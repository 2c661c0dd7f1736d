#include <gtest/gtest.h>

#include "harness/device/device.h"

namespace warptune {
namespace {

template <class Owner>
concept GivesFactsOfATemporary = requires(Owner (&open)()) {
  open()->facts();
};
template <class Owner>
concept GivesFactsOfAnObject = requires(const Owner& owner) {
  owner->facts();
};

TEST(OwnedDevice, GivesNoReferenceToFactsOfADeviceThatIsGone) {
  static_assert(GivesFactsOfATemporary<std::unique_ptr<Device>>);  // the bug that it prevents
  static_assert(!GivesFactsOfATemporary<OwnedDevice>);
  static_assert(GivesFactsOfAnObject<OwnedDevice>);
  const auto device = open_device("host");
  EXPECT_EQ(device->facts().backend, Backend::host);
}

}  // namespace
}  // namespace warptune
