#pragma once
// How the next token is chosen.
#include <cstdint>
#include <string>
#include <string_view>

namespace warptune {

struct Sampling {
  bool greedy = true;
  int k = 50;                    // candidates, the largest logits; 0 or more than there are: all
  float p = 1;                   // the likeliest candidates whose probabilities reach it are kept
  float min_p = 0;               // candidates less likely than min_p of the likeliest are dropped; 0: none
  float repetition_penalty = 1;  // on the logits of tokens that the sequence holds; 1: none
  float temperature = 1;
  std::uint64_t seed = 1;
  bool penalizes() const { return !greedy && repetition_penalty != 1; }
  /// What of it the plans of a step depend on, as the suffix of a plan_set: "" or "+top_k=50+min_p+penalty".
  std::string suffix() const;
};

/// "greedy", or "top_k=50,p=0.95,min_p=0.05,repetition_penalty=1.1,temperature=0.8,seed=1" with any of the
/// six; the others keep the defaults above. Meaning and order (penalty, temperature, top_k, p, min_p) are
/// those of transformers, except that of logits equal to the k-th largest only k in all are kept. Throws
/// InputError.
Sampling parse_sampling(std::string_view text);

}  // namespace warptune
