// CUDA variants of all_gather, in rising difficulty.
#include "variants/helpers/peer_exchange.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> all_gather_cuda() {
  const Expression bytes = "tokens * columns * dtype_bytes", vectors = bytes / 16;
  const Expression blocks = ceil_div(vectors, "block * per_thread"),
                   few_blocks = ceil_div(vectors, "4 * block");
  return {
      {
          .name = "naive",
          .idea = "A barrier between GPUs; then each reads the elements of all ranks one by one.",
          .parameters = {block_parameter()},
          .stages = {{.file = "all_gather/naive.cu",
                      .kernel = "all_gather_naive<{dtype}, {columns}, {ranks}, {block}>",
                      .geometry = {.grid = {few_blocks}, .block = {"block"}}}},
          .peer_workspace = barrier_workspace(few_blocks, bytes),
      },
      {
          .name = "one_shot",
          .idea = "Each rank pushes its columns to its peers as flag-in-data packets: one trip.",
          .parameters = {block_parameter(), per_thread_parameter(), pdl_parameter()},
          .constraints = {"block * per_thread" <= 2 * vectors || "block == 64 && per_thread == 1",
                          kPdlConstraint},
          .stages = {{.file = "all_gather/one_shot.cu",
                      .kernel = "all_gather_one_shot<{dtype}, {columns}, {ranks}, {block}, {per_thread}>",
                      .geometry = {.grid = {blocks}, .block = {"block"}, .pdl = "pdl"}}},
          .peer_workspace = packet_workspace(blocks, "ranks" * vectors),
      },
  };
}

}  // namespace warptune
