#include "harness/device/machine_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "harness/core/hash.h"
#include "harness/device/cubin_file.h"

namespace warptune {
namespace {

/// The sections that affect the time of a kernel; a section's name ends with the name of its function. Tables
/// in global memory and their addresses (.nv.global, .nv.constant4) are left out: NVRTC also puts unused
/// constants of headers there.
constexpr std::string_view kSections[] = {".text", ".nv.constant0", ".nv.constant2", ".nv.constant3",
                                          ".nv.shared"};

bool counts(std::string_view name) {
  return std::ranges::any_of(kSections, [&](std::string_view kind) { return name.starts_with(kind); });
}

}  // namespace

std::string machine_code_hash(std::string_view cubin) {
  std::vector<std::string> parts;
  for (const CubinSection& s : sections_of_cubin(cubin)) {
    if (!counts(s.name)) continue;
    const bool is_code = s.name.starts_with(".text");
    parts.push_back(
        fmt::format("{} {} {} ", s.name.substr(0, s.name.rfind('.')), s.size, is_code ? s.info >> 24 : 0));
    parts.back() += s.bytes;
  }
  std::ranges::sort(parts);  // in the file, the names of functions decide the order
  std::string text;
  for (const std::string& part : parts) text += part;
  return fmt::format("{:016x}", stable_hash(text));
}

}  // namespace warptune
