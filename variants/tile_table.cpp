#include "variants/tile_table.h"

namespace warptune {
namespace {

const std::string kH200 = "NVIDIA H200 with head_dim 64 and 128";

/// Query heads of a group that share a block, as many as their sums leave registers for.
const std::string kHeadsPerBlock =
    "heads_per_block=q_heads/kv_heads<=4?q_heads/kv_heads:((q_heads/kv_heads)%4==0?4:q_heads/kv_heads)";
/// Bytes of a cached row.
const std::string kRowBytes = "head_dim*(kv_dtype==0?dtype_bytes:1)";
/// 16 bytes of it per lane.
const std::string kLanes = "threads_per_key<=" + kRowBytes + "/16 threads_per_value=threads_per_key";
/// 64 KB in flight per SM with tiles of 32 keys (16 of the longest rows).
const std::string kInFlight = "warps=" + kRowBytes + "<256?8:4 loads_in_flight<=" + kRowBytes + "<=64?2:1";
/// The rows of a tile: the queries of a head, or of the heads that share keys where they are few.
const std::string kPack = "pack_gqa=q_heads>kv_heads&&score_bias==0&&dropout==0",
                  kRows = "(pack_gqa==1?q_len*q_heads/kv_heads:q_len)",
                  kBlocks = "(batch*(pack_gqa==1?kv_heads:q_heads)*max(1,rint(" + kRows + "/tile_m)))";
/// Weight rows per SM. Texts of configurations have the numbers of labels.
std::string rows_per_sm(const std::string& swiglu) { return "((epilogue==" + swiglu + "?2:1)*out/sms)"; }
const std::string kRowsPerSm = rows_per_sm("2");
/// The smallest work tile of wgmma_packed that holds the rows of an SM, or the largest.
std::string wgmma_rows() {
  std::string rows = "256";
  for (const int tile : {192, 160, 128, 112, 96, 64}) {
    const std::string number = std::to_string(tile);
    const std::string is_legal = tile == 112 ? "&&epilogue!=2" : "";  // gates and ups are whole fragments
    rows = kRowsPerSm + "<=" + number + is_legal + "?" + number + ":" + rows;
  }
  return rows;
}
/// A value by the rows of an SM: that of the first pair whose number is not exceeded, or `beyond`.
std::string by_rows(const std::vector<std::pair<int, int>>& values, int beyond) {
  std::string text;
  for (const auto& [most, value] : values)
    text += kRowsPerSm + "<=" + std::to_string(most) + "?" + std::to_string(value) + ":";
  return text + std::to_string(beyond);
}
/// The smallest tile of at most 128 rows that holds the rows of an SM, or an equal part of them.
std::string group_rows() {
  return by_rows({{32, 32}, {48, 48}, {64, 64}, {96, 96}, {128, 128}, {192, 96}, {256, 128}}, 96);
}

Tile tile(std::string op, std::string variant, Expression when, std::string config, std::string source,
          std::string measured_on = {}) {
  return {std::move(op),     std::move(variant), std::move(when),
          std::move(config), std::move(source),  std::move(measured_on)};
}

}  // namespace

std::vector<Tile> tile_rows() {
  const std::string wgmma = "consumers=2 tile_n<=128 stages<=2 pingpong=1 l2_swizzle<=32",
                    flash = " raster_order=causal>0&&q_len>tile_m splits=1 pack_gqa=0 shared_layout=0",
                    split_kv =
                        "block=128 " + kLanes + " " + kHeadsPerBlock +
                        " splits<=8*sms*heads_per_block/(batch*q_heads) combine_block=128 key_load_bytes=16 "
                        "append_store=element",
                    among = "among the fastest in results/h200",
                    two_h100 = "the fastest of docs/lessons/all_reduce.md, on two H100",
                    quantized_h100 = "among the fastest in results/h100/evidence/linear_quantized.csv",
                    quantized_h200 = "among the fastest in results/h200/evidence/linear_quantized.csv",
                    quantized_sm_80 = "among the fastest in results/h200/evidence/sm_80_quantized.csv",
                    packed_gemv = "blocks_per_sm=1 warps<=16 tiles<=2 stages<=3 pdl<=1";
  std::vector<Tile> rows = {
      // Prompts
      tile("attention_prefill", "flash_wgmma",
           "has_wgmma && q_len > 64 && (head_dim == 64 || head_dim == 128) && page_size + window + dropout "
           "== 0 && score_bias == none",
           wgmma, among, kH200),
      tile("attention_prefill", "flash_wgmma", "has_wgmma && q_len > 64 && head_dim <= 128", wgmma,
           "FlashAttention-3's 128 x 128 of head_dim 128"),
      tile("attention_prefill", "flash_wgmma", "has_wgmma && q_len > 64",
           "consumers=2 tile_n<=80 stages=1 pingpong=1 l2_swizzle<=32",
           "FlashAttention-3's 128 x 80 of head_dim 256"),
      tile("attention_prefill", "flash_mma", "q_len > 64 && head_dim <= 64 && dropout == 0",
           "tile_m=128 tile_n=64 warps=4 stages=2 q_in_regs=0" + flash,
           "FlashAttention-2's 128 x 64 of head_dim 64 with dropout, 4 warps; its 128 x 128 spills here"),
      tile("attention_prefill", "flash_mma", "q_len > 64 && head_dim <= 128 && dropout == 0",
           "tile_m=128 tile_n=32 warps=4 stages=2 q_in_regs=0" + flash,
           "FlashAttention-2's 128 x 32 of head_dim 128 with dropout, 4 warps; its 128 x 64 spills here"),
      tile("attention_prefill", "flash_mma", "q_len > 64 && head_dim > 128",
           "tile_m=128 tile_n=64 warps=8 stages=1 q_in_regs=0" + flash,
           "FlashAttention-2's 128 x 64 of head_dim 256 on the A100, 8 warps"),
      tile("attention_prefill", "flash_mma", "q_len > 64 && head_dim > 128",
           "tile_m=128 tile_n<=32 warps=8 stages=2 q_in_regs=0" + flash,
           "FlashAttention-2's 128 rows and 8 warps of head_dim 256 on the A100, half the keys"),
      tile("attention_prefill", "flash_mma", "q_len > 64",
           "tile_m=64 tile_n<=64 warps=4 stages<=2 q_in_regs<=1" + flash,
           "FlashAttention-2's 64 x 64 of head_dim 256 on the H100, 4 warps: the fewest registers"),
      // Few queries over a long cache
      tile("attention_prefill", "flash_mma", "q_len <= 64",
           kPack + " tile_m<=" + kRows +
               "<=16?16:64 warps=tile_m/16 tile_n<=head_dim<=128?64:32 stages=2 q_in_regs=head_dim<=128 "
               "raster_order=0 splits<=8*sms/(warps*" +
               kBlocks + ") shared_layout=0",
           "FlashInfer's tiles of 16 or 64 rows; splits for 8 warps per multiprocessor"),
      // Decoding
      tile("attention_decode", "fixed_split", "deterministic",
           "block=128 keys_per_split=256 " + kLanes + " unroll=4 stages=1 " + kHeadsPerBlock +
               " pdl=0 combine=kernel combine_block=128",
           "FlashInfer's 128 threads, 16 bytes per lane and 256 keys per split"),
      tile("attention_decode", "mma_project", "epilogue == project",
           "tile_kv<=32 splits<=context/(8*tile_kv) rows<=32 pdl=1", among, kH200),
      tile("attention_decode", "vectorized", "epilogue == project",
           "block=256 " + kLanes + " unroll<=4 pdl=0", "FlashInfer's 16 bytes per lane; one head per block"),
      tile("attention_decode", "pipelined", "has_bulk_copy && q_heads == kv_heads && batch * kv_heads >= sms",
           "splits=1 heads_per_block=1 warps=4 tile_kv=16 stages=3 l2_prefetch<=1 combine=last_block pdl=1",
           among, kH200),
      tile("attention_decode", "mma_pipelined", "has_bulk_copy && batch * kv_heads >= sms",
           "splits=1 tile_kv<=32 stages<=3 " + kInFlight + " l2_prefetch<=1 combine=last_block pdl=1", among,
           kH200),
      tile("attention_decode", "mma_direct", "has_bulk_copy && context <= (q_heads > kv_heads ? 1024 : 256)",
           "splits<=q_heads>kv_heads?sms/(batch*kv_heads):1 warps=q_heads>kv_heads&&batch*kv_heads>8?4:8 "
           "warps_per_sm=8 tile_kv=32 combine<=cluster pdl=1",
           among, kH200),
      tile("attention_decode", "pipelined", "has_bulk_copy && q_heads == kv_heads && context <= 1024",
           "splits<=2*sms/(batch*kv_heads) heads_per_block=1 warps=4 tile_kv=16 stages=2 l2_prefetch=0 "
           "combine<=cluster pdl=1",
           among, kH200),
      tile("attention_decode", "pipelined", "has_bulk_copy && q_heads == kv_heads",
           "splits<=1.5*sms/(batch*kv_heads) heads_per_block=1 warps<=8 tile_kv=16 stages<=3 l2_prefetch<=1 "
           "combine<=ll pdl=1",
           among, kH200),
      tile("attention_decode", "mma_pipelined", "has_bulk_copy",
           "splits<=sms/(batch*kv_heads) tile_kv<=32 stages<=3 " + kInFlight +
               " l2_prefetch<=1 combine<=splits>=8?1:3 pdl=1",
           among, kH200),
      tile("attention_decode", "mma_direct", "q_heads > kv_heads",
           "warps=batch*kv_heads==1?8:4 splits<=8*sms/(batch*kv_heads*warps) warps_per_sm=8 tile_kv=16 "
           "combine<=ll pdl=0",
           "tensor cores for a group of heads and 4 warps as FlashInfer; splits for 8 warps per "
           "multiprocessor"),
      tile("attention_decode", "mma", "q_heads >= 4 * kv_heads",
           "warps=4 splits<=2*sms/(batch*kv_heads) tile_kv<=32 stages=2 pdl=0 combine=kernel "
           "combine_block=128",
           "tensor cores for a group of heads and 4 warps as FlashInfer; splits for two blocks per "
           "multiprocessor"),
      tile("attention_decode", "vectorized", "q_heads > kv_heads && kv_dtype != same && head_dim % 64 != 0",
           "block=256 " + kLanes + " unroll<=4 pdl=0",
           "FlashInfer's 16 bytes per lane; one head per block: 8-bit codes take the registers of more"),
      tile("attention_decode", "split_kv", "has_bulk_copy == 0",
           "unroll<=4 stages=3 pdl=0 " + split_kv + " combine<=last_block",
           "FlashInfer's 128 threads and 16 bytes per lane, two tiles in flight; splits for 8 blocks per "
           "multiprocessor"),
      tile("attention_decode", "split_kv", "has_bulk_copy",
           "unroll=4 stages=1 pdl=1 " + split_kv + " combine=kernel",
           "FlashInfer's 128 threads and 16 bytes per lane; splits for 8 blocks per multiprocessor"),
      tile("attention_decode", "vectorized", 1, "block=256 " + kLanes + " unroll<=4 pdl=0",
           "FlashInfer's 16 bytes per lane; one head per block: any group of heads"),
      // Few tokens: streams of weights
      tile("linear", "gemv_mma", "has_bulk_copy && tokens <= 4",
           "blocks_per_sm=1 rows<=8 tile_k<=2048 stages<=6 pdl<=1", among, kH200),
      tile("linear", "gemv_bulk_copy", "has_bulk_copy && tokens <= 4",
           "blocks_per_sm=1 rows<=4 tile_k=512 stages=3 register_tiles=0 stagger=1 warps<=16 pdl<=1", among,
           kH200),
      tile("linear", "gemv_cp_async", "tokens <= 4 && epilogue == argmax",
           "grid_blocks=sms warps=16 stages<=4 unroll<=2 pdl<=1",
           "64 KB in flight per multiprocessor; the argmax of gemv_vectorized combines many blocks"),
      tile("linear", "gemv_vectorized", "tokens <= 4",
           "warps=8 warps_per_row=8 rows<=4 unroll<=in>=4096?2:1 pdl<=1",
           "most often the fastest of the variants without bulk copies in results/h200"),
      tile("linear", "mma_bulk_copy",
           "has_bulk_copy && tokens > 4 && (tokens <= 16 || (tokens <= 32 && prologue != none))",
           "blocks_per_sm=1 warps_m=1 warps_k=4 rows<=32 tile_k<=256 stages<=tokens<=16?8:6 resident_x=0 "
           "cluster=1 pdl<=1",
           "the fastest or near it on most shapes of results/h200/linear_stream.csv", kH200),
      tile("linear", "wgmma_streaming",
           "has_wgmma && tokens > 1 && tokens <= 64 && (tokens > 16 || prologue == rms_scale || epilogue == "
           "add_rms)",
           "rows<=out<=64*sms?64:128 tile_k<=tokens<=32?128:64 stages<=12 warpgroups<=1 cluster_k<=2 "
           "cluster_m=1 evict_first=1 persistent=1 pdl<=1",
           "near the fastest of results/h200/linear_stream.csv", kH200),
      tile("linear", "cublaslt", "tokens > 4", "algo=0", "the first choice of the library's heuristic"),
      tile("linear", "mma_cp_async", "4 < tokens <= 32",
           "blocks_per_sm=1 warps_m=1 warps_k=4 rows<=32 tile_k<=256 stages<=4 resident_x=0 splits=1",
           "as mma_bulk_copy, with less shared memory"),
      tile("linear", "mma_cp_async", "32 < tokens <= 64 && " + rows_per_sm("swiglu") + " <= 64",
           "blocks_per_sm=1 warps_m<=2 warps_k<=2 rows<=64 tile_k<=128 stages<=4 resident_x=0 "
           "splits<=" +
               kRowsPerSm + "<=36?2:1",
           "an H100 as sm_80: a group of rows per block, half of K each where rows are few"),
      tile("linear", "mma_cp_async", "32 < tokens <= 64",
           "blocks_per_sm=1 warps_m<=4 warps_k=1 rows<=prologue==1?128:1.4*" + kRowsPerSm +
               " tile_k<=128 stages<=3 resident_x=0 splits=1",
           "an H100 as sm_80: a group of rows per block"),
      tile(
          "linear", "wgmma", "has_wgmma && tokens >= 128",
          "tile_m=128 tile_n=tokens*out<24576*sms?128:256 stages<=tile_n==128?6:4 cluster<=2 group_m<=8 "
          "pdl<=1",
          "CUTLASS's cooperative 128 x 256 x 64 of sm_90 in clusters of two, smaller where it fills few SMs"),
      tile("linear", "mma", "tokens > 4",
           "tile_m<=128 tile_n<=tokens<=64?64:128 tile_k<=tokens<=64?64:32 warps_m<=2 warps_n=4 stages<=5 "
           "pdl<=1",
           "CUTLASS's 128 x 128 x 32 of sm_80; longer steps and more stages of the smaller tiles of few "
           "tokens"),
      // Quantized weights
      tile("linear", "gemv_packed_bulk_copy",
           "has_bulk_copy && tokens == 1 && weights in [int8, fp8, q5_k, q6_k]",
           "blocks_per_sm<=2 warps<=16 tiles=1 stages<=4 cluster_k=1 pdl<=1", quantized_h200),
      tile("linear", "gemv_packed_cp_async", "tokens <= 8 && weights in [int4, q4_k] && in * tokens <= 65536",
           packed_gemv, quantized_h200),
      tile("linear", "gemv_packed_bulk_copy", "has_bulk_copy && tokens <= 8",
           "blocks_per_sm=1 warps<=16 tiles=1 stages<=6 cluster_k<=in*tokens>65536?2:1 pdl<=1",
           quantized_h200),
      tile("linear", "gemv_packed_cp_async",
           "tokens <= 4 || (tokens <= 8 && " + rows_per_sm("swiglu") + " <= 48)", packed_gemv,
           quantized_sm_80),
      // A group of rows per block, or several of about 96.
      tile("linear", "mma_packed_cp_async",
           "has_wgmma == 0 && 16 < tokens <= 32 && 128 < " + rows_per_sm("swiglu") + " <= 256",
           "blocks_per_sm=1 warps_m<=8 warps_k=1 rows=256 tile_k<=256 stages<=3 resident_x=no one_group<=1 "
           "splits=1 pdl<=1",
           quantized_sm_80),
      tile("linear", "mma_packed_cp_async", "has_wgmma == 0 && tokens <= 32",
           "blocks_per_sm=1 warps_m<=32<" + kRowsPerSm +
               "<=48?1:2 warps_k<=tokens<=16?4:2 rows<=" + group_rows() +
               " tile_k<=512 stages<=tokens<=16?4:2 resident_x=no one_group<=1 splits=1 pdl<=1",
           quantized_sm_80),
      tile("linear", "mma_packed_cp_async",
           "has_wgmma == 0 && tokens <= 64 && in > 8192 && " + rows_per_sm("swiglu") + " <= 48",
           "blocks_per_sm=1 warps_m=2 warps_k<=" + by_rows({{32, 4}}, 2) +
               " rows=" + by_rows({{32, 64}}, 96) + " tile_k<=" + by_rows({{32, 512}}, 128) +
               " stages<=" + by_rows({{32, 2}}, 6) + " resident_x=no one_group<=1 splits=2 pdl<=1",
           quantized_sm_80),
      tile("linear", "mma_packed_cp_async", "has_wgmma == 0 && tokens <= 64",
           "blocks_per_sm=1 warps_m<=" + by_rows({{48, 1}, {96, 2}, {192, 4}, {256, 8}}, 2) +
               " warps_k<=weights==5?2:" + by_rows({{96, 4}, {192, 2}, {256, 1}}, 2) + " rows<=" +
               by_rows({{32, 32}, {48, 48}, {64, 64}, {96, 96}, {128, 128}, {192, 192}, {256, 256}}, 96) +
               " tile_k<=" + by_rows({{64, 512}, {128, 256}, {192, 128}}, 256) + " stages<=" +
               by_rows({{64, 2}, {128, 3}, {192, 4}}, 2) + " resident_x=no one_group<=1 splits=1 pdl<=1",
           quantized_sm_80),
      tile("linear", "mma_packed_cp_async", "has_wgmma == 0 && tokens <= 64",
           "blocks_per_sm=1 warps_m<=4 warps_k=1 rows<=128 tile_k<=256 stages<=4 resident_x=no one_group<=1 "
           "splits=1 pdl<=1",
           "a smaller tile, for formats whose blocks warps do not share"),
      // Two blocks split K, each with half of x.
      tile("linear", "wgmma_packed",
           "has_wgmma && 8 < tokens <= 64 && (weights == int4 || (tokens > 32 && weights in [int8, fp8])) && "
           "in % 512 == 0 && 64 < " +
               rows_per_sm("swiglu") + " <= 96",
           "tile_tokens<=64 rows=192 tile_k<=tokens<=32?256:128 stages=4 warpgroups=3 warpgroups_k=1 "
           "cluster_k=2 cluster_m=1 persistent=1 pdl<=1",
           quantized_h200),
      tile("linear", "wgmma_packed",
           "has_wgmma && tokens > 8 && tokens <= 16 && weights in [int4, q4_k, nvfp4, mxfp4] && "
           "in % 512 == 0 && " +
               rows_per_sm("swiglu") + " <= 96",
           "tile_tokens=16 rows=" + by_rows({{64, 64}}, 96) +
               " tile_k=512 stages<=in<=4096?4:6 warpgroups=4 warpgroups_k=4 cluster_k<=" +
               by_rows({{8, 4}, {32, 2}}, 1) + " cluster_m=1 persistent=1 pdl<=1",
           quantized_h200),
      tile("linear", "wgmma_packed",
           "has_wgmma && tokens > 8 && (tokens <= 16 || weights in [int8, fp8]) && in % 256 == 0 && " +
               rows_per_sm("swiglu") + " <= (tokens <= 16 ? 96 : 48)",
           "tile_tokens<=64 rows=" + by_rows({{64, 64}}, 96) +
               " tile_k=256 stages<=tokens<=16?8:4 warpgroups=" + by_rows({{64, 2}}, 4) +
               " warpgroups_k=2 cluster_k<=" + by_rows({{8, 4}, {32, 2}}, 1) +
               " cluster_m=1 persistent=1 pdl<=1",
           quantized_h200),
      tile("linear", "wgmma_packed", "has_wgmma && tokens > 1 && tokens <= 64",
           "tile_tokens<=64 rows=" + wgmma_rows() +
               " tile_k<=256 stages<=12 warpgroups<=4 warpgroups_k=1 cluster_k<=" +
               by_rows({{8, 4}, {32, 2}}, 1) + " cluster_m=1 persistent=1 pdl<=1",
           quantized_h200),
      tile("linear", "wgmma_packed", "has_wgmma && tokens > 64",
           "tile_tokens<=tokens<=1024?128:256 rows=128 tile_k<=128 stages<=5 warpgroups=2 "
           "warpgroups_k=1 cluster_k=1 cluster_m<=2 persistent=1 pdl=0",
           quantized_h200),
      tile(
          "linear", "wgmma_fp8", "has_wgmma && activations == fp8",
          "tile_n=out>=8192&&tokens>=1024?192:128 stages<=6 cluster<=2 cluster_k=1 group_m<=tokens>=2048?8:4 "
          "promote=128 pingpong=0 pdl<=1",
          quantized_h100),
      tile("linear", "naive", "activations == fp8 && has_wgmma == 0", "block=256",
           "no other variant without wgmma"),
      tile("linear", "mma_packed", 1,
           "tile_m<=128 tile_n=128 tile_k<=128 warps_m<=2 warps_n=4 stages<=3 splits=1",
           "CUTLASS's 128 x 128 of sm_80"),
      tile("linear", "host_blocked", "tokens * in * out >= 262144", "block=8 threads<=sms",
           "all cores of a host, where a launch takes longer than starting threads"),
      // Rows of hidden states and logits
      tile("rms_norm", "vectorized", 1, "block<=tokens<=64?hidden/8:256 rows=1 vec<=4 cache_hint=none pdl<=1",
           among),
      tile("add_rms_norm", "vectorized", 1,
           "block<=tokens>16&&tokens<=256?hidden/4:256 rows=1 vec<=tokens<=16?8:4 cache_hint=none pdl<=1",
           among),
      tile("swiglu", "vectorized", 1,
           "block=tokens<=16?128:512 unroll<=tokens<=16?1:2 vec<=tokens<=16?2:4 cache_hint=none pdl<=1",
           among),
      tile("rope_append", "vectorized", 1,
           "block=64 vec=4 heads_per_thread<=tokens<=16?1:(tokens<=256?2:4) cache_hint<=1 pdl<=1", among),
      tile("embedding", "vectorized", 1,
           "block=128 unroll<=tokens<=256?1:2 vec<=tokens<=256?4:8 cache_hint=none", among),
      tile("argmax", "vectorized", 1, "block=128 blocks_per_row<=4*sms/batch unroll=4 pdl<=1",
           "four blocks per multiprocessor; 128 threads and 4 loads are " + among),
      tile("top_k", "vectorized", 1,
           "block=256 blocks_per_row<=min(32,max(vocab*dtype_bytes/8192,4*sms/batch)) pdl<=1",
           "four blocks per multiprocessor, 8 to 32 KB of logits per block; " + among),
      tile("softmax", "vectorized", 1, "block<=kv_len/2 rows<=kv_len<=256?4:1 vec<=4 cache_hint=none",
           "a vector or two per thread, several short rows per block"),
      tile("logits_dot_v", "split_kv", 1,
           "block=256 keys_per_split=128 threads_per_value<=4 unroll=2 heads_per_block=1 pdl=0", among),
      tile("padding_offset", "scan", 1, "block=128 blocks=1", among),
      tile("remove_padding", "vectorized", 1, "block=256 unroll=1 vec<=4 cache_hint=none", among),
      tile("restore_padding", "vectorized", 1, "block=256 unroll=1 vec<=4 cache_hint=none", among),
      tile("causal_mask", "vectorized", 1, "block=256 unroll=1 vec<=8 cache_hint=none",
           "16 bytes per thread"),
      tile("advance", "naive", 1, "block=32 pdl<=1", among),
      // Between GPUs
      tile("all_reduce", "one_shot", 1, "block<=bytes<=524288?128:256 per_thread=1 pdl<=1", two_h100),
      tile("all_gather", "one_shot", 1, "block<=128 per_thread=1 pdl<=1", two_h100),
      tile("all_reduce_add_rms_norm", "one_shot", "has_clusters && hidden >= 2048",
           "block=128 cluster=hidden>=8192&&tokens<=4?8:(hidden>=4096?4:2) pdl<=1", two_h100),
      tile("all_reduce_add_rms_norm", "one_shot", 1,
           "block<=hidden*dtype_bytes/16<=512?hidden*dtype_bytes/16:512 cluster=1 pdl<=1", two_h100),
  };
#if !WARPTUNE_HAS_CUBLASLT
  std::erase_if(rows, [](const Tile& row) { return row.variant == "cublaslt"; });
#endif
  return rows;
}

std::vector<Problem> tile_examples(const OpTable& ops) {
  std::vector<Problem> examples;
  const auto add = [&](const char* op, const Assignment& dims) {
    const Op& declared = ops.find(op).op;
    examples.push_back(declared.problem(dims, declared.dtypes.back()));
  };
  const auto prefill = [&](std::int64_t head_dim, std::int64_t q_len, std::int64_t kv_len,
                           std::int64_t kv_heads, const Assignment& features = {}) {
    Assignment dims{{"batch", 1},    {"q_len", q_len},       {"kv_len", kv_len},
                    {"q_heads", 32}, {"kv_heads", kv_heads}, {"head_dim", head_dim}};
    for (const auto& f : features) dims.set(f.name, f.value);
    add("attention_prefill", dims);
  };
  const auto decode = [&](std::int64_t head_dim, std::int64_t batch, std::int64_t kv_heads,
                          std::int64_t context, const Assignment& features = {}) {
    Assignment dims{{"batch", batch},
                    {"q_heads", 32},
                    {"kv_heads", kv_heads},
                    {"head_dim", head_dim},
                    {"context", context}};
    for (const auto& f : features) dims.set(f.name, f.value);
    add("attention_decode", dims);
  };
  for (const std::int64_t tokens : {1, 4})
    for (const auto& [in, out] :
         {std::pair{4096, 12288}, {4096, 4096}, {11008, 4096}, {14336, 4096}, {4096, 128256}, {2048, 5632}})
      add("linear", Assignment{{"tokens", tokens}, {"in", in}, {"out", out}});
  for (const std::int64_t tokens : {8, 64, 512, 4096})
    add("linear", Assignment{{"tokens", tokens}, {"in", 4096}, {"out", 4096}});
  for (const std::int64_t tokens : {1, 8, 64})  // norm and SwiGLU fused
    add("linear",
        Assignment{{"tokens", tokens}, {"in", 4096}, {"out", 11008}, {"prologue", 1}, {"epilogue", 2}});
  for (const std::int64_t tokens : {1, 8, 16, 64, 512})
    for (const auto& [weights, group] : {std::pair{2, 128},
                                         {4, 16},
                                         {5, 32},
                                         {6, 32},
                                         {7, 16},
                                         {8, 32}})  // int4, nvfp4, mxfp4, q4_k, q6_k, q5_k
      add("linear",
          Assignment{
              {"tokens", tokens}, {"in", 4096}, {"out", 4096}, {"weights", weights}, {"group", group}});
  for (const std::int64_t tokens : {1, 64})
    add("linear",
        Assignment{{"tokens", tokens}, {"in", 11008}, {"out", 4096}, {"weights", 2}, {"group", 128}});
  add("linear", Assignment{{"tokens", 64}, {"in", 4096}, {"out", 4096}, {"weights", 3}});
  for (const std::int64_t out : {12288, 22016})
    add("linear", Assignment{{"tokens", 32}, {"in", 4096}, {"out", out}, {"weights", 2}, {"group", 128}});
  add("linear", Assignment{{"tokens", 64}, {"in", 4096}, {"out", 14336}, {"weights", 6}, {"group", 32}});
  for (const std::int64_t tokens : {128, 512, 4096})
    add("linear",
        Assignment{{"tokens", tokens}, {"in", 4096}, {"out", 4096}, {"weights", 3}, {"activations", 1}});
  for (const std::int64_t tokens : {1, 8})  // argmax fused
    add("linear", Assignment{{"tokens", tokens}, {"in", 4096}, {"out", 128256}, {"epilogue", 3}});
  for (const std::int64_t tokens : {1, 64, 2048}) {
    const Assignment rows{{"tokens", tokens}, {"hidden", 4096}};
    add("rms_norm", rows);
    add("add_rms_norm", rows);
    add("embedding", Assignment{{"tokens", tokens}, {"vocab", 32000}, {"hidden", 4096}});
    add("swiglu", Assignment{{"tokens", tokens}, {"intermediate", 11008}});
    for (const std::int64_t hidden : {1024, 4096, 8192})
      add("all_reduce_add_rms_norm", Assignment{{"tokens", tokens}, {"hidden", hidden}, {"ranks", 2}});
    add("all_reduce", Assignment{{"bytes", 8192 * tokens}, {"ranks", 2}});
    add("all_gather", Assignment{{"tokens", tokens}, {"columns", 64128}, {"ranks", 2}});
    add("rope_append", Assignment{{"tokens", tokens}, {"q_heads", 32}, {"kv_heads", 8}, {"head_dim", 128}});
  }
  for (const std::int64_t batch : {1, 64}) {
    add("argmax", Assignment{{"batch", batch}, {"vocab", 128256}});
    add("top_k", Assignment{{"batch", batch}, {"vocab", 128256}, {"k", 50}});
    add("padding_offset", Assignment{{"batch", batch}, {"max_q_len", 64}});
    const Assignment padded{{"batch", batch}, {"max_q_len", 64}, {"hidden", 4096}};
    add("remove_padding", padded);
    add("restore_padding", padded);
    add("causal_mask", Assignment{{"batch", batch}, {"max_q_len", 64}, {"max_k_len", 256}});
    add("advance", Assignment{{"batch", batch}});
  }
  for (const std::int64_t kv_len : {64, 4096})
    add("softmax", Assignment{{"batch", 1}, {"q_heads", 32}, {"q_len", 64}, {"kv_len", kv_len}});
  add("logits_dot_v",
      Assignment{{"batch", 1}, {"q_heads", 32}, {"kv_heads", 8}, {"head_dim", 128}, {"context", 4096}});
  for (const std::int64_t head_dim : {64, 80, 96, 128, 256}) {
    prefill(head_dim, 2048, 2048, 32);
    prefill(head_dim, 8, 8192, 8);
  }
  prefill(128, 2048, 2048, 32, {{"dropout", 10}, {"score_bias", 1}});
  prefill(64, 2048, 2048, 32, {{"dropout", 10}});
  for (const std::int64_t head_dim : {128, 256})
    prefill(head_dim, 512, 8192, 8, {{"page_size", 16}, {"window", 4096}});
  for (const std::int64_t head_dim : {64, 80, 96, 128, 256}) {
    decode(head_dim, 1, 32, 512);
    decode(head_dim, 1, 32, 8192);
    decode(head_dim, 1, 8, 32768);
    decode(head_dim, 64, 8, 4096);
  }
  decode(128, 64, 32, 1024);
  decode(128, 1, 8, 512);
  decode(128, 1, 1, 32768);
  decode(128, 1, 8, 4096, {{"kv_dtype", 1}, {"page_size", 64}, {"append", 1}});
  for (const std::int64_t head_dim : {64, 80, 128}) decode(head_dim, 8, 8, 4096, {{"kv_dtype", 2}});
  decode(128, 8, 8, 4096, {{"deterministic", 1}});
  for (const std::int64_t batch : {1, 4})
    decode(64, batch, 8, 512, {{"append", 1}, {"epilogue", 3}, {"hidden", 2048}});
  return examples;
}

}  // namespace warptune
