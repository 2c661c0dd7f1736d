#pragma once
// For sequences padded to max_q_len: where each starts when packed, and how far a packed token is from its
// padded place. Packed token t of sequence b stands at padded row t + padding_offset[t].

namespace warptune {

struct PaddingOffsetArgs {
  const int* lengths;   // [batch], each in [0, max_q_len]
  int* cu_seqlens;      // [batch + 1]: prefix sums, the first is 0
  int* padding_offset;  // [batch * max_q_len]; only the first cu_seqlens[batch] are written
  int batch;
  int max_q_len;
};

}  // namespace warptune
