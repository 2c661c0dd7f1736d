#pragma once
// For sequences padded to max_q_len: the start of each in packed rows, and the distance of a packed token
// from its padded row. Packed token t is padded row t + padding_offset[t].

namespace warptune {

struct PaddingOffsetArgs {
  const int* lengths;   // [batch], each in [0, max_q_len]
  int* cu_seqlens;      // [batch + 1]: prefix sums, the first is 0
  int* padding_offset;  // [batch * max_q_len]; only the first cu_seqlens[batch] are written
  int batch;
  int max_q_len;
};

}  // namespace warptune
