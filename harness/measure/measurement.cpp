#include "harness/measure/measurement.h"

#include <fmt/format.h>

#include <array>

#include "harness/core/brief.h"
#include "harness/core/error.h"

namespace warptune {
namespace {
constexpr std::array<std::string_view, 9> kNames = {"ok",       "constraint",   "compile_error",
                                                    "resource", "launch_error", "wrong_result",
                                                    "timeout",  "crash",        "too_fast"};
constexpr std::array<std::string_view, 7> kSamplings = {
    "screened", "abandoned", "single", "finalist", "other_cache", "rerun", "fresh_process"};
}  // namespace

std::string_view name_of(Status status) { return kNames[static_cast<std::size_t>(status)]; }

Status parse_status(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<Status>(i);
  throw InputError(fmt::format("unknown status '{}'", brief(name)));
}

std::string_view name_of(SamplingClass sampling) { return kSamplings[static_cast<std::size_t>(sampling)]; }

SamplingClass parse_sampling_class(std::string_view name) {
  for (std::size_t i = 0; i < kSamplings.size(); ++i)
    if (kSamplings[i] == name) return static_cast<SamplingClass>(i);
  throw InputError(fmt::format("unknown sampling '{}'", brief(name)));
}

}  // namespace warptune
