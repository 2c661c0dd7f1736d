#pragma once
// Wisdom of attention on an H200 whose times follow a formula.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "harness/core/facts.h"
#include "harness/results/source_hash.h"
#include "harness/results/wisdom.h"
#include "variants/table.h"

namespace warptune::testing {

inline const DeviceFacts& h200() {
  static const DeviceFacts facts = known_device("sm_90a");
  return facts;
}

inline Problem decode_problem(std::int64_t batch, std::int64_t context, std::int64_t q_heads = 32,
                              std::int64_t kv_heads = 8) {
  return find_op("attention_decode")
      .op.problem(Assignment{{"batch", batch},
                             {"q_heads", q_heads},
                             {"kv_heads", kv_heads},
                             {"head_dim", 128},
                             {"context", context}},
                  DType::bf16);
}

/// Prefill of complete prompts.
inline Problem prompt_problem(std::int64_t batch, std::int64_t q_len) {
  return find_op("attention_prefill")
      .op.problem(Assignment{{"batch", batch},
                             {"q_len", q_len},
                             {"kv_len", q_len},
                             {"q_heads", 32},
                             {"kv_heads", 8},
                             {"head_dim", 128}},
                  DType::bf16);
}

/// A configuration of mma_pipelined.
inline Config pipelined(std::int64_t splits, std::int64_t warps = 8) {
  Config config{{"splits", splits}, {"warps", warps},       {"tile_kv", 128 / warps},
                {"stages", 2},      {"loads_in_flight", 1}, {"l2_prefetch", 0}};
  const bool ll = splits > 1 && splits < 8;
  config.set("combine", ll ? 3 : 1, ll ? "ll" : "last_block");
  config.set("pdl", 1);
  return config;
}

using TimeOf = std::function<double(const Problem&, const Config&)>;

/// The time in waves of one block per SM of an H200; splits add the time to combine them.
inline double in_waves(const Problem& p, const Config& c) {
  const double blocks = static_cast<double>(c["splits"] * p["batch"] * p["kv_heads"]);
  const double bytes = find_op(p.op).op.cost(p).bytes;
  return 2 + std::ceil(blocks / 132) * bytes / blocks / 33e3 +
         0.3 * std::log2(static_cast<double>(c["splits"]));
}

/// The fastest of these configurations of a variant, with the times of all.
inline Winner timed(const Problem& problem, const std::vector<Config>& configs, const TimeOf& time_of,
                    const std::string& variant = "mma_pipelined") {
  Winner winner{.problem = problem, .variant = variant, .time_us = 1e9};
  winner.made_on = {h200().name, h200().arch, h200().driver, h200().toolkit, "abc"};
  winner.source_hash = source_hash(Compiler(KernelSources(), {}), ops(), winner);
  VariantTimes times{.variant = variant, .source_hash = winner.source_hash};
  for (const auto& entry : configs.front()) times.parameters.push_back(entry.name);
  for (const Config& config : configs) {
    VariantTimes::Row row{.time_us = time_of(problem, config)};
    for (const auto& entry : config) row.values.push_back(entry.value);
    if (row.time_us < winner.time_us) {
      winner.config = config;
      winner.time_us = row.time_us;
    }
    times.rows.push_back(row);
  }
  winner.times = {times};
  return winner;
}

}  // namespace warptune::testing
