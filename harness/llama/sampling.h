#pragma once
// How the next token is chosen.
#include <cstdint>
#include <string_view>

namespace warptune {

struct Sampling {
  bool greedy = true;
  int k = 50;
  float p = 1;
  float temperature = 1;
  std::uint64_t seed = 1;
};

/// "greedy", or "top_k=50,p=0.95,temperature=0.8,seed=1" with any of the four. Throws InputError.
Sampling parse_sampling(std::string_view text);

}  // namespace warptune
