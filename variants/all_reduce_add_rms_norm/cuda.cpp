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
          .idea = "One block per token: rows go to the peers as flag-in-data packets, and stay in registers.",
          .parameters = {block_parameter(), pdl_parameter()},
          .constraints = {"block * 16" <= 2 * row_bytes || "block == 64", row_bytes <= "128 * block",
                          kPdlConstraint},
          .stages = {{.file = "all_reduce_add_rms_norm/one_shot.cu",
                      .kernel = "all_reduce_add_rms_norm_one_shot<{dtype}, {hidden}, {ranks}, {block}>",
                      .geometry = row_launch("tokens", "pdl")}},
          .peer_workspace = packet_workspace("tokens", "ranks" * (bytes / 16)),
      },
  };
}

}  // namespace warptune
