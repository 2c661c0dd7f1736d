#pragma once
// Times that others measured and published (results/published).
#include <string>
#include <string_view>

#include "harness/core/op.h"

namespace warptune {

/// "27.3 vLLM 0.14.0": the best published time in microseconds of this problem on this GPU; empty where there
/// is none. `device` is the name that CUDA gives it, `problem` a key. Published attention includes the
/// append. A GEMM on fp8 weights has the time of one with fp8 activations, too, if its own are 16-bit.
std::string published_time(std::string_view device, const Op& op, std::string_view problem);

}  // namespace warptune
