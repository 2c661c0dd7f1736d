// How long it takes to find a winner in a wisdom of 10, 100 or 1000 problems: exactly, and the nearest.
#include <benchmark/benchmark.h>

#include "harness/select/winner_lookup.h"
#include "variants/table.h"

namespace warptune {
namespace {

const Provenance kHere{"NVIDIA H200", "sm_90a", "580.159.04", "13.0", ""};

Problem attention(std::int64_t heads, std::int64_t context) {
  Problem p{"attention_decode",
            {{"batch", 1},
             {"q_heads", heads},
             {"kv_heads", 32},
             {"head_dim", 128},
             {"context", context},
             {"uneven", 0},
             {"k_layout", 0},
             {"append", 0},
             {"bias", 0}},
            DType::bf16};
  p.dims.set("k_layout", 0, "sd");
  return p;
}

/// Ten ops' worth of problems, `count` in all; those of attention_decode at the end.
Wisdom wisdom_of(std::int64_t count) {
  Wisdom wisdom(kHere);
  for (std::int64_t i = 0; i < count; ++i) {
    Problem p = attention(1 + i / 10, 512);
    if (i % 10) p.op += static_cast<char>('0' + i % 10);
    wisdom.put({.problem = p, .variant = "split_kv"});
  }
  return wisdom;
}

void look_up(benchmark::State& state, std::int64_t context, bool exact) {
  const Wisdom wisdom = wisdom_of(state.range(0));
  const WinnerLookup lookup(ops(), wisdom);
  const Problem wanted = attention(1, context);
  for (auto _ : state) {
    const auto match = lookup.find(wanted, kHere);
    if (!match.winner || match.exact != exact) state.SkipWithError("not what was looked for");
    benchmark::DoNotOptimize(match);
  }
}
BENCHMARK_CAPTURE(look_up, exact, 512, true)->Arg(10)->Arg(100)->Arg(1000);
BENCHMARK_CAPTURE(look_up, nearest, 768, false)->Arg(10)->Arg(100)->Arg(1000);

}  // namespace
}  // namespace warptune

BENCHMARK_MAIN();
