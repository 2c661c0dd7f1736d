#pragma once
// Arguments of the harness's own kernels: inputs, checks of outputs, measured peaks.

namespace warptune {

struct FillArgs {
  void* data;  // [count]
  long long count;
  unsigned long long seed;
  float scale;
};

struct CountArgs {
  const void* data;  // [count]
  long long count;
  unsigned long long* found;  // the kernel adds to it
};

struct ChecksumRegion {
  const void* data;  // aligned to 8 bytes
  long long bytes;
};

struct ChecksumArgs {
  const ChecksumRegion* regions;  // [gridDim.y]
  unsigned long long* sums;       // [gridDim.y]; the kernel adds to them
};

struct StreamArgs {
  const void* from;  // [chunks] of 16 bytes; null: write only
  void* to;          // [chunks] of 16 bytes, or 4 bytes that are never written when reading only
  long long chunks;
};

struct SpinArgs {
  long long nanoseconds;
};

}  // namespace warptune
