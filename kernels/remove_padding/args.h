#pragma once
// y[t] = x[t + padding_offset[t]]: packs padded rows.

namespace warptune {

struct RemovePaddingArgs {
  const void* x;              // [batch * max_q_len, hidden], dtype
  const int* padding_offset;  // [tokens]
  void* y;                    // [tokens, hidden], dtype
  int tokens;
};

}  // namespace warptune
