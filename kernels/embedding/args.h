#pragma once
// y[t] = table[ids[t]]. A token whose id lies outside [0, vocab) gives a row of zeros and sets bad_token.

namespace warptune {

struct EmbeddingArgs {
  const int* ids;     // [tokens]
  const void* table;  // [vocab, hidden], dtype
  void* y;            // [tokens, hidden], dtype
  int* bad_token;     // [1]: 1 + the largest token index whose id is outside; untouched where there is none
  int tokens;
};

}  // namespace warptune
