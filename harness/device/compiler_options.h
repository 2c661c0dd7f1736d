#pragma once
// The options of NVRTC that a kernel from a file may have. Others could write files, or make no kernel.
#include <string>

namespace warptune {

/// An option as the compiler takes it: `--ftz=1` is `--ftz=true`, and of `--use_fast_math=0` nothing is left.
/// Throws InputError where it is not allowed or its value is not possible.
std::string checked_option(const std::string& option);

/// The same without its value, which is not known yet: `--maxrregcount={regs}`. Throws InputError.
void check_option_name(const std::string& option);

}  // namespace warptune
