// Decode attention variants whose epilogue is BlockCombine: bulk-copy pipelines (sm_90) and mma_direct. And
// mma_project, whose main loop is that of mma_direct.
#include <algorithm>

#include "kernels/attention_decode/args.h"
#include "variants/attention_decode/attention_decode.h"
#include "variants/helpers/streaming.h"
#include "variants/plain.h"

namespace warptune {
namespace {

/// Shared memory, registers and workspace of a kernel that ends with BlockCombine (kernels' combine.cuh),
/// with a pipeline of KV tiles per warp or without one.
struct Footprint {
  std::int64_t heads;               // query heads per block
  std::int64_t tile_bytes;          // a KV tile with the scales of its rows
  std::int64_t row_bytes;           // of the caches
  std::int64_t query_bytes = 0;     // append: rotated queries in shared memory
  bool warp_specialized = false;    // one persistent block per SM with a producer warp
  int registers = 0;                // per thread, an estimate; 0: not known
  std::int64_t reserved_bytes = 0;  // shared memory left to the driver and the compiler
  std::int64_t threads_per_sm = 0;  // that the launch bounds ask for; 0: not known

  std::int64_t shared_bytes(const Problem& p, const Config& c) const {
    const std::int64_t stages = c["warps"] * c.get("stages", 0), row = 4 * (p["head_dim"] + 2);
    const std::int64_t append =  // new rows, angles
        p["append"] ? 2 * row_bytes + query_bytes + 4 * p["head_dim"] + 64 : 0;
    const std::int64_t many_splits = c["splits"] > 16 ? 4 * heads * c["splits"] + 16 * 32 * c["warps"] : 0;
    const std::int64_t partials =
        (c["warps"] + combines_by(c, Combine::cluster)) * heads * row + many_splits + 80;  // alignment
    if (warp_specialized) return stages * (tile_bytes + 32) + append + partials;
    return std::max(stages * (tile_bytes + 8) + append, partials);
  }
  std::int64_t workspace_bytes(const Problem& p, const Config& c) const {
    const std::int64_t work_counter = warp_specialized ? 16 : 0;
    if (c["splits"] == 1 || combines_by(c, Combine::cluster)) return work_counter;
    return p["batch"] * p["q_heads"] * (c["splits"] * (p["head_dim"] + 2) + 1) * 4 + work_counter;
  }
  /// What ptxas allocates: it stays 10 below the estimate, and within the launch bounds.
  int launch_registers() const {
    return registers == 0 ? 0
                          : static_cast<int>(std::min<std::int64_t>(registers - 10, 65536 / threads_per_sm));
  }
  LaunchResources resources(const Problem& p, const Config& c) const {
    return {.shared_bytes = shared_bytes(p, c) + reserved_bytes,
            .registers = registers,
            .threads_per_sm = threads_per_sm};
  }
  std::int64_t work_tiles(const Problem& p, const Config& c) const {
    return c["splits"] * (p["q_heads"] / heads) * p["batch"];
  }
  WorkDistribution work_distribution(const Problem& p, const Config& c) const {
    WorkDistribution work = round_robin_keys(p, c["splits"] * c["warps"], c["tile_kv"]);
    if (warp_specialized) work.tiles = static_cast<double>(work_tiles(p, c));
    work.registers = launch_registers();
    return work;
  }
  Launch launch(const Problem& p, const Config& c) const {
    Launch launch{
        .grid = {as_unsigned(c["splits"]), as_unsigned(p["q_heads"] / heads), as_unsigned(p["batch"])},
        .block = {as_unsigned(32 * c["warps"])},
        .shared_bytes = shared_bytes(p, c),
        .pdl = c["pdl"] != 0,
        .cluster = combines_by(c, Combine::cluster) ? as_unsigned(c["splits"]) : 1u};
    if (warp_specialized) {
      launch.max_blocks = work_tiles(p, c);
      launch.grid = {1};
      launch.per_sm = true;
      launch.block.x += 32;
    }
    return launch;
  }
};

Footprint pipelined_footprint(const Problem& p, const Config& c) {
  return {.heads = c["heads_per_block"],
          .tile_bytes = 2 * c["tile_kv"] * p["head_dim"] * static_cast<std::int64_t>(size_of(p.dtype)),
          .row_bytes = p["head_dim"] * static_cast<std::int64_t>(size_of(p.dtype)),
          .reserved_bytes = 1024};
}
Footprint mma_footprint(const Problem& p, const Config& c) {
  const std::int64_t row = p["head_dim"] * static_cast<std::int64_t>(size_of(cache_dtype(p))),
                     scale = p["kv_dtype"] && p["kv_scale"] ? 4 : 0, heads = p["q_heads"] / p["kv_heads"];
  return {.heads = heads,
          .tile_bytes = 2 * c["tile_kv"] * (row + scale),
          .row_bytes = row,
          .query_bytes = heads * (2 * p["head_dim"] + 64)};
}
/// Registers of the fragments of a KV tile, of q and of the accumulators, and of everything else.
Footprint mma_direct_footprint(const Problem& p, const Config& c) {
  Footprint footprint = mma_footprint(p, c);
  const std::int64_t fragments = c["tile_kv"] * footprint.row_bytes / 64 + p["kv_scale"] * c["tile_kv"] / 2 +
                                 p["head_dim"] / 4 * (2 + (footprint.heads > 8)),
                     rest = 40;
  footprint.registers = static_cast<int>(fragments + rest);
  footprint.threads_per_sm = 32 * c["warps_per_sm"];
  footprint.reserved_bytes = 1024;
  return footprint;
}
Footprint mma_pipelined_footprint(const Problem& p, const Config& c) {
  Footprint footprint = mma_footprint(p, c);
  footprint.warp_specialized = true;
  return footprint;
}

/// Gives a variant its stage and what follows from its Footprint.
template <class F>
Variant with_footprint(Variant variant, std::string file, std::string kernel, F footprint) {
  variant.stages = {{std::move(file), std::move(kernel), [footprint](const Problem& p, const Config& c) {
                       return footprint(p, c).launch(p, c);
                     }}};
  variant.workspace_bytes = [footprint](const Problem& p, const Config& c) {
    return footprint(p, c).workspace_bytes(p, c);
  };
  variant.work_distribution = [footprint](const Problem& p, const Config& c) {
    return footprint(p, c).work_distribution(p, c);
  };
  variant.resources = [footprint](const Problem& p, const Config& c) {
    return footprint(p, c).resources(p, c);
  };
  return variant;
}

const Parameter kL2Prefetch{
    "l2_prefetch", {0, 1}, "tiles per warp that are prefetched to the L2 before pdl_wait()"};

/// The last-block combine of a few splits is slower than the other ways.
const std::string kLastBlockRule = "!(" + combine_is(Combine::last_block) + ") || splits == 1 || splits >= 8";

/// Prefetches of a block are enough to matter, and stay in the L2 until they are read; `row`: bytes of a key.
std::string l2_prefetch_rule(const std::string& row) {
  const std::string bytes = "warps * l2_prefetch * 2 * tile_kv * " + row;
  return "l2_prefetch == 0 || (pdl == 1 && " + bytes + " >= 32000 && " + bytes +
         " <= 264000 && splits * warps * tile_kv * (stages + l2_prefetch) <= context)";
}

Variant pipelined() {
  return with_footprint(
      {.name = "pipelined",
       .idea = "split-KV on CUDA cores, a bulk-copy pipeline of K and V per warp",
       .parameters = {{"splits", {1, 2, 4, 8, 16}, "blocks that share the keys of a sequence"},
                      {"heads_per_block", {1, 2, 4, 8}, "query heads of a group that share a block"},
                      {"warps", {4, 8}, "warps per block"},
                      {"tile_kv", {8, 16}, "keys per tile"},
                      {"stages", {2, 3, 4}, "pipeline stages per warp"},
                      kL2Prefetch,
                      combine_parameter({Combine::last_block, Combine::cluster, Combine::ll}),
                      pdl_parameter()},
       .constraints =
           {plain_problem(attention_decode(), {"style", "scaling"}), "has_bulk_copy", "k_layout == 0",
            "warps * heads_per_block * head_dim <= 4096",
            "head_dim * dtype_bytes == 128 || head_dim * dtype_bytes == 256 || head_dim * dtype_bytes == 512",
            "heads_per_block > 1 || (q_heads / kv_heads) % 2 == 1",
            "(q_heads / kv_heads) % heads_per_block == 0", "heads_per_block * head_dim * dtype_bytes <= 1024",
            "warps * stages * 2 * tile_kv * head_dim * dtype_bytes >= 30000 || warps * stages * tile_kv * "
            "splits >= context",
            "splits == 1 || splits * warps * tile_kv <= 2 * context",
            combine_is(Combine::last_block) + " || (splits > 1 && splits <= (" +
                combine_is(Combine::cluster) + " ? 8 : 16))",
            kLastBlockRule,
            // mma_pipelined serves groups of query heads
            "l2_prefetch == 0 || q_heads == kv_heads", l2_prefetch_rule("head_dim * dtype_bytes"),
            // enough blocks for the device, but few waves
            "splits * batch * q_heads / heads_per_block <= 24 * sms || splits == 1",
            "splits * batch * q_heads / heads_per_block * 2 >= sms || splits >= 16 || splits * warps * "
            "tile_kv >= context"}},
      "attention_decode/pipelined.cu",
      "attention_decode_pipelined<" + kDecodeProblem +
          ", {heads_per_block}, {warps}, {tile_kv}, {stages}, {l2_prefetch}, {splits}, {combine}>",
      pipelined_footprint);
}

/// Problems of the variants that compute a group of query heads on tensor cores.
const std::string kPackedGqaRule =
    kCacheRow +
    " % 128 == 0 && head_dim <= 256 && q_heads <= 16 * kv_heads && k_layout == 0 && deterministic == 0 && "
    "page_size % tile_kv == 0";

/// Shared memory of mma_project: weights of o, or the partial rows of 8 warps and what the cluster exchanges.
std::int64_t project_bytes(const Problem& p, const Config& c) {
  const std::int64_t width = static_cast<std::int64_t>(size_of(p.dtype)), d = p["head_dim"];
  const std::int64_t heads = p["q_heads"] / p["kv_heads"];
  return std::max(c["rows"] * p["q_heads"] * d * width,
                  8 * heads * 4 * (d + 2) + 6 * heads * d + 24 * c["splits"] + 128);
}

Variant mma_pipelined() {
  const std::string tile = "2 * tile_kv * " + kCacheRow, pipeline = "warps * stages * " + tile,
                    in_flight = "warps * loads_in_flight * " + tile;
  return with_footprint(
      {.name = "mma_pipelined",
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
       .constraints =
           {"has_bulk_copy", kNoProjection, kPackedGqaRule, "pdl == 1 || stages == 2",
            l2_prefetch_rule(kCacheRow), "loads_in_flight <= stages",
            // bytes in flight, enough of them and not too many, and bytes of a pipeline
            in_flight + " <= 140000",
            "(" + in_flight + " >= 60000 && " + pipeline +
                " >= 90000) || warps * stages * tile_kv * splits >= context",
            "splits == 1 || splits * warps * tile_kv <= 2 * context",
            "splits > 1 || " + combine_is(Combine::last_block), kLastBlockRule,
            // enough blocks for the device, but few work tiles for each
            "splits * batch * kv_heads <= 8 * sms || splits == 1",
            "splits * batch * kv_heads * 2 >= sms || splits >= 16 || splits * warps * tile_kv >= context"},
       .dtypes = {DType::fp16, DType::bf16}},
      "attention_decode/mma_pipelined.cu",
      "attention_decode_mma_pipelined<" + kDecodeProblem +
          ", {warps}, {tile_kv}, {stages}, {loads_in_flight}, {l2_prefetch}, {splits}, {combine}>",
      mma_pipelined_footprint);
}

Variant mma_direct() {
  return with_footprint(
      {.name = "mma_direct",
       .idea = "split-KV on tensor cores, K and V from global memory directly to mma fragments, packed GQA",
       .parameters = {{"splits", {1, 2, 4, 8, 16, 27, 33, 64}, "blocks that share the keys of a sequence"},
                      {"warps", {4, 8, 16}, "warps per block"},
                      {"warps_per_sm",
                       {8, 12, 16},
                       "warps per SM that the launch bounds reserve registers for"},
                      {"tile_kv", {16, 32}, "keys per tile, all in flight"},
                      combine_parameter({Combine::last_block, Combine::cluster, Combine::ll}),
                      pdl_parameter()},
       .constraints = {kNoProjection, kPackedGqaRule, "kv_dtype < 2 || has_fp8_conversion",
                       "warps_per_sm % warps == 0", "splits == 1 || splits * warps * tile_kv <= 2 * context",
                       combine_is(Combine::last_block) + " || (splits > 1 && splits <= 16 && (" +
                           combine_is(Combine::ll) + " || has_clusters))",
                       kLastBlockRule, "pdl == 0 || has_pdl",
                       // enough warps for the device, but few waves
                       "splits * batch * kv_heads * warps <= 64 * sms * warps_per_sm / 8 || splits == 1",
                       "splits * batch * kv_heads * warps * 2 >= sms * warps_per_sm || splits * warps * "
                       "tile_kv >= context",
                       "splits % 33 != 0 || sms % 33 == 0", "splits % 27 != 0 || sms % 27 == 0"},
       .dtypes = {DType::fp16, DType::bf16}},
      "attention_decode/mma_direct.cu",
      "attention_decode_mma_direct<" + kDecodeProblem +
          ", {warps}, {warps_per_sm}, {tile_kv}, {splits}, {combine}>",
      mma_direct_footprint);
}

Variant mma_project() {
  const std::string blocks = "(hidden / rows)";
  return {.name = "mma_project",
          .idea = "attention as in mma_direct; its rows reach the blocks of the output projection as packets",
          .parameters = {{"splits", {1, 2, 4, 8}, "blocks that share the keys of a KV head: a cluster"},
                         {"tile_kv", {16, 32}, "keys per tile, all in flight"},
                         {"rows", {8, 16, 24, 32}, "output rows per block that projects"},
                         pdl_parameter()},
          .constraints = {"epilogue == " + std::to_string(static_cast<int>(Epilogue::project)),
                          "has_bulk_copy && has_clusters", "batch == 1", kPackedGqaRule,
                          "kv_dtype < 2 || has_fp8_conversion", "q_heads * head_dim % 256 == 0",
                          "hidden % rows == 0", blocks + " % splits == 0", blocks + " <= sms",
                          // all weights are in flight, with room for a block of the next kernel
                          "rows * q_heads * head_dim * dtype_bytes <= 160000", "tile_kv * head_dim <= 2048",
                          "splits == 1 || splits * 8 * tile_kv <= 2 * context", "pdl == 0 || has_pdl"},
          .resources =
              [](const Problem& p, const Config& c) {
                return LaunchResources{.shared_bytes = project_bytes(p, c) + 10000, .threads_per_sm = 512};
              },
          .dtypes = {DType::fp16, DType::bf16},
          .stages = {{"attention_decode/mma_project.cu",
                      "attention_decode_mma_project<" + kDecodeProblem +
                          ", {hidden}, {tile_kv}, {splits}, {rows}>",
                      [](const Problem& p, const Config& c) {
                        return Launch{
                            .grid = {as_unsigned(p["kv_heads"] * c["splits"] + p["hidden"] / c["rows"])},
                            .block = {256},
                            .shared_bytes = project_bytes(p, c),
                            .pdl = c["pdl"] != 0,
                            .cluster = as_unsigned(c["splits"])};
                      }}},
          .workspace_bytes =
              [](const Problem& p, const Config&) {
                return 128 + 4 * p["q_heads"] * p["head_dim"];  // a counter, two buffers of packets
              }};
}

}  // namespace

std::vector<Variant> attention_decode_pipelined() {
  return with_far_positions({pipelined(), mma_pipelined(), mma_direct(), mma_project()});
}

}  // namespace warptune
