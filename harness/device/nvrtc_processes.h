#pragma once
// NVRTC in processes of its own. The front end of NVRTC holds a lock of its process for a tenth to a third of
// a compilation, so the threads of one process wait for each other from the fourth on.
#include <filesystem>

#include "harness/device/compile.h"

namespace warptune {

/// Runs `program nvrtc` and passes it what run_nvrtc() takes: as many processes as there are calls at once,
/// which stay for the next calls. A compilation that takes more than `seconds`, or ends its process, throws
/// CompileError. Where no process can be started, and where someone else kills one, compiles in this process.
NvrtcCall nvrtc_in_processes(std::filesystem::path program, double seconds);

/// Such a process: answers each line with a line until its input ends. Returns the exit code.
int run_nvrtc_process(int in, int out);

}  // namespace warptune
