#pragma once
// ids[b] = the index of the largest of logits[b]; of equals, the lowest. NaN is the largest, as in PyTorch.
// In 16 bits this holds for a NaN whose sign bit is clear; GPU arithmetic gives no other.

namespace warptune {

struct ArgmaxArgs {
  const void* logits;  // [batch, vocab], dtype
  int* ids;            // [batch]
  void* workspace;     // of the size that the variant states, zeroed before the first launch
  int batch;
};

}  // namespace warptune
