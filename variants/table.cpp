#include "variants/table.h"

#include <algorithm>
#include <iterator>

#include "source_hashes.h"
#include "variants/attention_decode/attention_decode.h"
#include "variants/attention_prefill/attention_prefill.h"
#include "variants/library.h"
#include "variants/linear/linear.h"
#include "variants/linear/operands.h"
#include "variants/ops.h"
#include "variants/rope_append/rope_append.h"
#include "variants/tile_table.h"

namespace warptune {

#if !WARPTUNE_HAS_NCCL
std::vector<Variant> all_reduce_nccl() { return {}; }
#endif

namespace {

/// Variants to choose where nothing was measured and no tile fits; an op takes the ones that it has.
const std::vector<Preference> kPreferences = {
    {"split_kv"},   {"flash_mma"},    {"one_shot"}, {"cublaslt"},      {"tiled"},
    {"vectorized"}, {"warp_per_row"}, {"scan"},     {"host_threaded"}, {"host_blocked"}};
const std::vector<Preference> kLinearPreferences = {{"gemv_vectorized", "tokens <= 8"},
                                                    {"gemv_split_k", "tokens <= 8"},
                                                    {"gemv_packed_cp_async"},
                                                    {"mma_packed"}};

const OptionalVariant kCudnn{"cudnn", "this program was built without cuDNN (cmake -DCUDNN_ROOT=FOLDER)"};
const OptionalVariant kNccl{"nccl", "this program was built without NCCL (apt-get install libnccl-dev)"};

OpEntry entry(Op op, std::initializer_list<std::vector<Variant>> variants,
              std::vector<Preference> preferences = {}, std::vector<OptionalVariant> optional = {}) {
  OpEntry e{.op = std::move(op),
            .variants = {},
            .preferences = std::move(preferences),
            .optional_variants = std::move(optional)};
  for (const auto& list : variants) e.variants.insert(e.variants.end(), list.begin(), list.end());
  for (Variant& variant : e.variants)
    if (calls_library(variant))
      variant.library_version = [name = variant.name] { return vendor_library(name); };
  for (const Preference& p : kPreferences)
    if (std::ranges::find(e.variants, p.variant, &Variant::name) != e.variants.end())
      e.preferences.push_back(p);
  const auto sources = std::ranges::find(kVariantSources, e.op.name, &VariantSources::op);
  if (sources != std::end(kVariantSources)) {
    e.host_source_hash = sources->host;
    e.library_source_hash = sources->library;
  }
  return e;
}

std::vector<OpEntry> entries() {
  return {
      entry(embedding(), {embedding_cuda(), embedding_host()}),
      entry(padding_offset(), {padding_offset_cuda(), padding_offset_host()}),
      entry(remove_padding(), {remove_padding_cuda(), remove_padding_host()}),
      entry(restore_padding(), {restore_padding_cuda(), restore_padding_host()}),
      entry(causal_mask(), {causal_mask_cuda(), causal_mask_host()}),
      entry(attention_prefill(),
            {attention_prefill_cuda(), attention_prefill_wgmma(), attention_prefill_vendor(),
             attention_prefill_cudnn(), attention_prefill_host()},
            {}, {kCudnn}),
      entry(rms_norm(), {rms_norm_cuda(), rms_norm_host()}),
      entry(attention_decode(),
            {attention_decode_cuda(), attention_decode_pipelined(), attention_decode_vendor(),
             attention_decode_cudnn(), attention_decode_host()},
            {}, {kCudnn}),
      entry(linear(),
            {linear_cuda(), linear_packed(), unquantized(linear_streaming_mma()), unquantized(linear_wgmma()),
             unquantized(unfused(linear_vendor())), linear_vendor_fp8(), linear_host()},
            kLinearPreferences),
      entry(argmax(), {argmax_cuda(), argmax_host()}),
      entry(top_k(), {top_k_cuda(), top_k_host()}),
      entry(rope_append(), {rope_append_cuda(), rope_append_host()}),
      entry(add_rms_norm(), {add_rms_norm_cuda(), add_rms_norm_host()}),
      entry(swiglu(), {swiglu_cuda(), swiglu_host()}),
      entry(softmax(), {softmax_cuda(), softmax_host()}),
      entry(logits_dot_v(), {logits_dot_v_cuda(), logits_dot_v_host()}),
      entry(advance(), {advance_cuda(), advance_host()}),
      entry(all_reduce(), {all_reduce_cuda(), all_reduce_nccl(), all_reduce_host()}, {}, {kNccl}),
      entry(all_reduce_add_rms_norm(), {all_reduce_add_rms_norm_cuda(), all_reduce_add_rms_norm_host()}),
      entry(all_gather(), {all_gather_cuda(), all_gather_host()}),
  };
}

}  // namespace

const OpTable& ops() {
  static const OpTable table(entries(), tile_rows());
  return table;
}

}  // namespace warptune
