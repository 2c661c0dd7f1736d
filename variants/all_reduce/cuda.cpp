// CUDA variants of all_reduce, in rising difficulty.
#include "variants/helpers/peer_exchange.h"
#include "variants/ops.h"

namespace warptune {

std::vector<Variant> all_reduce_cuda() {
  const Expression vectors = "bytes / 16", shard = ceil_div(vectors, "ranks");
  const Expression all_blocks = ceil_div(vectors, "block * per_thread"),
                   shard_blocks = ceil_div(shard, "block * per_thread"),
                   few_blocks = ceil_div(vectors, "4 * block");
  const auto no_idle = [](const Expression& work) {
    return "block * per_thread" <= 2 * work || "block == 64 && per_thread == 1";
  };
  return {
      {
          .name = "naive",
          .idea = "A barrier between GPUs; then each reads the elements of all ranks one by one.",
          .parameters = {block_parameter()},
          .stages = {{.file = "all_reduce/naive.cu",
                      .kernel = "all_reduce_naive<{dtype}, {bytes}, {ranks}, {block}>",
                      .geometry = {.grid = {few_blocks}, .block = {"block"}}}},
          .peer_workspace = barrier_workspace(few_blocks, "bytes"),
      },
      {
          .name = "one_shot",
          .idea = "Each rank pushes all of x to its peers as flag-in-data packets, and adds: one trip.",
          .parameters = {block_parameter(), per_thread_parameter(), pdl_parameter()},
          .constraints = {no_idle(vectors), kPdlConstraint},
          .stages = {{.file = "all_reduce/one_shot.cu",
                      .kernel = "all_reduce_one_shot<{dtype}, {bytes}, {ranks}, {block}, {per_thread}>",
                      .geometry = {.grid = {all_blocks}, .block = {"block"}, .pdl = "pdl"}}},
          .peer_workspace = packet_workspace(all_blocks, "ranks" * vectors),
      },
      {
          .name = "two_shot",
          .idea =
              "Reduce-scatter, then all-gather, by packets: two trips, 2 / ranks of the bytes to each peer.",
          .parameters = {block_parameter(), per_thread_parameter(), pdl_parameter()},
          .constraints = {no_idle(shard), kPdlConstraint},
          .stages = {{.file = "all_reduce/two_shot.cu",
                      .kernel = "all_reduce_two_shot<{dtype}, {bytes}, {ranks}, {block}, {per_thread}>",
                      .geometry = {.grid = {shard_blocks}, .block = {"block"}, .pdl = "pdl"}}},
          .peer_workspace = packet_workspace(shard_blocks, 2 * ("ranks" * shard)),
      },
  };
}

}  // namespace warptune
