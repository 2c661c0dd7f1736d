#pragma once
// How OpenMP's threads wait.

namespace warptune {

/// Lets idle threads sleep: where others load the machine, threads that spin cost each parallel loop a time
/// slice (220 ms instead of 0.1 for a token of a small model on two busy cores; an idle machine loses about
/// 5 us per loop). OpenMP reads its environment when the program is loaded, so this starts it a second time.
/// What the user set holds; `profile` is not started again, since a profiler watches the process it started.
void wait_passively(int argc, char** argv);

}  // namespace warptune
