// How attention_decode runs on GPUs with bulk copies and clusters (sm_90).
#include <algorithm>

#include "kernels/attention_decode/args.h"
#include "variants/attention_decode/attention_decode.h"
#include "variants/helpers/streaming.h"
#include "variants/plain.h"

namespace warptune {
namespace {

unsigned as_unsigned(std::int64_t n) { return static_cast<unsigned>(n); }

/// A kernel that keeps rings of K and V chunks per warp, and how much shared memory and workspace it takes.
struct Rings {
  std::int64_t heads;            // query heads per block
  std::int64_t slot_bytes;       // a chunk of K and V, with scales
  std::int64_t row_bytes;        // of the caches
  std::int64_t new_q_bytes = 0;  // of queries that have taken the new position, in shared memory
  bool stays = false;            // one block per multiprocessor, a warp of which feeds the rings
  int registers = 0;             // of a thread, roughly; 0: not known

  std::int64_t shared_bytes(const Problem& p, const Config& c) const {
    const std::int64_t slots = c["warps"] * c.get("stages", 0), row = 4 * (p["head_dim"] + 2);
    const std::int64_t append =  // new rows, angles
        p["append"] ? 2 * row_bytes + new_q_bytes + 4 * p["head_dim"] + 64 : 0;
    const std::int64_t many = c["splits"] > 16 ? 4 * heads * c["splits"] + 16 * 32 * c["warps"] : 0;
    const std::int64_t merge = (c["warps"] + (c["combine"] == 1)) * heads * row + many + 80;  // 80: alignment
    if (stays) return slots * (slot_bytes + 32) + append + merge;
    return std::max(slots * (slot_bytes + 8) + append, merge);
  }
  std::int64_t workspace_bytes(const Problem& p, const Config& c) const {
    const std::int64_t tickets = stays ? 16 : 0;
    if (c["splits"] == 1 || c["combine"] == 1) return tickets;
    return p["batch"] * p["q_heads"] * (c["splits"] * (p["head_dim"] + 2) + 1) * 4 + tickets;
  }
  std::int64_t work_tiles(const Problem& p, const Config& c) const {
    return c["splits"] * (p["q_heads"] / heads) * p["batch"];
  }
  WorkDistribution work_distribution(const Problem& p, const Config& c) const {
    WorkDistribution work = round_robin_keys(p, c["splits"] * c["warps"], c["keys"]);
    if (stays) work.tiles = static_cast<double>(work_tiles(p, c));
    work.registers = registers;
    return work;
  }
  Launch launch(const Problem& p, const Config& c) const {
    Launch launch{
        .grid = {as_unsigned(c["splits"]), as_unsigned(p["q_heads"] / heads), as_unsigned(p["batch"])},
        .block = {as_unsigned(32 * c["warps"])},
        .shared_bytes = shared_bytes(p, c),
        .pdl = c["pdl"] != 0,
        .cluster = c["combine"] == 1 ? as_unsigned(c["splits"]) : 1u};
    if (stays) {
      launch.max_blocks = work_tiles(p, c);
      launch.grid = {1};
      launch.per_sm = true;
      launch.block.x += 32;
    }
    return launch;
  }
};

Rings split_rings(const Problem& p, const Config& c) {
  return {.heads = c["heads_per_block"],
          .slot_bytes = 2 * c["keys"] * p["head_dim"] * static_cast<std::int64_t>(size_of(p.dtype)),
          .row_bytes = p["head_dim"] * static_cast<std::int64_t>(size_of(p.dtype))};
}
Rings mma_rings(const Problem& p, const Config& c) {
  const std::int64_t row = p["head_dim"] * static_cast<std::int64_t>(size_of(cache_dtype(p))),
                     scale = p["kv_dtype"] && p["kv_scale"] ? 4 : 0, heads = p["q_heads"] / p["kv_heads"];
  return {.heads = heads,
          .slot_bytes = 2 * c["keys"] * (row + scale),
          .row_bytes = row,
          .new_q_bytes = heads * (2 * p["head_dim"] + 64)};
}
Rings direct_rings(const Problem& p, const Config& c) {
  Rings rings = mma_rings(p, c);
  // Of what is in flight, of q and of the result, as in the rule, and what ptxas takes besides.
  const std::int64_t values = c["keys"] * rings.row_bytes / 64 + p["kv_scale"] * c["keys"] / 2 +
                              p["head_dim"] / 4 * (2 + (rings.heads > 8)),
                     rest = 30;
  rings.registers = static_cast<int>(std::min(values + rest, 2048 / c["warps_per_sm"]));
  return rings;
}
Rings fed_rings(const Problem& p, const Config& c) {
  Rings rings = mma_rings(p, c);
  rings.stays = true;
  return rings;
}

/// A stage and a workspace of the rings that `rings` gives.
template <class F>
Stage ring_stage(std::string file, std::string kernel, F rings) {
  return {std::move(file), std::move(kernel),
          [rings](const Problem& p, const Config& c) { return rings(p, c).launch(p, c); }};
}
template <class F>
auto ring_work(F rings) {
  return [rings](const Problem& p, const Config& c) { return rings(p, c).work_distribution(p, c); };
}
template <class F>
auto ring_workspace(F rings) {
  return [rings](const Problem& p, const Config& c) { return rings(p, c).workspace_bytes(p, c); };
}

const Parameter kCombine{"combine", {0, 1, 2}, "how splits are merged", {"last_block", "cluster", "posted"}};

/// Few splits come faster by post than by the block that comes last.
const std::string kPostedRule = "combine > 0 || splits == 1 || splits >= 8";

const Parameter kAhead{"ahead", {0, 1}, "chunks behind a warp's ring that come into the L2 early"};

/// What a block asks into the L2 is enough to matter and stays there until it is read; `row`: bytes of a key.
std::string ahead_rule(const std::string& row) {
  const std::string bytes = "warps * ahead * 2 * keys * " + row;
  return "ahead == 0 || (pdl == 1 && " + bytes + " >= 32000 && " + bytes +
         " <= 264000 && splits * warps * keys * (stages + ahead) <= context)";
}

/// The partial results of the warps fit into shared memory.
std::string merge_rule(const std::string& heads) {
  return "4 * " + heads +
         " * ((warps + (combine == 1)) * (head_dim + 2) + splits) + 512 * warps <= shared_per_block - 1024";
}

Variant split_ring() {
  return {
      .name = "split_ring",
      .idea = "keys split over blocks and warps, K and V through per-warp rings of bulk copies",
      .parameters = {{"splits", {1, 2, 4, 8, 16}, "blocks that share the keys of a sequence"},
                     {"heads_per_block", {1, 2, 4, 8}, "query heads of a group that share a block"},
                     {"warps", {4, 8}, "warps per block"},
                     {"keys", {8, 16}, "keys per chunk"},
                     {"stages", {2, 3, 4}, "chunks in a warp's ring"},
                     kAhead,
                     kCombine,
                     pdl_parameter()},
      .constraints =
          {plain_problem(attention_decode()), "arch >= 90", "k_layout == 0",
           "warps * heads_per_block * head_dim <= 4096",
           "head_dim * dtype_bytes == 128 || head_dim * dtype_bytes == 256 || head_dim * dtype_bytes == 512",
           "heads_per_block > 1 || (q_heads / kv_heads) % 2 == 1",
           "(q_heads / kv_heads) % heads_per_block == 0", "heads_per_block * head_dim * dtype_bytes <= 1024",
           "warps * stages * (2 * keys * head_dim * dtype_bytes + 8) + append * (2 * dtype_bytes + 4) * "
           "head_dim <= shared_per_block - 1024",
           merge_rule("heads_per_block"),
           "warps * stages * 2 * keys * head_dim * dtype_bytes >= 30000 || warps * stages * keys * splits >= "
           "context",
           "splits == 1 || splits * warps * keys <= 2 * context",
           "combine == 0 || (splits > 1 && splits <= (combine == 1 ? 8 : 16))", kPostedRule,
           // groups are for mma_ring
           "ahead == 0 || q_heads == kv_heads", ahead_rule("head_dim * dtype_bytes"),
           // enough blocks for the device, but few waves
           "splits * batch * q_heads / heads_per_block <= 24 * sms || splits == 1",
           "splits * batch * q_heads / heads_per_block * 2 >= sms || splits >= 16 || splits * warps * keys "
           ">= context"},
      .stages = {ring_stage(
          "attention_decode/split_ring.cu",
          "attention_decode_split_ring<" + kDecodeProblem +
              ", {heads_per_block}, {warps}, {keys}, {stages}, {ahead}, {splits}, {combine}>",
          split_rings)},
      .workspace_bytes = ring_workspace(split_rings),
      .work_distribution = ring_work(split_rings),
  };
}

/// What the variants for groups of heads on tensor cores take.
const std::string kGroupRule = kCacheRow +
                               " % 128 == 0 && head_dim <= 256 && q_heads <= 16 * kv_heads && k_layout == 0 "
                               "&& deterministic == 0 && page_size % keys == 0";

Variant mma_ring() {
  const std::string chunk = "2 * keys * " + kCacheRow, rings = "warps * stages * " + chunk,
                    bytes_under_way = "warps * under_way * " + chunk;
  return {
      .name = "mma_ring",
      .idea = "rings of bulk copies that a warp of its own feeds, groups of heads on tensor cores",
      .parameters = {{"splits", {1, 2, 4, 8, 16}, "blocks that share the keys of a sequence"},
                     {"warps", {4, 8}, "warps per block that attend"},
                     {"keys", {16, 32, 64}, "keys per chunk"},
                     {"stages", {2, 3, 4}, "chunks in a warp's ring"},
                     {"under_way", {1, 2, 3}, "of them, asked for and not yet there"},
                     kAhead,
                     {"combine", {0, 2}, "how splits are merged", {"last_block", "cluster", "posted"}},
                     pdl_parameter()},
      .constraints =
          {"arch >= 90", kGroupRule, "pdl == 1 || stages == 2", ahead_rule(kCacheRow), "under_way <= stages",
           rings + " + warps * stages * (32 + kv_scale * 8 * keys) + append * (2 * " + kCacheRow +
               " + q_heads / kv_heads * (2 * head_dim + 64) + 4 * head_dim + 64) + 4 * warps * q_heads / "
               "kv_heads * (head_dim + 2) + 80 <= shared_per_block",
           // bytes under way, enough of them and not too many, and of a ring
           bytes_under_way + " <= 140000",
           "(" + bytes_under_way + " >= 60000 && " + rings +
               " >= 90000) || warps * stages * keys * splits >= context",
           "splits == 1 || splits * warps * keys <= 2 * context", "splits > 1 || combine == 0", kPostedRule,
           // enough blocks for the device, but few shares for each
           "splits * batch * kv_heads <= 8 * sms || splits == 1",
           "splits * batch * kv_heads * 2 >= sms || splits >= 16 || splits * warps * keys >= context"},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {ring_stage("attention_decode/mma_ring.cu",
                            "attention_decode_mma_ring<" + kDecodeProblem +
                                ", {warps}, {keys}, {stages}, {under_way}, {ahead}, {splits}, {combine}>",
                            fed_rings)},
      .workspace_bytes = ring_workspace(fed_rings),
      .work_distribution = ring_work(fed_rings),
  };
}

Variant mma_direct() {
  return {
      .name = "mma_direct",
      .idea = "K and V straight from memory to tensor-core products of a whole group of heads",
      .parameters = {{"splits", {1, 2, 4, 8, 16, 27, 33, 64}, "blocks that share the keys of a sequence"},
                     {"warps", {4, 8, 16}, "warps per block"},
                     {"warps_per_sm", {8, 12, 16}, "warps that a multiprocessor has registers for"},
                     {"keys", {16, 32}, "keys in flight per warp"},
                     kCombine,
                     pdl_parameter()},
      .constraints =
          {kGroupRule, "kv_dtype < 2 || arch >= 89", "warps_per_sm % warps == 0",
           // registers of what is in flight, of q and of the result
           "keys * " + kCacheRow +
               " / 64 + kv_scale * keys / 2 + head_dim / 4 * (2 + (q_heads > 8 * kv_heads)) <= 2048 / "
               "warps_per_sm - 40",
           merge_rule("q_heads / kv_heads"), "splits == 1 || splits * warps * keys <= 2 * context",
           "combine == 0 || (splits > 1 && splits <= 16 && (combine == 2 || arch >= 90))", kPostedRule,
           "pdl == 0 || arch >= 90",
           // enough warps for the device, but few waves
           "splits * batch * kv_heads * warps <= 64 * sms * warps_per_sm / 8 || splits == 1",
           "splits * batch * kv_heads * warps * 2 >= sms * warps_per_sm || splits * warps * keys >= context",
           "splits % 33 != 0 || sms % 33 == 0", "splits % 27 != 0 || sms % 27 == 0"},
      .dtypes = {DType::fp16, DType::bf16},
      .stages = {ring_stage("attention_decode/mma_direct.cu",
                            "attention_decode_mma_direct<" + kDecodeProblem +
                                ", {warps}, {warps_per_sm}, {keys}, {splits}, {combine}>",
                            direct_rings)},
      .workspace_bytes = ring_workspace(direct_rings),
      .work_distribution = ring_work(direct_rings),
  };
}

}  // namespace

std::vector<Variant> attention_decode_bulk() { return {split_ring(), mma_ring(), mma_direct()}; }

}  // namespace warptune
