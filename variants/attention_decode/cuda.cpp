// Decode attention variants that run on every GPU, in rising difficulty.
#include <algorithm>
#include <iterator>

#include "kernels/common/near_positions.h"
#include "variants/attention_decode/attention_decode.h"
#include "variants/helpers/streaming.h"
#include "variants/plain.h"

namespace warptune {
namespace {

/// Splits of a sequence: `splits`, or as many as keys_per_split gives.
std::int64_t split_count(const Problem& p, const Config& c) {
  if (c.has("splits")) return c["splits"];
  return ceil_div(p["window"] == 0 ? p["context"] : std::min(p["context"], p["window"]), c["keys_per_split"]);
}
Assignment split_constants(const Problem& p, const Config& c) {
  return {{"split_count", split_count(p, c)},
          {"split_keys", c.get("keys_per_split", 0)},
          // Parameters of split_kv; fixed_split has these values.
          {"key_load_bytes", 16},
          {"append_store", static_cast<std::int64_t>(AppendStore::element)}};
}

/// Partial rows and softmax states of every split, and one counter per query head (kernels' combine.cuh).
std::int64_t split_workspace(const Problem& p, const Config& c) {
  const std::int64_t rows = p["batch"] * p["q_heads"], splits = split_count(p, c);
  if (splits == 1 || combines_by(c, Combine::cluster)) return 0;
  return rows * splits * (p["head_dim"] + 2) * 4 + rows * 4;
}

Stage combine_stage() {
  return {.file = "attention_decode/combine.cu",
          .kernel = "attention_decode_combine<" + kDecodeProblem +
                    ", {split_count}, {split_keys}, {combine_block}>",
          .launch =
              [](const Problem& p, const Config& c) {
                return Launch{.grid = {as_unsigned(p["q_heads"]), as_unsigned(p["batch"])},
                              .block = {as_unsigned(c["combine_block"])},
                              .pdl = c["pdl"] != 0};
              },
          .when = [](const Problem& p,
                     const Config& c) { return split_count(p, c) > 1 && combines_by(c, Combine::kernel); }};
}

/// Epilogue::project as a kernel of its own.
Stage project_stage() {
  constexpr int kBlock = 256;
  return {.file = "attention_decode/project.cu",
          .kernel = "attention_decode_project<{dtype}, {q_heads} * {head_dim}, {hidden}, " +
                    std::to_string(kBlock) + ">",
          .launch =
              [](const Problem& p, const Config& c) {
                return Launch{
                    .grid = {as_unsigned(ceil_div(p["hidden"], kBlock / 32)), as_unsigned(p["batch"])},
                    .block = {kBlock},
                    .pdl = c["pdl"] != 0};
              },
          .when = [](const Problem& p, const Config&) { return projects(p); }};
}

/// Shared memory of mma: a pipeline of K and V tiles with padded rows per warp.
std::int64_t pipeline_bytes(const Problem& p, const Config& c) {
  return c["warps"] * c["stages"] * 2 * c["tile_kv"] * (2 * p["head_dim"] + 16);
}

/// Keys of a warp's tile (cuda_core_attention.cuh).
std::int64_t warp_tile_keys(const Config& c) { return 32 / c["threads_per_key"] * c["unroll"]; }

/// Shared memory of the cp.async pipelines of a block (cp_async_pipeline.cuh).
std::int64_t lane_pipeline_bytes(const Problem& p, const Config& c) {
  if (c["stages"] == 1) return 0;
  const std::int64_t row = p["head_dim"] * static_cast<std::int64_t>(size_of(cache_dtype(p))),
                     lanes = c["threads_per_key"], value_lanes = c["threads_per_value"], keys = c["unroll"],
                     values = keys * value_lanes / lanes,
                     vectors = keys * ceil_div(row, 16 * lanes) + values * ceil_div(row, 16 * value_lanes),
                     scales = p["kv_dtype"] && p["kv_scale"] ? keys + values : 0;
  return c["block"] / 32 * c["stages"] * (512 * vectors + 128 * scales);
}

const Parameter kPdl = pdl_parameter();
const Parameter kCombine = combine_parameter({Combine::kernel, Combine::last_block});
const Parameter kCombineBlock{"combine_block", {128, 512}, "threads per block of the combine kernel"};
/// More threads only for many splits.
const std::string kCombineBlockRule = "combine_block == 128 || (combine == 0 && splits >= 64)";
/// 27, 33 and 66 give full waves on 108 and 132 SMs.
const Parameter kSplits{
    "splits", {1, 2, 4, 8, 16, 27, 32, 33, 64, 66, 128}, "blocks that share the keys of a sequence"};

const Parameter kThreadsPerKey{"threads_per_key", {4, 8, 16, 32}, "lanes that share a key"};
const Parameter kThreadsPerValue{"threads_per_value", {4, 8, 16, 32}, "lanes that share a value"};
const std::string kRow = kCacheRow;
/// As many lanes as for a key, or more, with one or two 16-byte vectors each.
const std::string kValueRule =
    "threads_per_value == threads_per_key || (threads_per_value > threads_per_key && threads_per_value * 16 "
    "<= " +
    kRow + " && threads_per_value * 32 >= " + kRow + ")";

Variant naive() {
  return {.name = "naive",
          .idea = "block per query head, thread per key, online softmax between tiles",
          .parameters = {{"block", {64, 128, 256}, "threads per block, keys per tile"}},
          .constraints = {"append == 0 && deterministic == 0"},
          .stages = {{"attention_decode/naive.cu", "attention_decode_naive<" + kDecodeProblem + ", {block}>",
                      [](const Problem& p, const Config& c) {
                        return Launch{.grid = {as_unsigned(p["batch"] * p["q_heads"])},
                                      .block = {as_unsigned(c["block"])}};
                      }}}};
}

Variant vectorized() {
  return {.name = "vectorized",
          .idea = "block per query head, lanes per key with 16-byte loads, no barrier over the keys",
          .parameters = {{"block", {64, 128, 256, 512}, "threads per block"},
                         kThreadsPerKey,
                         kThreadsPerValue,
                         {"unroll", {1, 2, 4, 8, 16}, "keys in flight per group of lanes"},
                         kPdl},
          .constraints = {"deterministic == 0", kRow + " % 16 == 0", "head_dim <= 64 * threads_per_key",
                          "threads_per_key == 4 || threads_per_key * 16 <= " + kRow, kValueRule,
                          "unroll * " + kRow + " >= 32 * threads_per_key",
                          "unroll * " + kRow + " <= 128 * threads_per_key", "pdl == 0 || has_pdl"},
          .stages = {{"attention_decode/vectorized.cu",
                      "attention_decode_vectorized<" + kDecodeProblem +
                          ", {block}, {threads_per_key}, {threads_per_value}, {unroll}>",
                      [](const Problem& p, const Config& c) {
                        return Launch{.grid = {as_unsigned(p["q_heads"]), as_unsigned(p["batch"])},
                                      .block = {as_unsigned(c["block"])},
                                      .pdl = c["pdl"] != 0};
                      }},
                     project_stage()},
          .workspace_bytes = rows_workspace,
          .work_distribution = [](const Problem& p, const Config& c) {
            return round_robin_keys(p, c["block"] / 32, warp_tile_keys(c));
          }};
}

/// Constraints of split_kv and fixed_split; `splits`: the number of splits as an expression.
std::vector<Expression> split_constraints(const std::string& splits) {
  const std::string threads = "batch * q_heads / heads_per_block * " + splits + " * block";
  return {
      kNoProjection,
      kRow + " % 16 == 0",
      "threads_per_key <= 4 || threads_per_key * 16 <= " + kRow,
      kValueRule,
      // K bytes in flight per lane: 64 to 128 in registers; in a pipeline 64 to 160, in tiles of 32 to 64.
      "unroll * " + kRow + " >= (stages == 1 ? 64 : 32) * threads_per_key",
      "unroll * " + kRow + " <= (stages == 1 ? 128 : 64) * threads_per_key",
      "stages == 1 || ((stages - 1) * unroll * " + kRow + " >= 64 * threads_per_key && stages * unroll * " +
          kRow + " <= 192 * threads_per_key)",
      "threads_per_value == threads_per_key || unroll * " + kRow + " > 64 * threads_per_key",
      // The weights of a warp fit in the memory of its partial rows.
      "threads_per_value == threads_per_key || unroll * 32 <= head_dim * threads_per_key",
      // One or two 16-byte vectors per lane, or more where that puts keys next to each other.
      "k_layout == 1 || threads_per_key == 32 || " + kRow + " <= 32 * threads_per_key",
      "(q_heads / kv_heads) % heads_per_block == 0",
      "2 * heads_per_block > min(q_heads / kv_heads, 5)",
      // Registers of q, accumulators, scores and loads: three quarters of the file. Static shared memory.
      "head_dim * heads_per_block <= 64 * threads_per_key",
      "block * (2 * heads_per_block * head_dim / threads_per_key + unroll * (heads_per_block + " + kRow +
          " / 2 / threads_per_key)) <= 49152",
      "(block / 32 + append + (combine == 2)) * heads_per_block * head_dim * 4 <= 40960",
      // Threads of the grid: from a quarter of a full device to a full device.
      splits + " <= 1 || " + splits + " * 128 > context || " + threads +
          " >= 480 * sms || deterministic == 1",
      splits + " <= 2 || " + threads + " <= 2048 * sms || deterministic == 1",
      "combine_block == 128 || (combine == 0 && " + splits + " >= 64)",
      "pdl == 0 || has_pdl",
      // Keeps the space small: few launches without pdl, and few kinds of pipelines.
      "pdl == 1 || has_pdl == 0 || deterministic == 1 || (stages == 1 && block == 128 && combine == 0 && "
      "threads_per_value == threads_per_key && unroll * " +
          kRow + " > 64 * threads_per_key)",
      "stages == 1 || ((block == 128 || block == 256) && threads_per_value == threads_per_key && (combine > "
      "0 || " +
          splits + " <= 1))",
  };
}

std::vector<Stage> split_stages() {
  return {{"attention_decode/split_kv.cu",
           "attention_decode_split_kv<" + kDecodeProblem +
               ", {block}, {split_count}, {split_keys}, {threads_per_key}, {threads_per_value}, {unroll}, "
               "{stages}, {heads_per_block}, {combine}, {key_load_bytes}, {append_store}>",
           [](const Problem& p, const Config& c) {
             return Launch{
                 .grid = {as_unsigned(split_count(p, c)), as_unsigned(p["q_heads"] / c["heads_per_block"]),
                          as_unsigned(p["batch"])},
                 .block = {as_unsigned(c["block"])},
                 .shared_bytes = lane_pipeline_bytes(p, c),
                 .pdl = c["pdl"] != 0,
                 .cluster = combines_by(c, Combine::cluster) ? as_unsigned(c["splits"]) : 1u};
           }},
          combine_stage()};
}

WorkDistribution split_work(const Problem& p, const Config& c) {
  return round_robin_keys(p, split_count(p, c) * c["block"] / 32, warp_tile_keys(c));
}

/// Shared memory of split_kv: cp.async stages, partial rows (one more for the append and for the cluster) and
/// states.
LaunchResources split_resources(const Problem& p, const Config& c) {
  const std::int64_t rows = c["block"] / 32 + p["append"] + combines_by(c, Combine::cluster);
  return {.shared_bytes = lane_pipeline_bytes(p, c) + rows * c["heads_per_block"] * p["head_dim"] * 4 +
                          c["block"] * 16 + 2048};
}

const Parameter kSplitThreadsPerKey{"threads_per_key", {1, 2, 4, 8, 16, 32}, "lanes that share a key"};
const Parameter kSplitUnroll{"unroll", {1, 2, 4, 8, 16}, "keys per group of lanes and tile"};
const Parameter kStages{
    "stages", {1, 2, 3, 4, 6}, "cp.async pipeline stages per warp; 1: loads to registers"};
const Parameter kHeadsPerBlock{
    "heads_per_block", {1, 2, 3, 4, 5, 6, 7, 8}, "query heads of a group that share a block"};

/// The configurations that also read K by 4 bytes, or append by vectors: enough to compare these choices.
const std::string kComparedConfigs =
    "stages == 1 && block == 128 && pdl == has_pdl && (combine == 1 || splits == 1) && splits % 3 != 0 && "
    "(threads_per_value == threads_per_key || k_layout == 1)";

Variant split_kv() {
  Variant v{.name = "split_kv",
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
            .constraints =
                {
                    "deterministic == 0",
                    "key_load_bytes == 16 || (threads_per_key >= 4 && " + kComparedConfigs + ")",
                    "append_store == 0 || (append == 1 && key_load_bytes == 16 && " + kComparedConfigs + ")",
                    "splits <= 4 || splits * 32 <= context",  // at least 32 keys per split
                    "splits % 3 != 0 || (batch * q_heads / heads_per_block * splits) % sms == 0",
                    "combine == 0 || splits > 1",
                    "combine != 2 || (has_clusters && splits <= 8 && block <= 256)",
                },
            .stages = split_stages(),
            .constants = split_constants,
            .workspace_bytes = split_workspace,
            .work_distribution = split_work};
  v.resources = split_resources;
  std::ranges::copy(split_constraints("splits"), std::back_inserter(v.constraints));
  return v;
}

/// Bitwise reproducible: the parameters that change the order of sums are fixed, independent of the batch:
/// splits of 256 keys, one lane per 16-byte vector of a key, the fewest keys in flight.
const std::string kDeterministicRule =
    "deterministic == 0 || (keys_per_split == 256 && block == 128 && combine == 0 && combine_block == 128 && "
    "stages == 1 && threads_per_key >= 4 && threads_per_value == threads_per_key && unroll * " +
    kRow +
    " < 128 * threads_per_key && "
    "((threads_per_key == 4 && " +
    kRow + " < 128) || (threads_per_key * 16 <= " + kRow + " && threads_per_key * 32 > " + kRow +
    ") || (threads_per_key == 32 && " + kRow + " >= 1024)))";

Variant fixed_split() {
  Variant v{
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
      .constraints = {kDeterministicRule, "keys_per_split < context || keys_per_split == 256",
                      // The weights of all splits fit in shared memory.
                      "combine == 0 || context * heads_per_block <= 2048 * keys_per_split"},
      .stages = split_stages(),
      .constants = split_constants,
      .workspace_bytes = split_workspace,
      .work_distribution = split_work};
  v.resources = split_resources;
  std::ranges::copy(split_constraints("(context / keys_per_split)"), std::back_inserter(v.constraints));
  return v;
}

/// Dynamic shared memory of short_context: rows of K (later the sums of the warps) and of V, and scores.
std::int64_t short_bytes(const Problem& p, const Config& c) {
  const std::int64_t keys = p["window"] == 0 ? p["context"] : std::min(p["context"], p["window"]),
                     lanes = c["threads_per_key"], heads = c["heads_per_block"],
                     row = p["head_dim"] * static_cast<std::int64_t>(size_of(cache_dtype(p))) +
                           (lanes < 8 ? 16 * lanes : 0);
  return std::max(keys * row, c["block"] / 32 * heads * p["head_dim"] * 4) + keys * row + heads * keys * 4;
}

Variant short_context() {
  const std::string keys = "min(context, window + (window == 0) * context)";
  return {.name = "short_context",
          .idea = "all K and V of a head in shared memory, one load and one softmax, nothing to combine",
          .parameters = {{"block", {64, 128, 256, 512}, "threads per block"},
                         kThreadsPerKey,
                         kHeadsPerBlock,
                         kPdl},
          .constraints = {kNoProjection, "deterministic == 0", kRow + " % 16 == 0",
                          "threads_per_key == 4 || threads_per_key * 16 <= " + kRow,
                          "(q_heads / kv_heads) % heads_per_block == 0",
                          "head_dim * heads_per_block <= 64 * threads_per_key",
                          "block * 2 * heads_per_block * head_dim / threads_per_key <= 49152",
                          "block == 64 || block <= threads_per_key * " + keys, "pdl == 0 || has_pdl"},
          .resources =  // and the new rows and softmax states
          [](const Problem& p, const Config& c) {
            return LaunchResources{.shared_bytes =
                                       short_bytes(p, c) +
                                       p["append"] * (c["heads_per_block"] + 2) * p["head_dim"] * 4 + 256};
          },
          .stages = {{"attention_decode/short_context.cu",
                      "attention_decode_short_context<" + kDecodeProblem +
                          ", {block}, {threads_per_key}, {heads_per_block}>",
                      [](const Problem& p, const Config& c) {
                        return Launch{.grid = {as_unsigned(p["q_heads"] / c["heads_per_block"]),
                                               as_unsigned(p["batch"])},
                                      .block = {as_unsigned(c["block"])},
                                      .shared_bytes = short_bytes(p, c),
                                      .pdl = c["pdl"] != 0};
                      }}}};
}

Variant mma() {
  const std::string pipeline = "warps * stages * 4 * tile_kv * (head_dim + 8)",  // bytes
      pipelines = "batch * kv_heads * splits * " + pipeline;
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
      .constraints =
          {
              plain_problem(attention_decode()),
              "append == 0 && k_layout == 0",
              "head_dim % 16 == 0 && head_dim <= 256 && q_heads <= 16 * kv_heads",
              pipeline + " >= 49152",
              "splits <= 4 || splits * 32 <= context",
              // Pipelines of the grid: from 60 % of the device's shared memory to three times as much.
              "splits == 1 || splits * 256 > context || " + pipelines + " >= 0.6 * sms * shared_per_block",
              "splits <= 2 || " + pipelines + " <= 3 * sms * shared_per_block",
              "splits % 3 != 0 || (batch * kv_heads * splits) % sms == 0",
              "combine == 0 || splits > 1",
              kCombineBlockRule,
              "pdl == 0 || has_pdl",
          },
      .resources =  // the pipelines, softmax states and weights of the combine
      [](const Problem& p, const Config& c) {
        return LaunchResources{.shared_bytes = pipeline_bytes(p, c) + 1088 +
                                               c["combine"] * p["q_heads"] / p["kv_heads"] * c["splits"] * 4};
      },
      .dtypes = {DType::fp16, DType::bf16},
      .stages =
          {{"attention_decode/mma.cu",
            "attention_decode_mma<{dtype}, {q_heads}, {kv_heads}, {head_dim}, {tile_kv}, {warps}, {stages}, "
            "{splits}, {combine}>",
            [](const Problem& p, const Config& c) {
              return Launch{
                  .grid = {as_unsigned(c["splits"]), as_unsigned(p["kv_heads"]), as_unsigned(p["batch"])},
                  .block = {as_unsigned(32 * c["warps"])},
                  .shared_bytes = pipeline_bytes(p, c),
                  .pdl = c["pdl"] != 0};
            }},
           combine_stage()},
      .constants = split_constants,
      .workspace_bytes = split_workspace,
      .work_distribution =
          [](const Problem& p, const Config& c) {
            return round_robin_keys(p, c["splits"] * c["warps"], c["tile_kv"]);
          }};
}

}  // namespace

std::vector<Variant> with_far_positions(std::vector<Variant> variants) {
  for (Variant& variant : variants)
    variant.constants = [own = variant.constants](const Problem& p, const Config& c) {
      Assignment constants = own ? own(p, c) : Assignment{};
      constants.set("far", p["append"] == 1 && p["context"] > kNearPositions);
      return constants;
    };
  return variants;
}

std::vector<Variant> attention_decode_cuda() {
  return with_far_positions({naive(), vectorized(), split_kv(), fixed_split(), mma(), short_context()});
}

}  // namespace warptune
