#pragma once
// The wait policy of OpenMP threads.

namespace warptune {

/// Lets idle threads sleep. On a loaded machine, threads that spin cost each parallel loop a time slice (220
/// ms instead of 0.1 ms for a token of a small model on two busy cores); on an idle machine, sleeping costs
/// about 5 us per loop. OpenMP reads its environment when the program is loaded, so this starts the program a
/// second time. Settings of the user win. `profile` is not started again: a profiler watches the process it
/// started.
void wait_passively(int argc, char** argv);

}  // namespace warptune
