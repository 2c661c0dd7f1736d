#include "variants/tile_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "harness/core/expression.h"
#include "harness/core/space.h"
#include "variants/table.h"

namespace warptune {
namespace {

const std::string kH200 = "NVIDIA H200 with head_dim 64 and 128";

/// Query heads of a group that share a block, as many as their sums leave registers for.
const std::string kHeadsPerBlock =
    "heads_per_block=q_heads/kv_heads<=4?q_heads/kv_heads:((q_heads/kv_heads)%4==0?4:q_heads/kv_heads)";
/// 16 bytes of a cached row per lane.
const std::string kLanes =
    "threads_per_key<=head_dim*(kv_dtype==0?dtype_bytes:1)/16 threads_per_value=threads_per_key";
/// 64 KB of each multiprocessor, with four warps and chunks of 32 keys (16 of the longest rows).
const std::string kUnderWay = "under_way<=kv_dtype>0||head_dim<=64?2:1";
/// The rows of a tile: the queries of a head, or of the heads that share keys where they are few.
const std::string kPack = "pack=q_heads>kv_heads&&score_bias==0&&dropout==0",
                  kRows = "(pack==1?q_len*q_heads/kv_heads:q_len)",
                  kBlocks = "(batch*(pack==1?kv_heads:q_heads)*max(1,rint(" + kRows + "/tile_m)))";

std::vector<Tile> rows() {
  const std::string wgmma = "consumers=2 tile_n<=128 stages<=2 turns=1 together<=32",
                    flash = " head_first=causal>0&&q_len>tile_m splits=1 pack=0",
                    split_seq = "block=128 " + kLanes + " " + kHeadsPerBlock +
                                " splits<=8*sms*heads_per_block/(batch*q_heads) combine_block=128",
                    among = "among the fastest in results/h200";
  return {
      // Prompts
      {"attention_prefill", "flash_wgmma",
       "arch >= 90 && q_len > 64 && (head_dim == 64 || head_dim == 128) && page_size + window + score_bias + "
       "dropout == 0",
       wgmma, among, kH200},
      {"attention_prefill", "flash_wgmma", "arch >= 90 && q_len > 64 && head_dim <= 128", wgmma,
       "FlashAttention-3's 128 x 128 of head_dim 128"},
      {"attention_prefill", "flash_wgmma", "arch >= 90 && q_len > 64",
       "consumers=2 tile_n<=80 stages=1 turns=1 together<=32", "FlashAttention-3's 128 x 80 of head_dim 256"},
      {"attention_prefill", "flash_mma", "q_len > 64 && head_dim <= 64 && dropout == 0",
       "tile_m=128 tile_n=64 warps=4 stages=2 hold_q=0" + flash,
       "FlashAttention-2's 128 x 64 of head_dim 64 with dropout, 4 warps; its 128 x 128 spills here"},
      {"attention_prefill", "flash_mma", "q_len > 64 && head_dim <= 128 && dropout == 0",
       "tile_m=128 tile_n=32 warps=4 stages=2 hold_q=0" + flash,
       "FlashAttention-2's 128 x 32 of head_dim 128 with dropout, 4 warps; its 128 x 64 spills here"},
      {"attention_prefill", "flash_mma", "q_len > 64 && head_dim > 128",
       "tile_m=128 tile_n=64 warps=8 stages=1 hold_q=0" + flash,
       "FlashAttention-2's 128 x 64 of head_dim 256 on the A100, 8 warps"},
      {"attention_prefill", "flash_mma", "q_len > 64 && head_dim > 128",
       "tile_m=128 tile_n<=32 warps=8 stages=2 hold_q=0" + flash,
       "FlashAttention-2's 128 rows and 8 warps of head_dim 256 on the A100, half the keys"},
      {"attention_prefill", "flash_mma", "q_len > 64",
       "tile_m=64 tile_n<=64 warps=4 stages<=2 hold_q<=1" + flash,
       "FlashAttention-2's 64 x 64 of head_dim 256 on the H100, 4 warps: the fewest registers"},
      // Few queries over a long cache
      {"attention_prefill", "flash_mma", "q_len <= 64",
       kPack + " tile_m<=" + kRows +
           "<=16?16:64 warps=tile_m/16 tile_n=head_dim<=128?64:32 stages=2 hold_q=head_dim<=128 "
           "head_first=0 splits<=8*sms/(warps*" +
           kBlocks + ")",
       "FlashInfer's tiles of 16 or 64 rows; splits for 8 warps per multiprocessor"},
      // Decoding
      {"attention_decode", "split_keys", "deterministic == 1",
       "block=128 keys_per_block=256 " + kLanes + " unroll=4 stages=1 " + kHeadsPerBlock +
           " pdl=0 combine=kernel combine_block=128",
       "FlashInfer's 128 threads, 16 bytes per lane and 256 keys per split"},
      {"attention_decode", "split_ring", "arch >= 90 && q_heads == kv_heads && batch * kv_heads >= sms",
       "splits=1 heads_per_block=1 warps=4 keys=16 stages=3 ahead<=1 combine=last_block pdl=1", among, kH200},
      {"attention_decode", "mma_ring", "arch >= 90 && batch * kv_heads >= sms",
       "splits=1 warps=4 keys<=32 stages<=3 " + kUnderWay + " ahead<=1 combine=last_block pdl=1", among,
       kH200},
      {"attention_decode", "mma_direct", "arch >= 90 && context <= (q_heads > kv_heads ? 1024 : 256)",
       "splits<=q_heads>kv_heads?sms/(batch*kv_heads):1 warps=q_heads>kv_heads&&batch*kv_heads>8?4:8 "
       "warps_per_sm=8 keys=32 combine<=cluster "
       "pdl=1",
       among, kH200},
      {"attention_decode", "split_ring", "arch >= 90 && q_heads == kv_heads && context <= 1024",
       "splits<=2*sms/(batch*kv_heads) heads_per_block=1 warps=4 keys=16 stages=2 ahead=0 combine<=cluster "
       "pdl=1",
       among, kH200},
      {"attention_decode", "split_ring", "arch >= 90 && q_heads == kv_heads",
       "splits<=1.5*sms/(batch*kv_heads) heads_per_block=1 warps<=8 keys=16 stages<=3 ahead<=1 "
       "combine<=posted pdl=1",
       among, kH200},
      {"attention_decode", "mma_ring", "arch >= 90",
       "splits<=sms/(batch*kv_heads) warps=4 keys<=32 stages<=3 " + kUnderWay +
           " ahead<=1 combine<=splits>=8?0:2 pdl=1",
       among, kH200},
      {"attention_decode", "mma_direct", "q_heads > kv_heads",
       "warps=batch*kv_heads==1?8:4 splits<=8*sms/(batch*kv_heads*warps) warps_per_sm=8 keys=16 "
       "combine<=posted pdl=0",
       "tensor cores for a group of heads and 4 warps as FlashInfer; splits for 8 warps per multiprocessor"},
      {"attention_decode", "mma", "q_heads >= 4 * kv_heads",
       "warps=4 splits<=2*sms/(batch*kv_heads) tile<=32 stages=2 pdl=0 combine=kernel combine_block=128",
       "tensor cores for a group of heads and 4 warps as FlashInfer; splits for two blocks per "
       "multiprocessor"},
      {"attention_decode", "vectorized",
       "q_heads > kv_heads && ((kv_dtype > 0 && head_dim % 64 != 0) || (kv_dtype == 2 && arch < 89))",
       "block=256 " + kLanes + " unroll<=4 pdl=0",
       "FlashInfer's 16 bytes per lane; one head per block: 8-bit codes take the registers of more"},
      {"attention_decode", "split_seq", "arch < 90",
       "unroll<=4 stages=3 pdl=0 " + split_seq + " combine<=last_block",
       "FlashInfer's 128 threads and 16 bytes per lane, two strips under way; splits for 8 blocks per "
       "multiprocessor"},
      {"attention_decode", "split_seq", "arch >= 90",
       "unroll=4 stages=1 pdl=1 " + split_seq + " combine=kernel",
       "FlashInfer's 128 threads and 16 bytes per lane; splits for 8 blocks per multiprocessor"},
  };
}

/// A word of Tile::config.
struct Word {
  const Parameter* parameter;
  bool at_most;
  std::string bound;
};

std::vector<Word> words_of(const Tile& tile, const Variant& variant) {
  std::vector<Word> words;
  std::istringstream text(tile.config);
  for (std::string word; text >> word;) {
    const auto end = word.find_first_of("<=");
    const auto it = std::ranges::find(variant.parameters, word.substr(0, end), &Parameter::name);
    if (end == std::string::npos || it == variant.parameters.end())
      throw std::logic_error(fmt::format("tile table: '{}' sets no parameter of '{}'", word, variant.name));
    const bool at_most = word[end] == '<';
    words.push_back({&*it, at_most, word.substr(end + (at_most ? 2 : 1))});
  }
  return words;
}

/// Sets the parameters of a variant word by word until a configuration keeps its constraints.
class Filling {
 public:
  Filling(const Tile& tile, const Variant& variant, const Problem& problem, const DeviceFacts& facts)
      : variant_(variant), words_(words_of(tile, variant)), space_(variant, problem, facts) {
    const NamedValues known = known_values(problem, facts);
    for (const Parameter& p : variant.parameters) names_.push_back(p.name);
    values_.resize(names_.size());
    for (std::size_t i = 0; i < known.names.size(); ++i) {
      if (std::ranges::find(names_, known.names[i]) != names_.end()) continue;
      names_.push_back(known.names[i]);
      values_.push_back(known.values[i]);
    }
  }
  std::optional<Config> first() { return from(0); }

