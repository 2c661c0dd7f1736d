// How attention_decode runs on the GPU: an index of ideas in rising difficulty.
#include <algorithm>
#include <iterator>

#include "variants/attention_decode/attention_decode.h"
#include "variants/helpers/streaming.h"
#include "variants/plain.h"

namespace warptune {
namespace {

unsigned as_unsigned(std::int64_t n) { return static_cast<unsigned>(n); }

/// How many blocks share the keys of a sequence: `splits`, or as many as blocks of keys_per_block are.
std::int64_t split_count(const Problem& p, const Config& c) {
  if (c.has("splits")) return c["splits"];
  return ceil_div(p["window"] == 0 ? p["context"] : std::min(p["context"], p["window"]), c["keys_per_block"]);
}
Assignment split_constants(const Problem& p, const Config& c) {
  return {{"split_count", split_count(p, c)}, {"split_keys", c.get("keys_per_block", 0)}};
}

/// Partial rows and softmax states of every split, and one counter per query head (kernels' combine.cuh).
std::int64_t split_workspace(const Problem& p, const Config& c) {
  const std::int64_t rows = p["batch"] * p["q_heads"], splits = split_count(p, c);
  if (splits == 1 || c["combine"] == 2) return 0;
  return rows * splits * (p["head_dim"] + 2) * 4 + rows * 4;
}

Stage combine_stage() {
  return {
      .file = "attention_decode/combine.cu",
      .kernel =
          "attention_decode_combine<" + kDecodeProblem + ", {split_count}, {split_keys}, {combine_block}>",
      .launch =
          [](const Problem& p, const Config& c) {
            return Launch{.grid = {as_unsigned(p["q_heads"]), as_unsigned(p["batch"])},
                          .block = {as_unsigned(c["combine_block"])},
                          .pdl = c["pdl"] != 0};
          },
      .when = [](const Problem& p, const Config& c) { return split_count(p, c) > 1 && c["combine"] == 0; }};
}

/// Bytes of shared memory of the tensor-core kernel: per warp a ring of K and V tiles with padded rows.
std::int64_t ring_bytes(const Problem& p, const Config& c) {
  return c["warps"] * c["stages"] * 2 * c["tile"] * (2 * p["head_dim"] + 16);
}

/// Keys that a warp takes at once (lane_groups.cuh).
std::int64_t strip_keys(const Config& c) { return 32 / c["threads_per_key"] * c["unroll"]; }

/// Bytes of shared memory of the rings of a block's lanes (lane_strips.cuh).
std::int64_t lane_ring_bytes(const Problem& p, const Config& c) {
  if (c["stages"] == 1) return 0;
  const std::int64_t row = p["head_dim"] * static_cast<std::int64_t>(size_of(cache_dtype(p))),
                     lanes = c["threads_per_key"], value_lanes = c["threads_per_value"], keys = c["unroll"],
                     values = keys * value_lanes / lanes,
                     pieces = keys * ceil_div(row, 16 * lanes) + values * ceil_div(row, 16 * value_lanes),
                     scales = p["kv_dtype"] && p["kv_scale"] ? keys + values : 0;
  return c["block"] / 32 * c["stages"] * (512 * pieces + 128 * scales);
}

const Parameter kPdl = pdl_parameter();
const Parameter kCombine{
    "combine", {0, 1}, "who merges the splits: an extra kernel or the last block", {"kernel", "last_block"}};
const Parameter kCombineBlock{"combine_block", {128, 512}, "threads per block of the extra kernel"};
/// More threads only where there are many splits to merge.
const std::string kCombineBlockRule = "combine_block == 128 || (combine == 0 && splits >= 64)";
/// 27, 33 and 66 make whole waves on 108 and 132 multiprocessors.
const Parameter kSplits{"splits", {1, 2, 4, 8, 16, 27, 32, 33, 64, 66, 128}, "blocks that share the keys"};

const Parameter kThreadsPerKey{"threads_per_key", {4, 8, 16, 32}, "lanes that share a key"};
const Parameter kThreadsPerValue{"threads_per_value", {4, 8, 16, 32}, "lanes that share a value"};
const std::string kRow = kCacheRow;
/// The lanes of the keys, or more of them, with one or two 16-byte pieces each.
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
                        return Launch{.grid = {as_unsigned(p["q_heads"]), as_unsigned(p["batch"])},
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
                          "unroll * " + kRow + " <= 128 * threads_per_key", "pdl == 0 || arch >= 90"},
          .stages = {{"attention_decode/vectorized.cu",
                      "attention_decode_vectorized<" + kDecodeProblem +
                          ", {block}, {threads_per_key}, {threads_per_value}, {unroll}>",
                      [](const Problem& p, const Config& c) {
                        return Launch{.grid = {as_unsigned(p["q_heads"]), as_unsigned(p["batch"])},
                                      .block = {as_unsigned(c["block"])},
                                      .pdl = c["pdl"] != 0};
                      }}},
          .work_distribution = [](const Problem& p, const Config& c) {
            return round_robin_keys(p, c["block"] / 32, strip_keys(c));
          }};
}

