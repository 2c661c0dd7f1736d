#pragma once
// Samples ids[b] from softmax(logits[b] / temperature) restricted to its k largest (of equals, the lowest
// index first) and of those to the smallest prefix whose probability reaches p (at least one). u = uniform
// [0, 1) of Philox4x32-10 with key = rng[0], counter = (rng[1], b), first word; the first candidate whose
// cumulative probability exceeds u * total is taken.

namespace warptune {

struct TopKArgs {
  const void* logits;  // [batch, vocab], dtype
  const unsigned long long*
      rng;          // [2]: seed, step; in device memory so that a captured graph can be replayed
  int* ids;         // [batch]
  void* workspace;  // of the size that the variant states, zeroed before the first launch
  int batch;
  float temperature;
  float p;
};

}  // namespace warptune