 private:
  std::optional<Config> from(std::size_t word) {
    if (word == words_.size()) {
      Config config;
      for (std::size_t i = 0; i < variant_.parameters.size(); ++i) {
        const Parameter& p = variant_.parameters[i];
        const auto value = static_cast<std::size_t>(values_[i]);
        config.set(p.name, static_cast<std::int64_t>(values_[i]),
                   value < p.labels.size() ? p.labels[value] : std::string());
      }
      return space_.broken_constraint(config) ? std::nullopt : std::optional(config);
    }
    const Word& w = words_[word];
    for (const std::int64_t value : values_for(w)) {
      values_[static_cast<std::size_t>(w.parameter - variant_.parameters.data())] =
          static_cast<double>(value);
      if (auto config = from(word + 1)) return config;
    }
    return std::nullopt;
  }

  /// What a word admits, best first.
  std::vector<std::int64_t> values_for(const Word& w) const {
    const auto& labels = w.parameter->labels;
    const auto label = std::ranges::find(labels, w.bound);
    const double bound = label != labels.end() ? static_cast<double>(label - labels.begin())
                                               : Expression(w.bound, names_, "tile").evaluate(values_);
    std::vector<std::int64_t> values = w.parameter->values;
    std::ranges::sort(values, std::greater());
    const std::int64_t least = values.back();
    std::erase_if(values, [&](std::int64_t value) {
      const auto v = static_cast<double>(value);
      return w.at_most ? v > bound : v != bound;
    });
    if (values.empty() && w.at_most) values = {least};
    return values;
  }

