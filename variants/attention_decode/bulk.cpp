// How attention_decode runs on GPUs with bulk copies and clusters (sm_90).
#include <algorithm>

#include "attention_decode/attention_decode.h"
#include "common/streaming.h"

namespace warptune {
namespace {

std::int64_t ring_bytes(const Problem& p, const Config& c) {
  const auto size = static_cast<std::int64_t>(size_of(p.dtype));
  return c["warps"] * c["stages"] * (2 * c["keys"] * p["head_dim"] * size + 8);
}
std::int64_t merge_bytes(const Problem& p, const Config& c) {
  return 4 * (c["warps"] + 1) * c["heads_per_block"] * (p["head_dim"] + 2);
}
std::int64_t ring_rows(const Problem& p, const Config& c) {  // blocks along y and z
  return p["batch"] * p["q_heads"] / c["heads_per_block"];
}

}  // namespace

std::vector<Variant> attention_decode_bulk() {
  return {{
      .name = "split_ring",
      .idea = "keys split over blocks and warps, K and V through per-warp rings of bulk copies",
      .parameters = {{"splits", {1, 2, 4, 8, 16, 32}, "blocks that share the keys of a sequence"},
                     {"heads_per_block", {1, 2, 4, 8}, "query heads of a group that share a block"},
                     {"warps", {4, 8, 16}, "warps per block"},
                     {"keys", {8, 16}, "keys per chunk"},
                     {"stages", {2, 3, 4}, "chunks in a warp's ring"},
                     {"combine", {0, 1}, "how splits are merged", {"last_block", "cluster"}},
                     pdl_parameter()},
      .constraints =
          {kPlainDecode, "arch >= 90", "append == 0", "k_layout == 0", "warps <= 8 || keys == 8",

           "head_dim * dtype_bytes == 128 || head_dim * dtype_bytes == 256 || head_dim * dtype_bytes == 512",
           "heads_per_block > 1 || (q_heads / kv_heads) % 2 == 1",
           "(q_heads / kv_heads) % heads_per_block == 0", "heads_per_block * head_dim * dtype_bytes <= 1024",
           "warps * stages * (2 * keys * head_dim * dtype_bytes + 8) <= shared_per_block - 1024",
           "4 * (warps + 1) * heads_per_block * (head_dim + 2) <= shared_per_block - 1024",
           "warps * stages * 2 * keys * head_dim * dtype_bytes >= 30000 || warps * stages * keys * splits >= "
           "context",
           "splits == 1 || splits * warps * keys <= 2 * context",
           "combine == 0 || (splits > 1 && splits <= 8)",
           // enough blocks for the device, but few waves
           "splits * batch * q_heads / heads_per_block <= 24 * sms || splits == 1",
           "splits * batch * q_heads / heads_per_block * 2 >= sms || splits >= 16 || splits * warps * keys "
           ">= context"},
      .stages = {{"attention_decode/split_ring.cu",
                  "attention_decode_split_ring<{dtype}, {head_dim}, {q_heads}, {kv_heads}, "
                  "{heads_per_block}, {warps}, {keys}, "
                  "{stages}, {splits}, {combine}>",
                  [](const Problem& p, const Config& c) {
                    return Launch{.grid = {static_cast<unsigned>(c["splits"]),
                                           static_cast<unsigned>(p["q_heads"] / c["heads_per_block"]),
                                           static_cast<unsigned>(p["batch"])},
                                  .block = {static_cast<unsigned>(32 * c["warps"])},
                                  .shared_bytes = std::max(ring_bytes(p, c), merge_bytes(p, c)),
                                  .pdl = c["pdl"] != 0,
                                  .cluster = c["combine"] != 0 ? static_cast<unsigned>(c["splits"]) : 1u};
                  }}},
      .workspace_bytes =
          [](const Problem& p, const Config& c) {
            if (c["splits"] == 1 || c["combine"] != 0) return std::int64_t{0};
            return ring_rows(p, c) * (4 + 4 * c["splits"] * c["heads_per_block"] * (p["head_dim"] + 2));
          },
  }};
}

}  // namespace warptune
