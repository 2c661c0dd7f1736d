#pragma once
// Ends a decode step: writes the sampled ids to the transcript and advances every unfinished sequence by one.

namespace warptune {

struct AdvanceArgs {
  const int* ids;           // [batch]: the tokens just sampled
  int* positions;           // [batch]: position of the input token of the next step; below 0: finished
  int* lengths;             // [batch]: keys the next step attends to; 0: finished
  int* transcript;          // [batch, max_steps]: -1 where nothing was sampled
  int* step;                // [1]: the column written; then incremented
  unsigned long long* rng;  // [2]: seed, step of the sampler; the kernel increments the step
  int batch;
  int max_steps;
  int eos;  // the id that ends a sequence; below 0: none
};

}  // namespace warptune
