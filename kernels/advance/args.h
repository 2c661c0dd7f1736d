#pragma once
// Ends a decode step: writes the sampled ids to the transcript and moves every unfinished sequence on by one.

namespace warptune {

struct AdvanceArgs {
  const int* ids;           // [batch]: the tokens just sampled
  int* positions;           // [batch]: place of the token that the next step feeds; below 0: finished
  int* lengths;             // [batch]: keys the next step attends to; 0: finished
  int* transcript;          // [batch, max_steps]: -1 where nothing was sampled
  int* step;                // [1]: the column written; then moved on
  unsigned long long* rng;  // [2]: seed, step of the sampler; the step is moved on
  int batch;
  int max_steps;
  int eos;  // a sequence that samples it is finished; below 0: none
};

}  // namespace warptune
