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
}

std::string_view name_of(Status status) { return kNames[static_cast<std::size_t>(status)]; }

Status parse_status(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<Status>(i);
  throw InputError(fmt::format("unknown status '{}'", brief(name)));
}

}  // namespace warptune
