// Decode attention variants that run on every GPU, in rising difficulty.
#include <algorithm>

#include "variants/attention_decode/attention_decode.h"
#include "variants/helpers/streaming.h"
#include "variants/plain.h"

namespace warptune {
namespace {

/// Partial rows and softmax states of every split, and one counter per query head (kernels' combine.cuh).
const Expression kSplitWorkspace =
    "split_count == 1 || combine == cluster ? 0 : batch * q_heads * (split_count * (head_dim + 2) + 1) * 4";

/// It needs the derived values split_count and split_keys.
Stage combine_stage() {
  return {.file = "attention_decode/combine.cu",
          .kernel = "attention_decode_combine<" + kDecodeProblem +
                    ", {split_count}, {split_keys}, {combine_block}>",
          .geometry = {.grid = {"q_heads", "batch"}, .block = {"combine_block"}, .pdl = "pdl"},
          .condition = "split_count > 1 && combine == kernel"};
}

/// The epilogue project as a kernel of its own: a warp per element of the projected row.
Stage project_stage() {
  return {.file = "attention_decode/project.cu",
          .kernel = "attention_decode_project<{dtype}, {q_heads} * {head_dim}, {hidden}, 256>",
          .geometry = {.grid = {"ceil_div(hidden, 8)", "batch"}, .block = {256}, .pdl = "pdl"},
          .condition = "epilogue == project"};
}

const Parameter kPdl = pdl_parameter();
const Parameter kCombine = combine_parameter({Combine::kernel, Combine::last_block});
const Parameter kCombineBlock{"combine_block", {128, 512}, "threads per block of the combine kernel"};
/// More threads only for many splits.
const Expression kCombineBlockRule = "combine_block == 128 || (combine == kernel && splits >= 64)";
/// 27, 33 and 66 give full waves on 108 and 132 SMs.
const Parameter kSplits{
    "splits", {1, 2, 4, 8, 16, 27, 32, 33, 64, 66, 128}, "blocks that share the keys of a sequence"};

const Parameter kThreadsPerKey{"threads_per_key", {4, 8, 16, 32}, "lanes that share a key"};
const Parameter kThreadsPerValue{"threads_per_value", {4, 8, 16, 32}, "lanes that share a value"};
const Expression kWholeVectors = "row_bytes % 16 == 0";
/// As many lanes as for a key, or more, with one or two 16-byte vectors each.
const Expression kValueRule =
    "threads_per_value == threads_per_key || "
    "(threads_per_value > threads_per_key && threads_per_value * 16 <= row_bytes <= threads_per_value * 32)";
const DerivedValue kTileBytes{"tile_bytes", "unroll * row_bytes", "bytes of K per group of lanes and tile"};

Variant naive() {
  return {.name = "naive",
          .idea = "block per query head, thread per key, online softmax between tiles",
          .parameters = {{"block", {64, 128, 256}, "threads per block, keys per tile"}},
          .derived = {kFar},
          .constraints = {"!append && !deterministic"},
          .stages = {{.file = "attention_decode/naive.cu",
                      .kernel = "attention_decode_naive<" + kDecodeProblem + ", {block}>",
                      .geometry = row_launch("batch * q_heads")}}};
}

Variant vectorized() {
  return {
      .name = "vectorized",
      .idea = "block per query head, lanes per key with 16-byte loads, no barrier over the keys",
      .parameters = {{"block", {64, 128, 256, 512}, "threads per block"},
                     kThreadsPerKey,
                     kThreadsPerValue,
                     {"unroll", {1, 2, 4, 8, 16}, "keys in flight per group of lanes"},
                     kPdl},
      .derived = {kFar, kRowBytes, kTileBytes},
      .constraints = {"!deterministic", kWholeVectors, "head_dim <= 64 * threads_per_key",
                      "threads_per_key == 4 || threads_per_key * 16 <= row_bytes", kValueRule,
                      "32 * threads_per_key <= tile_bytes <= 128 * threads_per_key", kPdlConstraint},
      .stages = {{.file = "attention_decode/vectorized.cu",
                  .kernel = "attention_decode_vectorized<" + kDecodeProblem +
                            ", {block}, {threads_per_key}, {threads_per_value}, {unroll}>",
                  .geometry = {.grid = {"q_heads", "batch"}, .block = {"block"}, .pdl = "pdl"}},
                 project_stage()},
      .workspace = kRowsWorkspace,
  };
}

/// Derived values of split_kv and fixed_split after those of their splits. pipeline_bytes: see
/// cp_async_pipeline.cuh.
std::vector<DerivedValue> split_values(std::vector<DerivedValue> splits) {
  splits.insert(
      splits.end(),
      {kFar,
       kRowBytes,
       kTileBytes,
       {"grid_threads", "batch * q_heads / heads_per_block * splits * block", "threads of the grid"},
       {"values", "unroll * threads_per_value // threads_per_key", "values per group of lanes and tile"},
       {"tile_vectors",
        "unroll * ceil_div(row_bytes, 16 * threads_per_key) + "
        "values * ceil_div(row_bytes, 16 * threads_per_value)",
        "16-byte vectors of K and V that a lane loads per tile"},
       {"tile_scales", "kv_scale == token ? unroll + values : 0",
        "scales of rows that a lane loads per tile"},
       {"pipeline_bytes", "stages == 1 ? 0 : block // 32 * stages * (512 * tile_vectors + 128 * tile_scales)",
        "bytes of the cp.async pipelines of a block"},
       {"partial_bytes", "(block // 32 + append + (combine == cluster)) * heads_per_block * head_dim * 4",
        "bytes of the partial rows of a block: one per warp and head, one more for the append and the "
        "cluster"}});
  return splits;
}

/// Constraints of split_kv and fixed_split.
std::vector<Expression> split_constraints(std::vector<Expression> own) {
  own.insert(
      own.end(),
      {kNoProjection, kWholeVectors, "threads_per_key <= 4 || threads_per_key * 16 <= row_bytes", kValueRule,
       // K bytes in flight per lane: 64 to 128 in registers; in a pipeline 64 to 160, in tiles of 32 to 64.
       "tile_bytes >= (stages == 1 ? 64 : 32) * threads_per_key",
       "tile_bytes <= (stages == 1 ? 128 : 64) * threads_per_key",
       "stages == 1 || ((stages - 1) * tile_bytes >= 64 * threads_per_key && "
       "stages * tile_bytes <= 192 * threads_per_key)",
       "threads_per_value == threads_per_key || tile_bytes > 64 * threads_per_key",
       // The weights of a warp fit in the memory of its partial rows.
       "threads_per_value == threads_per_key || unroll * 32 <= head_dim * threads_per_key",
       // One or two 16-byte vectors per lane, or more where that puts keys next to each other.
       "k_layout == dsx || threads_per_key == 32 || row_bytes <= 32 * threads_per_key",
       "(q_heads / kv_heads) % heads_per_block == 0", "2 * heads_per_block > min(q_heads / kv_heads, 5)",
       // Registers of q, accumulators, scores and loads: three quarters of the file. Static shared memory.
       "head_dim * heads_per_block <= 64 * threads_per_key",
       "block * (2 * heads_per_block * head_dim / threads_per_key + "
       "unroll * (heads_per_block + row_bytes / 2 / threads_per_key)) <= 49152",
       "partial_bytes <= 40960",
       // Threads of the grid: from a quarter of a full device to a full device.
       "splits <= 1 || splits * 128 > context || grid_threads >= 480 * sms || deterministic",
       "splits <= 2 || grid_threads <= 2048 * sms || deterministic", kCombineBlockRule, kPdlConstraint,
       // Keeps the space small: few launches without pdl, and few kinds of pipelines.
       "pdl || !has_pdl || deterministic || (stages == 1 && block == 128 && combine == kernel && "
       "threads_per_value == threads_per_key && tile_bytes > 64 * threads_per_key)",
       "stages == 1 || (block in [128, 256] && threads_per_value == threads_per_key && "
       "(combine != kernel || splits <= 1))"});
  return own;
}

/// Static shared memory: partial rows, softmax states; in the combine kernel weights and sums.
const ResourceExpressions kSplitLimits{
    .shared_bytes =
        "max(pipeline_bytes + partial_bytes + 16 * block + 2048, "
        "combine == kernel && split_count > 1 ? 4 * split_count + 16 * combine_block : 0)"};

std::vector<Stage> split_stages() {
  return {{.file = "attention_decode/split_kv.cu",
           .kernel = "attention_decode_split_kv<" + kDecodeProblem +
                     ", {block}, {split_count}, {split_keys}, {threads_per_key}, {threads_per_value}, "
                     "{unroll}, {stages}, {heads_per_block}, {combine}, {key_load_bytes}, {append_store}>",
           .geometry = {.grid = {"split_count", "q_heads / heads_per_block", "batch"},
                        .block = {"block"},
                        .shared_bytes = "pipeline_bytes",
                        .pdl = "pdl",
                        .cluster = "combine == cluster ? split_count : 1"}},
          combine_stage()};
}

const Parameter kSplitThreadsPerKey{"threads_per_key", {1, 2, 4, 8, 16, 32}, "lanes that share a key"};
const Parameter kSplitUnroll{"unroll", {1, 2, 4, 8, 16}, "keys per group of lanes and tile"};
const Parameter kStages{
    "stages", {1, 2, 3, 4, 6}, "cp.async pipeline stages per warp; 1: loads to registers"};
const Parameter kHeadsPerBlock{
    "heads_per_block", {1, 2, 3, 4, 5, 6, 7, 8}, "query heads of a group that share a block"};

/// The splits of split_kv and mma as kernels' names and combine_stage() use them.
const DerivedValue kSplitCount{"split_count", "splits", "splits of a sequence"};
const DerivedValue kNoSplitKeys{"split_keys", 0,
                                "keys per split; 0: as `splits` divides those of a sequence"};

Variant split_kv() {
  return {
      .name = "split_kv",
      .idea = "split-KV (FlashDecoding) on CUDA cores, a block computes several heads of a group",
      .parameters = {{"block", {64, 128, 256, 512, 1024}, "threads per block"},
                     kSplits,
                     kSplitThreadsPerKey,
                     kThreadsPerValue,
                     kSplitUnroll,
                     kStages,
                     kHeadsPerBlock,
                     kPdl,
                     combine_parameter({Combine::kernel, Combine::last_block, Combine::cluster}),
                     kCombineBlock,
                     {"key_load_bytes", {4, 16}, "bytes of K per load of a lane"},
                     {"append_store",
                      {0, 1},
                      "append: the new rows are stored by element, or in 16-byte vectors",
                      {"element", "vector"}}},
      .derived = split_values({kSplitCount,
                               kNoSplitKeys,
                               {"is_compared",
                                "stages == 1 && block == 128 && pdl == has_pdl && (combine == last_block || "
                                "splits == 1) && splits % 3 != 0 && "
                                "(threads_per_value == threads_per_key || k_layout == dsx)",
                                "whether K is also read by 4 bytes, and rows are also appended by vectors: "
                                "enough to compare these choices"}}),
      .constraints = split_constraints(
          {"!deterministic", "key_load_bytes == 16 || (threads_per_key >= 4 && is_compared)",
           "append_store == element || (append && key_load_bytes == 16 && is_compared)",
           "splits <= 4 || splits * 32 <= context",  // at least 32 keys per split
           "splits % 3 != 0 || (batch * q_heads / heads_per_block * splits) % sms == 0",
           "combine == kernel || splits > 1",
           "combine != cluster || (has_clusters && splits <= 8 && block <= 256)"}),
      .limits = kSplitLimits,
      .stages = split_stages(),
      .workspace = kSplitWorkspace,
  };
}

/// Bitwise reproducible: the parameters that change the order of sums are fixed, independent of the batch:
/// splits of 256 keys, one lane per 16-byte vector of a key, the fewest keys in flight.
const Expression kDeterministicRule =
    "!deterministic || (keys_per_split == 256 && block == 128 && combine == kernel && "
    "combine_block == 128 && stages == 1 && threads_per_key >= 4 && threads_per_value == threads_per_key && "
    "tile_bytes < 128 * threads_per_key && ((threads_per_key == 4 && row_bytes < 128) || "
    "threads_per_key * 16 <= row_bytes < threads_per_key * 32 || "
    "(threads_per_key == 32 && row_bytes >= 1024)))";

Variant fixed_split() {
  return {
      .name = "fixed_split",
      .idea =
          "split_kv with a fixed split size: even work for uneven lengths, and bitwise reproducible results",
      .parameters = {{"block", {64, 128, 256}, "threads per block"},
                     {"keys_per_split", {32, 64, 128, 256, 512, 1024}, "keys per split"},
                     kSplitThreadsPerKey,
                     kThreadsPerValue,
                     kSplitUnroll,
                     kStages,
                     kHeadsPerBlock,
                     kPdl,
                     kCombine,
                     kCombineBlock},
      .derived = split_values(
          {kVisibleKeys,
           {"splits", "context / keys_per_split", "splits of a sequence without a window, not rounded"},
           {"split_count", "ceil_div(visible_keys, keys_per_split)", "splits of a sequence"},
           {"split_keys", "keys_per_split", "keys per split"},
           {"key_load_bytes", 16, "bytes of K per load of a lane"},
           {"append_store", 0, "append: the new rows are stored by element"}}),
      .constraints =
          split_constraints({kDeterministicRule, "keys_per_split < context || keys_per_split == 256",
                             // The weights of all splits fit in shared memory.
                             "combine == kernel || context * heads_per_block <= 2048 * keys_per_split"}),
      .limits = kSplitLimits,
      .stages = split_stages(),
      .workspace = kSplitWorkspace,
  };
}

Variant short_context() {
  return {
      .name = "short_context",
      .idea = "all K and V of a head in shared memory, one load and one softmax, nothing to combine",
      .parameters = {{"block", {64, 128, 256, 512}, "threads per block"},
                     kThreadsPerKey,
                     kHeadsPerBlock,
                     kPdl},
      .derived = {kFar,
                  kRowBytes,
                  kVisibleKeys,
                  {"cache_bytes",
                   "visible_keys * (row_bytes + (threads_per_key < 8 ? 16 * threads_per_key : 0))",
                   "bytes of the padded rows of K, or of V"},
                  {"dynamic_bytes",
                   "max(cache_bytes, block // 32 * heads_per_block * head_dim * 4) + cache_bytes + "
                   "heads_per_block * visible_keys * 4",
                   "dynamic shared memory: K and later the sums of the warps, V, scores"}},
      .constraints = {kNoProjection, "!deterministic", kWholeVectors,
                      "threads_per_key == 4 || threads_per_key * 16 <= row_bytes",
                      "(q_heads / kv_heads) % heads_per_block == 0",
                      "head_dim * heads_per_block <= 64 * threads_per_key",
                      "block * 2 * heads_per_block * head_dim / threads_per_key <= 49152",
                      "block == 64 || block <= threads_per_key * visible_keys", kPdlConstraint},
      // And the new rows and softmax states.
      .limits = {.shared_bytes = "dynamic_bytes + (append ? (heads_per_block + 2) * head_dim * 4 : 0) + 256"},
      .stages = {{.file = "attention_decode/short_context.cu",
                  .kernel = "attention_decode_short_context<" + kDecodeProblem +
                            ", {block}, {threads_per_key}, {heads_per_block}>",
                  .geometry = {.grid = {"q_heads / heads_per_block", "batch"},
                               .block = {"block"},
                               .shared_bytes = "dynamic_bytes",
                               .pdl = "pdl"}}}};
}

Variant mma() {
  return {
      .name = "mma",
      .idea = "split-KV on tensor cores, packed GQA, a cp.async multistage pipeline per warp",
      .parameters = {{"warps", {2, 4, 8}, "warps per block"},
                     kSplits,
                     {"tile_kv", {16, 32, 64}, "keys per tile"},
                     {"stages", {2, 3, 4, 6}, "pipeline stages per warp"},
                     kPdl,
                     kCombine,
                     kCombineBlock},
      .derived = {kFar,
                  kHeadsPerGroup,
                  kSplitCount,
                  kNoSplitKeys,
                  {"pipeline_bytes", "warps * stages * 4 * tile_kv * (head_dim + 8)",
                   "bytes of the pipelines of a block: K and V tiles with padded rows"},
                  {"grid_bytes", "batch * kv_heads * splits * pipeline_bytes",
                   "bytes of the pipelines of the grid"}},
      .constraints =
          {
              plain_problem(attention_decode()),
              "!append && k_layout == sd",
              "head_dim % 16 == 0 && head_dim <= 256 && q_heads <= 16 * kv_heads",
              "pipeline_bytes >= 49152",
              "splits <= 4 || splits * 32 <= context",
              // Pipelines of the grid: from 60 % of the device's shared memory to three times as much.
              "splits == 1 || splits * 256 > context || grid_bytes >= 0.6 * sms * shared_per_block",
              "splits <= 2 || grid_bytes <= 3 * sms * shared_per_block",
              "splits % 3 != 0 || (batch * kv_heads * splits) % sms == 0",
              "combine == kernel || splits > 1",
              kCombineBlockRule,
              kPdlConstraint,
          },
      // The pipelines, softmax states and weights of the combine.
      .limits = {.shared_bytes = "pipeline_bytes + 1088 + "
                                 "(combine == last_block ? heads_per_group * splits * 4 : 0)"},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {{.file = "attention_decode/mma.cu",
                  .kernel = "attention_decode_mma<{dtype}, {q_heads}, {kv_heads}, {head_dim}, {tile_kv}, "
                            "{warps}, {stages}, {splits}, {combine}>",
                  .geometry = {.grid = {"splits", "kv_heads", "batch"},
                               .block = {"32 * warps"},
                               .shared_bytes = "pipeline_bytes",
                               .pdl = "pdl"}},
                 combine_stage()},
      .workspace = kSplitWorkspace,
  };
}

}  // namespace

std::vector<Variant> attention_decode_cuda() {
  return {naive(), vectorized(), split_kv(), fixed_split(), mma(), short_context()};
}

}  // namespace warptune
