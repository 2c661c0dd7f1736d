#pragma once
// Samples ids[b] from softmax(x / temperature), x = logits[b], restricted in this order to
//   the k largest (of equals, the lowest index first),
//   of those to the smallest prefix whose probability reaches p (at least one),
//   where the problem has min_p: of those to the ones whose probability is at least min_p of the largest.
// Where the problem has a repetition penalty, x of every token that the sequence holds is first divided by it
// if positive, else multiplied, in fp32.
// Where the largest x is infinite or NaN, no probability is defined: the first candidate wins, and NaN is
// the largest, as in argmax. u = uniform [0, 1) of Philox4x32-10 with key = rng[0], counter = (rng[1], b),
// first word; the first candidate whose cumulative probability exceeds u * total wins.

namespace warptune {

struct TopKArgs {
  const void* logits;  // [batch, vocab], dtype
  const unsigned long long*
      rng;          // [2]: seed, step; in device memory so that a captured graph can be replayed
  int* ids;         // [batch]; with a repetition penalty it holds on entry the token that was fed last
  void* workspace;  // of the size that the variant states, zeroed before the first launch
  int batch;
  float temperature;
  float p;
  float min_p;  // where the problem has min_p
};

/// The arguments where the problem has a repetition penalty.
struct PenalizedTopKArgs : TopKArgs {
  float repetition_penalty;
  unsigned* seen;  // [batch, ceil(vocab / 32)]: bit t % 32 of word t / 32 is set if the sequence holds
                   // token t; the kernel adds the token that was fed last
};

}  // namespace warptune
