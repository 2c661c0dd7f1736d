#pragma once
// Arguments of the harness's own kernels: inputs, checks of outputs and logits, measured peaks.
#include "kernels/support/compare.h"

namespace warptune {

struct FillArgs {
  void* data;  // [count]
  long long count;
  unsigned long long seed;
  // Element i is that of index first + i / width * stride + i % width of a larger array; width 0: first + i.
  long long first, width, stride;
  float scale;
};

struct CountArgs {
  const void* data;  // [count]
  long long count;
  unsigned long long* found;  // the kernel adds to it
};

struct ChecksumRegion {
  const void* data;  // read fastest where it is aligned to 8 bytes
  long long bytes;
};

struct ChecksumArgs {
  const ChecksumRegion* regions;  // [gridDim.y]
  unsigned long long* sums;       // [gridDim.y]; the kernel adds to them
};

struct CompareArgs {
  const void* data;
  const long long* index;  // [count]: element i is data[index[i]]
  const double* want;      // [count]
  const double* slack;     // [count]: the rounding error of each expected value
  long long count;
  ElementErrors* errors;  // [gridDim.x]
  bool is_exact;          // integers
};

struct StreamArgs {
  const void* from;  // [vectors] of 16 bytes; null: write only
  void* to;          // [vectors] of 16 bytes, or 4 bytes that are never written when reading only
  long long vectors;
};

struct LogitsCheckArgs {
  const void* logits;  // [batch, vocab]
  const int* sampled;  // [batch, sampled_stride]: column `step` is sampled from the logits, -1: nothing
  unsigned long long* first;  // [1]: the smallest (step << 32 | sequence) so far, all bits set: none
  int batch, vocab, sampled_stride, step;
};

struct MeetRanksArgs {
  unsigned meeting;  // counts up from 1
};

struct SpinArgs {
  long long nanoseconds;
};

}  // namespace warptune
