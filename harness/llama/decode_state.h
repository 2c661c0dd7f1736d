#pragma once
// The state that changes from step to step. It is in device memory, so that one captured graph serves many
// steps.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "harness/device/device.h"

namespace warptune {

class DecodeState {
 public:
  /// `seen_vocab`: the tokens of which seen() is kept for each sequence, 0 if no sampler reads it.
  DecodeState(Device& device, int batch, int max_steps, std::uint64_t seed, int seen_vocab);

  /// The next step feeds the tokens in `ids` at position lengths[b] - 1 and writes column `step`.
  void set(std::span<const int> lengths, int step);
  /// Resets the transcript and the sampler's step.
  void clear();
  void set_ids(std::span<const int> ids);
  /// Sets the tokens that each sequence holds to those of its prompt.
  void set_seen(std::span<const std::vector<int>> prompts);

  /// A copy of the state, to restore after launches that should not count.
  using Snapshot = std::vector<std::vector<std::byte>>;
  Snapshot save() const;
  void restore(const Snapshot& snapshot);

  std::vector<int> get_ids() const { return get(ids); }
  std::vector<int> get_lengths() const { return get(lengths); }
  /// [batch][steps so far], -1 where a sequence had finished.
  std::vector<std::vector<int>> get_transcript(int steps) const;

  Buffer ids, positions, lengths, sequence;  // [batch]
  Buffer transcript;                         // [batch, columns()]
  Buffer step, bad_token;                    // [1]
  Buffer rng;                                // [2] of 64 bits
  Buffer seen;                               // [batch, seen_words_], a bit per token; may be empty
  int columns() const { return columns_; }

 private:
  std::vector<const Buffer*> changing() const;
  std::vector<int> get(const Buffer& buffer) const;
  void put(const Buffer& buffer, std::span<const int> values);
  Device& device_;
  int batch_, columns_, seen_words_;
  std::uint64_t seed_;
};

}  // namespace warptune
