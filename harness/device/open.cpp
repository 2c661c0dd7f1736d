#include <fmt/format.h>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/rank_group.h"
#include "harness/core/text.h"
#include "harness/device/device.h"
#include "harness/device/host_device.h"
#if WARPTUNE_HAS_CUDA
#include "harness/device/cuda_device.h"
#endif

namespace warptune {

#if !WARPTUNE_HAS_CUDA
int cuda_device_count() { return 0; }
#endif

namespace {

constexpr std::string_view kAs = " as ";

OwnedDevice open_host(std::string_view arch, std::shared_ptr<RankGroup> group) {
  OwnedDevice host = make_host_device(std::move(group));
  if (!arch.empty()) facts_as(host->facts(), arch);  // throws
  return host;
}

}  // namespace

std::string device_as(std::string device, std::string_view arch) {
  if (!arch.empty()) device.append(kAs).append(arch);
  return device;
}

OwnedDevice open_device(std::string_view which, std::shared_ptr<RankGroup> group) {
  const auto as = which.find(kAs);
  const std::string_view arch = as == which.npos ? "" : which.substr(as + kAs.size());
  which = which.substr(0, as);
  if (which == "host") return open_host(arch, std::move(group));
  const int count = cuda_device_count();
  if (which == "auto" && count == 0) return open_host(arch, std::move(group));
  int ordinal = group ? group->rank() : 0;
  if (which != "auto") {
    const auto number = parse_number<int>(which.starts_with("cuda:") ? which.substr(5) : "");
    if (!number) throw InputError("unknown device '{}'; it must be auto, host or cuda:N", brief(which));
    ordinal = *number;
  }
  if (ordinal < 0 || ordinal >= count)
    throw InputError(
        "there is no device 'cuda:{}': {}", ordinal,
        count == 0 ? "no CUDA device was found" : fmt::format("{} CUDA devices were found", count));
#if WARPTUNE_HAS_CUDA
  return make_cuda_device(ordinal, arch, std::move(group));
#else
  return make_host_device(std::move(group));
#endif
}

}  // namespace warptune