/// What split_seq and split_keys share; `splits`: their number, as an expression.
std::vector<std::string> split_constraints(const std::string& splits) {
  const std::string threads = "batch * q_heads / heads_per_block * " + splits + " * block";
  // Bytes of a row, rounded up to 16 for each lane.
  const std::string over = kRow + " % (16 * threads_per_key)",
                    row = "(" + kRow + " + (" + over + " > 0) * (16 * threads_per_key - " + over + "))";
  return {
      kRow + " % 16 == 0",
      "threads_per_key <= 4 || threads_per_key * 16 <= " + kRow,
      kValueRule,
      // K bytes in flight per lane: 64 to 128 in registers; in a ring 64 to 160, in strips of 32 to 64.
      "unroll * " + kRow + " >= (stages == 1 ? 64 : 32) * threads_per_key",
      "unroll * " + kRow + " <= (stages == 1 ? 128 : 64) * threads_per_key",
      "stages == 1 || ((stages - 1) * unroll * " + kRow + " >= 64 * threads_per_key && stages * unroll * " +
          kRow + " <= 192 * threads_per_key)",
      "threads_per_value == threads_per_key || unroll * " + kRow + " > 64 * threads_per_key",
      // A warp's weights lie where its rows will.
      "threads_per_value == threads_per_key || unroll * 32 <= head_dim * threads_per_key",
      // One or two 16-byte pieces per lane, or more where that lets keys lie side by side.
      "k_layout == 1 || threads_per_key == 32 || " + kRow + " <= 32 * threads_per_key",
      "(q_heads / kv_heads) % heads_per_block == 0",
      "2 * heads_per_block > min(q_heads / kv_heads, 5)",
      // Registers of q, sums, scores and loads, a quarter of the file left over; and shared memory.
      "head_dim * heads_per_block <= 64 * threads_per_key",
      "block * (2 * heads_per_block * head_dim / threads_per_key + unroll * (heads_per_block + " + kRow +
          " / 2 / threads_per_key)) <= 49152",
      "(block / 32 + append + (combine == 2)) * heads_per_block * head_dim * 4 <= 40960",
      "stages == 1 || block / 32 * stages * unroll * 64 / threads_per_key * (" + row +
          " + kv_scale * 4 * threads_per_key) + (block / 32 + append + (combine == 2)) * heads_per_block * "
          "head_dim * 4 + block * 16 + 2048 <= shared_per_block",
      // Threads in all: from a quarter of one filling to one filling.
      splits + " <= 1 || " + splits + " * 128 > context || " + threads +
          " >= 480 * sms || deterministic == 1",
      splits + " <= 2 || " + threads + " <= 2048 * sms || deterministic == 1",
      "combine_block == 128 || (combine == 0 && " + splits + " >= 64)",
      "pdl == 0 || arch >= 90",
      // For a space of a reasonable size: few launches that do not overlap, and few kinds of rings.
      "pdl == 1 || arch < 90 || deterministic == 1 || (stages == 1 && block == 128 && combine == 0 && "
      "threads_per_value == threads_per_key && unroll * " +
          kRow + " > 64 * threads_per_key)",
      "stages == 1 || ((block == 128 || block == 256) && threads_per_value == threads_per_key && (combine > "
      "0 || " +
          splits + " <= 1))",
  };
}

std::vector<Stage> split_stages() {
  return {{"attention_decode/split_seq.cu",
           "attention_decode_split_seq<" + kDecodeProblem +
               ", {block}, {split_count}, {split_keys}, {threads_per_key}, {threads_per_value}, {unroll}, "
               "{stages}, {heads_per_block}, {combine}>",
           [](const Problem& p, const Config& c) {
             return Launch{
                 .grid = {as_unsigned(split_count(p, c)), as_unsigned(p["q_heads"] / c["heads_per_block"]),
                          as_unsigned(p["batch"])},
                 .block = {as_unsigned(c["block"])},
                 .shared_bytes = lane_ring_bytes(p, c),
                 .pdl = c["pdl"] != 0,
                 .cluster = c["combine"] == 2 ? as_unsigned(c["splits"]) : 1u};
           }},
          combine_stage()};
}