  const Variant& variant_;
  std::vector<Word> words_;
  Space space_;
  std::vector<std::string> names_;  // parameters, then what is known
  std::vector<double> values_;
};

bool takes(const Variant& variant, const Problem& problem, Backend backend) {
  return variant.backend == backend &&
         (variant.dtypes.empty() || std::ranges::find(variant.dtypes, problem.dtype) != variant.dtypes.end());
}

}  // namespace

std::span<const Tile> tile_table() {
  static const std::vector<Tile> table = rows();
  return table;
}

std::string DefaultTile::origin() const {
  return fmt::format("{}; {}", tile->source,
                     tile->measured_on.empty() ? "not measured" : "measured on " + tile->measured_on);
}

std::vector<DefaultTile> default_tiles(const Problem& problem, const DeviceFacts& facts,
                                       std::string_view variant) {
  std::vector<DefaultTile> fitting;
  const NamedValues known = known_values(problem, facts);
  for (const Tile& tile : tile_table()) {
    if (tile.op != problem.op || (!variant.empty() && tile.variant != variant)) continue;
    const Variant& v = find_op(tile.op).variant(tile.variant);
    if (!takes(v, problem, facts.backend) ||
        Expression(tile.when, known.names, "tile").evaluate(known.values) == 0)
      continue;
    if (auto config = Filling(tile, v, problem, facts).first()) fitting.push_back({&tile, &v, *config});
  }
  return fitting;
}

std::vector<Problem> tile_examples() {
  std::vector<Problem> examples;
  const auto add = [&](const char* op, const Assignment& dims) {
    examples.push_back(find_op(op).op.problem(dims, DType::bf16));
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
  decode(128, 8, 8, 4096, {{"kv_dtype", 2}});
  decode(128, 8, 8, 4096, {{"deterministic", 1}});
  return examples;
}

}  // namespace warptune
