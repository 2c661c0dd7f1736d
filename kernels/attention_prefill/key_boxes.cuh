#pragma once
// Where tensor copies find the K and V rows of a head: KeyRows of sequence.cuh, as boxes.
#include "kernels/attention_prefill/sequence.cuh"
#include "kernels/common/tma.cuh"

namespace warptune {

template <class S, int kTileN>
struct KeyBoxes {
  /// Of a box, whose tensor maps variants/attention_prefill/wgmma.cpp declares: what divides tile and page.
  static constexpr int kRows = S::kPageSize > 0 ? min_of(S::kPageSize, kTileN & -kTileN) : kTileN;
  static constexpr int kPart = kTileN * 128;  // bytes of 64 elements of a tile's rows

  int first = 0, kv_len, head;
  const int* pages = nullptr;

  __device__ __forceinline__ KeyBoxes(const AttentionPrefillArgs& args, const Sequence& sequence, int b,
                                      int q_head)
      : kv_len(sequence.kv_len), head(q_head / (S::kQHeads / S::kKvHeads)) {
    if constexpr (S::kPageSize > 0)
      pages = args.block_table + static_cast<long long>(b) * args.max_pages;
    else if constexpr (S::kPacked)
      first = args.seqstart_k[b];
    else
      head += b * S::kKvHeads;
  }
  /// Copies the nth tile, kParts swizzled matrices. Rows from kv_len on may be anything: pages that the
  /// sequence does not have are not read. One thread.
  template <int kParts>
  __device__ __forceinline__ void fetch(const TensorMap& map, unsigned char* to, int nth,
                                        Mbarrier* full) const {
    if constexpr (S::kPageSize > 0) {
      const int boxes = min(kTileN / kRows, ceil_div(kv_len - nth * kTileN, kRows));
      mbarrier_arrive_expect_tx(full, boxes * kParts * kRows * 128);
      for (int box = 0; box < boxes; ++box) {
        const int key = nth * kTileN + box * kRows, page = pages[key / S::kPageSize];
#pragma unroll
        for (int part = 0; part < kParts; ++part)
          tma_load_3d(to + part * kPart + box * kRows * 128, map, part * 64, key % S::kPageSize,
                      page * S::kKvHeads + head, full);
      }
    } else {
      const int row = first + nth * kTileN;
      mbarrier_arrive_expect_tx(full, kParts * kPart);
#pragma unroll
      for (int part = 0; part < kParts; ++part)
        tma_load_3d(to + part * kPart, map, part * 64, S::kPacked ? head : row, S::kPacked ? row : head,
                    full);
    }
  }
};

}  // namespace warptune
