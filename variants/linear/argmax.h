#pragma once
// What the variants of linear with the epilogue argmax share.
#include "harness/core/variant.h"
#include "kernels/linear/args.h"

namespace warptune {

/// The workspace (kernels/linear/argmax.cuh); 0 without the epilogue.
inline std::int64_t argmax_workspace(const Problem& p, const Config&) {
  return p["epilogue"] == kEpilogueArgmax ? 8 * (p["tokens"] + 1) : 0;
}

}  // namespace warptune
