// What a device asks of the group of ranks that it is in.

#include "harness/core/error.h"
#include "harness/core/rank_group.h"
#include "harness/device/device.h"

namespace warptune {

double Device::largest(double value) const { return group_ ? group_->largest(value) : value; }

void expect_ranks(const Device& device, const Problem& problem) {
  const std::int64_t wanted = ranks_of(problem), ranks = device.group() ? device.group()->ranks() : 1;
  if (wanted != 1 && wanted != ranks)
    throw InputError("{} is for {} ranks, one device each; here {} {}", problem.key(), wanted, ranks,
                     ranks == 1 ? "is one" : "are");
}

}  // namespace warptune
