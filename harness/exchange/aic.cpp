#include "harness/exchange/aic.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "harness/core/lookup.h"
#include "harness/results/run_info.h"

namespace warptune {
namespace {

/// The dtypes as AIConfigurator calls them.
std::string_view dtype_name(DType dtype) {
  return dtype == DType::bf16 ? "bfloat16" : dtype == DType::fp16 ? "float16" : "float32";
}

std::string label(const Problem& p, std::string_view dim) {
  const Assignment::Entry* entry = p.dims.find(dim);
  return entry ? entry->label : std::string();
}

/// Whether all dims but these have their defaults.
bool is_plain_but_for(const Op& op, const Problem& p, std::initializer_list<std::string_view> dims) {
  return std::ranges::all_of(p.dims, [&](const Assignment::Entry& entry) {
    const Dim* dim = op.find_dim(entry.name);
    return contains(dims, entry.name) || (dim && dim->fallback && entry.value == *dim->fallback);
  });
}

/// The last columns of a table, and those of a problem, without the latency; none: the table has no such.
struct Table {
  std::string_view file, op, aic_op, columns;
  std::optional<std::string> (*row)(const Op& op, const Problem& p);
};

std::optional<std::string> gemm(const Op& op, const Problem& p) {
  if (!is_plain_but_for(op, p, {"tokens", "in", "out", "weights", "group", "activations"})) return {};
  const std::string weights = label(p, "weights");
  const bool fp8_activations = label(p, "activations") == "fp8";
  const std::int64_t group = p.dims.get("group", 0);
  std::string dtype(dtype_name(p.dtype));
  if (weights == "int8" && group == 0)
    dtype = "int8_wo";
  else if (weights == "int4" && group == 128)
    dtype = "int4_wo";
  else if (weights == "fp8" && fp8_activations)
    dtype = group == 128 ? "fp8_block" : "fp8";
  else if (!weights.empty() && weights != "same")
    return {};
  return fmt::format("{},{},{},{}", dtype, p["tokens"], p["out"], p["in"]);
}

std::optional<std::string> prefill(const Op& op, const Problem& p) {
  if (!is_plain_but_for(op, p, {"batch", "q_len", "kv_len", "q_heads", "kv_heads", "head_dim"}) ||
      p["q_len"] != p["kv_len"])
    return {};
  const std::string_view dtype = dtype_name(p.dtype);
  return fmt::format("{},{},{},{},{},1,{},{},0,0", p["batch"], p["q_len"], p["q_heads"], p["kv_heads"],
                     p["head_dim"], dtype, dtype);
}

std::optional<std::string> decode(const Op& op, const Problem& p) {
  if (!is_plain_but_for(op, p, {"batch", "q_heads", "kv_heads", "head_dim", "context", "append", "kv_dtype"}))
    return {};
  const std::string kv = label(p, "kv_dtype");
  if (kv == "int8") return {};
  const std::string_view dtype = dtype_name(p.dtype);
  return fmt::format("{},1,{},{},{},1,{},{},{},0", p["batch"], p["q_heads"], p["kv_heads"], p["head_dim"],
                     dtype, kv == "fp8" ? "fp8" : dtype, p["context"] - 1);
}

std::optional<std::string> all_reduce(const Op&, const Problem& p) {
  const auto elements = p["bytes"] / static_cast<std::int64_t>(size_of(p.dtype));
  return fmt::format("{},{},{}", dtype_name(p.dtype), p["ranks"], elements);
}

constexpr std::string_view kAttention =
    "batch_size,isl,num_heads,num_key_value_heads,head_dim,beam_width,attn_dtype,kv_cache_dtype,step,window_"
    "size";
constexpr Table kTables[] = {
    {"gemm_perf.txt", "linear", "gemm", "gemm_dtype,m,n,k", gemm},
    {"context_attention_perf.txt", "attention_prefill", "context_attention", kAttention, prefill},
    {"generation_attention_perf.txt", "attention_decode", "generation_attention", kAttention, decode},
    {"custom_allreduce_perf.txt", "all_reduce", "all_reduce", "allreduce_dtype,num_gpus,message_size",
     all_reduce},
};

}  // namespace

std::map<std::string, std::string> aic_tables(const OpTable& ops, const Wisdom& wisdom) {
  std::map<std::string, std::string> files;
  for (const Winner& winner : wisdom.winners())
    for (const Table& table : kTables) {
      const OpEntry* const entry = winner.problem.op == table.op ? ops.find_if_known(table.op) : nullptr;
      if (!entry || winner.cache != CacheMode::cold) continue;
      const auto row = table.row(entry->op, winner.problem);
      if (!row) continue;
      std::string& text = files[std::string(table.file)];
      if (text.empty()) text = fmt::format("{}{},latency\n", kAicColumns, table.columns);
      text += fmt::format("warptune,{},{},{},{},{},{:.6g}\n", program_version(), winner.made_on.device,
                          table.aic_op, winner.variant, *row, winner.time_us / 1000);
    }
  return files;
}

}  // namespace warptune
