// Decode attention variants whose epilogue is BlockCombine: bulk-copy pipelines (sm_90) and mma_direct. And
// mma_project, whose main loop is that of mma_direct.
#include "variants/attention_decode/attention_decode.h"
#include "variants/helpers/streaming.h"
#include "variants/plain.h"

namespace warptune {
namespace {

/// Derived values of a kernel that ends with BlockCombine (kernels' combine.cuh). `heads`: query heads per
/// block. `query_bytes`: the rotated queries of an append in shared memory.
std::vector<DerivedValue> combine_values(const Expression& heads, const Expression& query_bytes) {
  return {
      kFar,
      kRowBytes,
      {"heads", heads, "query heads per block"},
      {"append_bytes", if_else("append", Expression("2 * row_bytes + 4 * head_dim + 64") + query_bytes, 0),
       "bytes of the new rows, the angles and the rotated queries"},
      {"partial_bytes",
       "(warps + (combine == cluster)) * heads * 4 * (head_dim + 2) + "
       "(splits > 16 ? 4 * heads * splits + 512 * warps : 0) + 80",
       "bytes of the partial rows and states of the warps, the states of many splits, and alignment"}};
}

/// Partial rows and states of every split, and a counter per query head.
const Expression kCombineWorkspace =
    "splits == 1 || combine == cluster ? 0 : batch * q_heads * (splits * (head_dim + 2) + 1) * 4";

/// One block per split and group of heads.
LaunchExpressions split_geometry() {
  return {.grid = {"splits", "q_heads / heads", "batch"},
          .block = {"32 * warps"},
          .shared_bytes = "shared_bytes",
          .pdl = "pdl",
          .cluster = "combine == cluster ? splits : 1"};
}

const Parameter kL2Prefetch{
    "l2_prefetch", {0, 1}, "tiles per warp that are prefetched to the L2 before pdl_wait()"};
/// Bytes of keys and values. It needs kRowBytes.
const DerivedValue kTileBytes{"tile_bytes", "2 * tile_kv * row_bytes", "bytes of a tile of K and of V"};
const DerivedValue kPrefetchBytes{"prefetch_bytes", "warps * l2_prefetch * tile_bytes",
                                  "bytes that a block prefetches to the L2"};
/// Prefetches of a block are enough to matter, and stay in the L2 until they are read.
const Expression kL2PrefetchRule =
    "l2_prefetch == 0 || (pdl == 1 && 32000 <= prefetch_bytes <= 264000 && "
    "splits * warps * tile_kv * (stages + l2_prefetch) <= context)";

/// The last-block combine of a few splits is slower than the other ways.
const Expression kLastBlockRule = "combine != last_block || splits == 1 || splits >= 8";
const Expression kSplitsRule = "splits == 1 || splits * warps * tile_kv <= 2 * context";

Variant pipelined() {
  std::vector<DerivedValue> derived = combine_values("heads_per_block", 0);
  derived.insert(derived.end(),
                 {kTileBytes,
                  kPrefetchBytes,
                  {"blocks", "splits * batch * q_heads / heads_per_block", "blocks of the grid"},
                  {"shared_bytes", "max(warps * stages * (tile_bytes + 8) + append_bytes, partial_bytes)",
                   "bytes of shared memory: the pipelines with their barriers, which partial rows replace"}});
  return {
      .name = "pipelined",
      .idea = "split-KV on CUDA cores, a bulk-copy pipeline of K and V per warp",
      .parameters = {{"splits", {1, 2, 4, 8, 16}, "blocks that share the keys of a sequence"},
                     {"heads_per_block", {1, 2, 4, 8}, "query heads of a group that share a block"},
                     {"warps", {4, 8}, "warps per block"},
                     {"tile_kv", {8, 16}, "keys per tile"},
                     {"stages", {2, 3, 4}, "pipeline stages per warp"},
                     kL2Prefetch,
                     combine_parameter({Combine::last_block, Combine::cluster, Combine::ll}),
                     pdl_parameter()},
      .derived = std::move(derived),
      .constraints = {plain_problem(attention_decode(), {"style", "scaling"}), "has_bulk_copy",
                      "k_layout == sd", "warps * heads_per_block * head_dim <= 4096",
                      "row_bytes in [128, 256, 512]", "heads_per_block > 1 || (q_heads / kv_heads) % 2 == 1",
                      "(q_heads / kv_heads) % heads_per_block == 0", "heads_per_block * row_bytes <= 1024",
                      "warps * stages * tile_bytes >= 30000 || warps * stages * tile_kv * splits >= context",
                      kSplitsRule,
                      "combine == last_block || (splits > 1 && splits <= (combine == cluster ? 8 : 16))",
                      kLastBlockRule,
                      // mma_pipelined serves groups of query heads
                      "l2_prefetch == 0 || q_heads == kv_heads", kL2PrefetchRule,
                      // enough blocks for the device, but few waves
                      "blocks <= 24 * sms || splits == 1",
                      "blocks * 2 >= sms || splits >= 16 || splits * warps * tile_kv >= context"},
      .limits = {.shared_bytes = "shared_bytes"},
      .stages = {{.file = "attention_decode/pipelined.cu",
                  .kernel = "attention_decode_pipelined<" + kDecodeProblem +
                            ", {heads_per_block}, {warps}, {tile_kv}, {stages}, {l2_prefetch}, {splits}, "
                            "{combine}>",
                  .geometry = split_geometry()}},
      .workspace = kCombineWorkspace,
  };
}

/// Problems of the variants that compute a group of query heads on tensor cores. The lanes that normalize or
/// scale a new row, head_dim / 8, are a power of two.
const Expression kPackedGqaRule =
    "row_bytes % 64 == 0 && head_dim <= 256 && q_heads <= 16 * kv_heads && k_layout == sd && "
    "!deterministic && page_size % tile_kv == 0 && "
    "((qk_norm == no && kv_scale == head) || !append || 256 % head_dim == 0)";

/// Derived values of mma_pipelined and mma_direct.
std::vector<DerivedValue> packed_gqa_values(std::vector<DerivedValue> more) {
  std::vector<DerivedValue> all = combine_values("q_heads / kv_heads", "heads * (2 * head_dim + 64)");
  all.push_back(kTileBytes);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Variant mma_pipelined() {
  return {
      .name = "mma_pipelined",
      .idea =
          "warp-specialized split-KV on tensor cores: a producer warp, packed GQA, dynamic tile scheduler",
      .parameters = {{"splits", {1, 2, 4, 8, 16}, "work tiles per sequence and KV head"},
                     {"warps", {4, 8}, "consumer warps per block"},
                     {"tile_kv", {16, 32, 64}, "keys per tile"},
                     {"stages", {2, 3, 4}, "pipeline stages per consumer warp"},
                     {"loads_in_flight", {1, 2, 3}, "stages of a warp whose loads are outstanding at once"},
                     kL2Prefetch,
                     combine_parameter({Combine::last_block, Combine::ll}),
                     pdl_parameter()},
      .derived = packed_gqa_values(
          {kPrefetchBytes,
           {"bytes_in_flight", "warps * loads_in_flight * tile_bytes",
            "bytes of K and V in flight per block"},
           {"work_tiles", "splits * batch * kv_heads", "work tiles of the scheduler"},
           {"scale_bytes", "kv_scale == token ? 8 * tile_kv : 0", "bytes of the scales of a tile"},
           {"shared_bytes", "warps * stages * (tile_bytes + scale_bytes + 32) + append_bytes + partial_bytes",
            "bytes of shared memory: the pipelines with their barriers, then rows"}}),
      .constraints = {"has_bulk_copy", kNoProjection, kPackedGqaRule, "pdl == 1 || stages == 2",
                      kL2PrefetchRule, "loads_in_flight <= stages",
                      // bytes in flight, enough of them and not too many, and bytes of a pipeline
                      "bytes_in_flight <= 140000",
                      "(bytes_in_flight >= 60000 && warps * stages * tile_bytes >= 90000) || "
                      "warps * stages * tile_kv * splits >= context",
                      kSplitsRule, "splits > 1 || combine == last_block", kLastBlockRule,
                      // enough blocks for the device, but few work tiles for each
                      "work_tiles <= 8 * sms || splits == 1",
                      "work_tiles * 2 >= sms || splits >= 16 || splits * warps * tile_kv >= context"},
      .limits = {.shared_bytes = "shared_bytes"},
      .dtypes = {DType::fp16, DType::bf16},
      // The consumer warps and the producer.
      .stages = {{.file = "attention_decode/mma_pipelined.cu",
                  .kernel = "attention_decode_mma_pipelined<" + kDecodeProblem +
                            ", {warps}, {tile_kv}, {stages}, {loads_in_flight}, {l2_prefetch}, {splits}, "
                            "{combine}>",
                  .geometry = {.grid = {1},
                               .block = {"32 * warps + 32"},
                               .shared_bytes = "shared_bytes",
                               .pdl = "pdl",
                               .per_sm = 1,
                               .max_blocks = "work_tiles"}}},
      .workspace = kCombineWorkspace + 16,  // the work counter
  };
}

Variant mma_direct() {
  return {
      .name = "mma_direct",
      .idea = "split-KV on tensor cores, K and V from global memory directly to mma fragments, packed GQA",
      .parameters = {{"splits", {1, 2, 4, 8, 16, 27, 33, 64}, "blocks that share the keys of a sequence"},
                     {"warps", {4, 8, 16}, "warps per block"},
                     {"warps_per_sm",
                      {8, 12, 16},
                      "warps per SM that the launch bounds reserve registers for"},
                     {"tile_kv", {16, 32}, "keys per tile, all in flight"},
                     combine_parameter({Combine::last_block, Combine::cluster, Combine::ll}),
                     pdl_parameter()},
      .derived = packed_gqa_values(
          {{"grid_warps", "splits * batch * kv_heads * warps", "warps of the grid"},
           {"shared_bytes", "max(append_bytes, partial_bytes)",
            "bytes of shared memory: rows of the append, which partial rows replace"},
           {"fragment_registers",
            "tile_bytes // 128 + (kv_scale == token ? tile_kv // 2 : 0) + "
            "head_dim // 4 * (heads > 8 ? 3 : 2)",
            "registers per thread of the fragments of a tile and its scales, of q and of the accumulators"}}),
      .constraints = {kNoProjection, kPackedGqaRule, "warps_per_sm % warps == 0", kSplitsRule,
                      "combine == last_block || (splits > 1 && splits <= 16 && "
                      "(combine == ll || has_clusters))",
                      kLastBlockRule, kPdlConstraint,
                      // enough warps for the device, but few waves
                      "grid_warps <= 64 * sms * warps_per_sm / 8 || splits == 1",
                      "grid_warps * 2 >= sms * warps_per_sm || splits * warps * tile_kv >= context",
                      "splits % 33 != 0 || sms % 33 == 0", "splits % 27 != 0 || sms % 27 == 0"},
      // 40 registers for everything else.
      .limits = {.shared_bytes = "shared_bytes",
                 .registers = "fragment_registers + 40",
                 .threads_per_sm = "32 * warps_per_sm"},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{.file = "attention_decode/mma_direct.cu",
                  .kernel = "attention_decode_mma_direct<" + kDecodeProblem +
                            ", {warps}, {warps_per_sm}, {tile_kv}, {splits}, {combine}>",
                  .geometry = split_geometry()}},
      .workspace = kCombineWorkspace,
  };
}

Variant mma_project() {
  return {.name = "mma_project",
          .idea = "attention as in mma_direct; its rows reach the blocks of the output projection as packets",
          .parameters = {{"splits", {1, 2, 4, 8}, "blocks that share the keys of a KV head: a cluster"},
                         {"tile_kv", {16, 32}, "keys per tile, all in flight"},
                         {"rows", {8, 16, 24, 32}, "output rows per block that projects"},
                         pdl_parameter()},
          .derived = {kFar,
                      kRowBytes,
                      kHeadsPerGroup,
                      {"project_blocks", "hidden / rows", "blocks that project"},
                      {"weight_bytes", "rows * q_heads * head_dim * dtype_bytes",
                       "bytes of the weights of a block that projects"},
                      {"partial_bytes",
                       "heads_per_group * (8 * 4 * (head_dim + 2) + 6 * head_dim) + 24 * splits + 128",
                       "bytes of the partial rows of 8 warps and of what the cluster exchanges"},
                      {"shared_bytes", "max(weight_bytes, partial_bytes)",
                       "bytes of shared memory of a block of either kind"}},
          .constraints = {"epilogue == project", "has_bulk_copy && has_clusters", "batch == 1",
                          kPackedGqaRule, "q_heads * head_dim % 256 == 0", "hidden % rows == 0",
                          "project_blocks % splits == 0", "project_blocks <= sms",
                          // all weights are in flight, with room for a block of the next kernel
                          "weight_bytes <= 160000", "tile_kv * head_dim <= 2048",
                          "splits == 1 || splits * 8 * tile_kv <= 2 * context", kPdlConstraint},
          .limits = {.shared_bytes = "shared_bytes + 10000", .threads_per_sm = 512},
          .dtypes = {DType::fp16, DType::bf16},
          .stages = {{.file = "attention_decode/mma_project.cu",
                      .kernel = "attention_decode_mma_project<" + kDecodeProblem +
                                ", {hidden}, {tile_kv}, {splits}, {rows}>",
                      .geometry = {.grid = {"kv_heads * splits + project_blocks"},
                                   .block = {256},
                                   .shared_bytes = "shared_bytes",
                                   .pdl = "pdl",
                                   .cluster = "splits"}}},
          // A counter, two buffers of packets.
          .workspace = "128 + 4 * q_heads * head_dim"};
}

}  // namespace

std::vector<Variant> attention_decode_pipelined() {
  return {pipelined(), mma_pipelined(), mma_direct(), mma_project()};
}

}  // namespace warptune