WorkDistribution split_work(const Problem& p, const Config& c) {
  return round_robin_keys(p, split_count(p, c) * c["block"] / 32, strip_keys(c));
}

const Parameter kSplitThreadsPerKey{"threads_per_key", {1, 2, 4, 8, 16, 32}, "lanes that share a key"};
const Parameter kSplitUnroll{"unroll", {1, 2, 4, 8, 16}, "keys per group of lanes and strip"};
const Parameter kStages{
    "stages", {1, 2, 3, 4, 6}, "strips of a lane's cp.async ring in shared memory; 1: of its registers"};
const Parameter kHeadsPerBlock{
    "heads_per_block", {1, 2, 3, 4, 5, 6, 7, 8}, "query heads that share what is read"};

Variant split_seq() {
  Variant v{
      .name = "split_seq",
      .idea = "keys split over blocks, a block serving several heads of a group; splits merge at the end",
      .parameters = {{"block", {64, 128, 256, 512, 1024}, "threads per block"},
                     kSplits,
                     kSplitThreadsPerKey,
                     kThreadsPerValue,
                     kSplitUnroll,
                     kStages,
                     kHeadsPerBlock,
                     kPdl,
                     {"combine", {0, 1, 2}, "who merges the splits", {"kernel", "last_block", "cluster"}},
                     kCombineBlock},
      .constraints =
          {
              "deterministic == 0",
              "splits <= 4 || splits * 32 <= context",  // at least 32 keys per split
              "splits % 3 != 0 || (batch * q_heads / heads_per_block * splits) % sms == 0",
              "combine == 0 || splits > 1",
              "combine != 2 || (arch >= 90 && splits <= 8 && block <= 256)",
          },
      .stages = split_stages(),
      .constants = split_constants,
      .workspace_bytes = split_workspace,
      .work_distribution = split_work};
  std::ranges::copy(split_constraints("splits"), std::back_inserter(v.constraints));
  return v;
}

/// What changes the order of sums is pinned, by nothing that hangs on the batch: blocks of 256 keys, as many
/// lanes per key as it has 16-byte pieces, the fewest keys in flight.
const std::string kDeterministicRule =
    "deterministic == 0 || (keys_per_block == 256 && block == 128 && combine == 0 && combine_block == 128 && "
    "stages == 1 && threads_per_key >= 4 && threads_per_value == threads_per_key && unroll * " +
    kRow +
    " < 128 * threads_per_key && "
    "((threads_per_key == 4 && " +
    kRow + " < 128) || (threads_per_key * 16 <= " + kRow + " && threads_per_key * 32 > " + kRow +
    ") || (threads_per_key == 32 && " + kRow + " >= 1024)))";

Variant split_keys() {
  Variant v{
      .name = "split_keys",
      .idea = "split_seq with splits of so many keys: even work where lengths differ, and bits that do not",
      .parameters = {{"block", {64, 128, 256}, "threads per block"},
                     {"keys_per_block", {32, 64, 128, 256, 512, 1024}, "keys of a split"},
                     kSplitThreadsPerKey,
                     kThreadsPerValue,
                     kSplitUnroll,
                     kStages,
                     kHeadsPerBlock,
                     kPdl,
                     kCombine,
                     kCombineBlock},
      .constraints = {kDeterministicRule, "keys_per_block < context || keys_per_block == 256",
                      // Weights of all splits in shared memory.
                      "combine == 0 || context * heads_per_block <= 2048 * keys_per_block"},
      .stages = split_stages(),
      .constants = split_constants,
      .workspace_bytes = split_workspace,
      .work_distribution = split_work};
  std::ranges::copy(split_constraints("(context / keys_per_block)"), std::back_inserter(v.constraints));
  return v;
}

/// Bytes of shared memory of a short context: rows of K (later the warps' sums) and of V, and scores.
std::int64_t short_bytes(const Problem& p, const Config& c) {
  const std::int64_t keys = p["window"] == 0 ? p["context"] : std::min(p["context"], p["window"]),
                     lanes = c["threads_per_key"], heads = c["heads_per_block"],
                     row = p["head_dim"] * static_cast<std::int64_t>(size_of(cache_dtype(p))) +
                           (lanes < 8 ? 16 * lanes : 0);
  return std::max(keys * row, c["block"] / 32 * heads * p["head_dim"] * 4) + keys * row + heads * keys * 4;
}

