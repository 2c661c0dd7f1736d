#include "table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "attention_prefill/attention_prefill.h"
#include "core/error.h"
#include "rms_norm/rms_norm.h"
#include "rope_append/rope_append.h"

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
      entry(attention_prefill(), {attention_prefill_cuda(), attention_prefill_host()}),
      entry(rms_norm(), {rms_norm_cuda(), rms_norm_host()}),
      entry(rope_append(), {rope_append_cuda(), rope_append_host()}),
  };
  return ops;
}

const OpEntry& find_op(std::string_view name) {
  const auto ops = all_ops();
  const auto it = std::ranges::find_if(ops, [&](const OpEntry& e) { return e.op.name == name; });
  if (it != ops.end()) return *it;
  std::vector<std::string> known;
  for (const OpEntry& e : ops) known.push_back(e.op.name);
  throw InputError(fmt::format("unknown op '{}'; known are {}", name, fmt::join(known, ", ")));
}

}  // namespace warptune
