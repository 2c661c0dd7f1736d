#include "variants/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "variants/add_rms_norm/add_rms_norm.h"
#include "variants/advance/advance.h"
#include "variants/argmax/argmax.h"
#include "variants/attention_decode/attention_decode.h"
#include "variants/attention_prefill/attention_prefill.h"
#include "variants/causal_mask/causal_mask.h"
#include "variants/embedding/embedding.h"
#include "variants/linear/linear.h"
#include "variants/logits_dot_v/logits_dot_v.h"
#include "variants/padding_offset/padding_offset.h"
#include "variants/remove_padding/remove_padding.h"
#include "variants/restore_padding/restore_padding.h"
#include "variants/rms_norm/rms_norm.h"
#include "variants/rope_append/rope_append.h"
#include "variants/softmax/softmax.h"
#include "variants/swiglu/swiglu.h"
#include "variants/top_k/top_k.h"

namespace warptune {
namespace {

OpEntry entry(Op op, std::initializer_list<std::vector<Variant>> variants) {
  OpEntry e{.op = std::move(op), .variants = {}};
  for (const auto& list : variants) e.variants.insert(e.variants.end(), list.begin(), list.end());
  return e;
}

}  // namespace

std::span<const OpEntry> all_ops() {
  static const std::vector<OpEntry> ops = {
      entry(embedding(), {embedding_cuda(), embedding_host()}),
      entry(padding_offset(), {padding_offset_cuda(), padding_offset_host()}),
      entry(remove_padding(), {remove_padding_cuda(), remove_padding_host()}),
      entry(restore_padding(), {restore_padding_cuda(), restore_padding_host()}),
      entry(causal_mask(), {causal_mask_cuda(), causal_mask_host()}),
      entry(attention_prefill(),
            {attention_prefill_cuda(), attention_prefill_wgmma(), attention_prefill_vendor(),
             attention_prefill_cudnn(), attention_prefill_host()}),
      entry(rms_norm(), {rms_norm_cuda(), rms_norm_host()}),
      entry(attention_decode(), {attention_decode_cuda(), attention_decode_bulk(), attention_decode_vendor(),
                                 attention_decode_cudnn(), attention_decode_host()}),
      entry(linear(), {linear_cuda(), linear_vendor(), linear_host()}),
      entry(argmax(), {argmax_cuda(), argmax_host()}),
      entry(top_k(), {top_k_cuda(), top_k_host()}),
      entry(rope_append(), {rope_append_cuda(), rope_append_host()}),
      entry(add_rms_norm(), {add_rms_norm_cuda(), add_rms_norm_host()}),
      entry(swiglu(), {swiglu_cuda(), swiglu_host()}),
      entry(softmax(), {softmax_cuda(), softmax_host()}),
      entry(logits_dot_v(), {logits_dot_v_cuda(), logits_dot_v_host()}),
      entry(advance(), {advance_cuda(), advance_host()}),
  };
  return ops;
}

const OpEntry& find_op(std::string_view name) {
  const auto ops = all_ops();
  const auto it = std::ranges::find_if(ops, [&](const OpEntry& e) { return e.op.name == name; });
  if (it != ops.end()) return *it;
  std::vector<std::string> known;
  for (const OpEntry& e : ops) known.push_back(e.op.name);
  throw InputError(fmt::format("unknown op '{}'; known are {}", brief(name), fmt::join(known, ", ")));
}

}  // namespace warptune