Variant short_context() {
  const std::string row = "(" + kRow + " + (threads_per_key < 8) * 16 * threads_per_key)",
                    keys = "min(context, window + (window == 0) * context)",
                    sums = "block / 32 * heads_per_block * head_dim * 4";
  return {
      .name = "short_context",
      .idea = "all K and V of a head in shared memory at once, one softmax, nothing to merge",
      .parameters = {{"block", {64, 128, 256, 512}, "threads per block"},
                     kThreadsPerKey,
                     kHeadsPerBlock,
                     kPdl},
      .constraints = {"deterministic == 0", kRow + " % 16 == 0",
                      "threads_per_key == 4 || threads_per_key * 16 <= " + kRow,
                      "(q_heads / kv_heads) % heads_per_block == 0",
                      "head_dim * heads_per_block <= 64 * threads_per_key",
                      "block * 2 * heads_per_block * head_dim / threads_per_key <= 49152",
                      // What is copied, the new rows and states.
                      "max(" + keys + " * " + row + ", " + sums + ") + " + keys + " * (" + row +
                          " + 4 * heads_per_block) + append * (heads_per_block + 2) * head_dim * 4 + 256 <= "
                          "shared_per_block",
                      "block == 64 || block <= threads_per_key * " + keys, "pdl == 0 || arch >= 90"},
      .stages = {{"attention_decode/short_context.cu",
                  "attention_decode_short_context<" + kDecodeProblem +
                      ", {block}, {threads_per_key}, {heads_per_block}>",
                  [](const Problem& p, const Config& c) {
                    return Launch{
                        .grid = {as_unsigned(p["q_heads"] / c["heads_per_block"]), as_unsigned(p["batch"])},
                        .block = {as_unsigned(c["block"])},
                        .shared_bytes = short_bytes(p, c),
                        .pdl = c["pdl"] != 0};
                  }}}};
}

Variant mma() {
  const std::string ring = "warps * stages * 4 * tile * (head_dim + 8)",
                    rings = "batch * kv_heads * splits * " + ring;
  return {
      .name = "mma",
      .idea = "a group's heads as the rows of tensor-core products, K and V through cp.async rings per warp",
      .parameters = {{"warps", {2, 4, 8}, "warps per block"},
                     kSplits,
                     {"tile", {16, 32, 64}, "keys of a warp's tile"},
                     {"stages", {2, 3, 4, 6}, "tiles of a warp's ring"},
                     kPdl,
                     kCombine,
                     kCombineBlock},
      .constraints =
          {
              plain_problem(attention_decode()),
              "append == 0 && k_layout == 0",
              "head_dim % 16 == 0 && head_dim <= 256 && q_heads <= 16 * kv_heads",
              // The ring, softmax states and weights of the merge fit, and it is worth the block.
              ring + " + 1088 + combine * q_heads / kv_heads * splits * 4 <= shared_per_block",
              ring + " >= 49152",
              "splits <= 4 || splits * 32 <= context",
              // Rings in all: from 60 % of the device's shared memory to three fillings.
              "splits == 1 || splits * 256 > context || " + rings + " >= 0.6 * sms * shared_per_block",
              "splits <= 2 || " + rings + " <= 3 * sms * shared_per_block",
              "splits % 3 != 0 || (batch * kv_heads * splits) % sms == 0",
              "combine == 0 || splits > 1",
              kCombineBlockRule,
              "pdl == 0 || arch >= 90",
          },
      .dtypes = {DType::fp16, DType::bf16},
      .stages =
          {{"attention_decode/mma.cu",
            "attention_decode_mma<{dtype}, {q_heads}, {kv_heads}, {head_dim}, {tile}, {warps}, {stages}, "
            "{splits}, {combine}>",
            [](const Problem& p, const Config& c) {
              return Launch{
                  .grid = {as_unsigned(c["splits"]), as_unsigned(p["kv_heads"]), as_unsigned(p["batch"])},
                  .block = {as_unsigned(32 * c["warps"])},
                  .shared_bytes = ring_bytes(p, c),
                  .pdl = c["pdl"] != 0};
            }},
           combine_stage()},
      .constants = split_constants,
      .workspace_bytes = split_workspace,
      .work_distribution = [](const Problem& p, const Config& c) {
        return round_robin_keys(p, c["splits"] * c["warps"], c["tile"]);
      }};
}

}  // namespace

std::vector<Variant> attention_decode_cuda() {
  return {naive(), vectorized(), split_seq(), split_keys(), mma(), short_context()};
}

}  // namespace warptune
