// CUDA variants of all_reduce_add_rms_norm, in rising difficulty.
#include "variants/helpers/peer_exchange.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> all_reduce_add_rms_norm_cuda() {
  const Expression row_bytes = "hidden * dtype_bytes", bytes = "tokens" * row_bytes;
  return {
      {
          .name = "naive",
          .idea = "One block per token: a barrier between GPUs, then the rows of all ranks one by one.",
          .parameters = {block_parameter()},
          .stages = {{.file = "all_reduce_add_rms_norm/naive.cu",
                      .kernel = "all_reduce_add_rms_norm_naive<{dtype}, {hidden}, {ranks}, {block}>",
                      .geometry = row_launch("tokens")}},
          .peer_workspace = barrier_workspace("tokens", bytes),
      },
      {
          .name = "one_shot",
          .idea = "A block or a cluster per token: rows go to the peers as flag-in-data packets, and stay in "
                  "registers.",
          .parameters = {{"block", {64, 128, 256, 512, 1024}, "threads per block"},
                         {"cluster", {1, 2, 4, 8}, "blocks of a token"},
                         pdl_parameter()},
          .constraints = {"block * cluster <= 1024",
                          "block * cluster * 16" <= row_bytes || "block * cluster == 64",
                          row_bytes <= "128 * block * cluster", "cluster == 1 || has_clusters",
                          kPdlConstraint},
          .stages = {{.file = "all_reduce_add_rms_norm/one_shot.cu",
                      .kernel =
                          "all_reduce_add_rms_norm_one_shot<{dtype}, {hidden}, {ranks}, {block}, {cluster}>",
                      .geometry = {.grid = {"tokens * cluster"},
                                   .block = {"block"},
                                   .pdl = "pdl",
                                   .cluster = "cluster"}}},
          .peer_workspace = packet_workspace("tokens * cluster", "ranks" * (bytes / 16)),
      },
  };
}

}  // namespace warptune
