#pragma once
// ids[b] = the index of the largest of logits[b]; of equals, the lowest.

namespace warptune {

struct ArgmaxArgs {
  const void* logits;  // [batch, vocab], dtype
  int* ids;            // [batch]
  void* workspace;     // what the variant asked for, zeroed before the first launch
  int batch;
};

}  // namespace warptune
