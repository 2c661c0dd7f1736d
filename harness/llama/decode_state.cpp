#include "harness/llama/decode_state.h"

#include <array>
#include <numeric>

namespace warptune {
namespace {

/// Columns beyond the requested steps: timing replays `advance` a few more times.
constexpr int kSpareColumns = 64;

Buffer ints(Device& device, int count) {
  return device.allocate(static_cast<std::size_t>(count) * sizeof(int));
}

}  // namespace

DecodeState::DecodeState(Device& device, int batch, int max_steps, std::uint64_t seed, int seen_vocab)
    : ids(ints(device, batch)),
      positions(ints(device, batch)),
      lengths(ints(device, batch)),
      sequence(ints(device, batch)),
      transcript(ints(device, batch * (max_steps + kSpareColumns))),
      step(ints(device, 1)),
      bad_token(ints(device, 1)),
      rng(device.allocate(2 * sizeof(std::uint64_t))),
      device_(device),
      batch_(batch),
      columns_(max_steps + kSpareColumns),
      seen_words_((seen_vocab + 31) / 32),
      seed_(seed) {
  std::vector<int> order(static_cast<std::size_t>(batch));
  std::iota(order.begin(), order.end(), 0);
  put(sequence, order);
  put(ids, std::vector<int>(order.size(), 0));
  clear();
  if (seen_vocab == 0) return;
  seen = ints(device, batch * seen_words_);
  set_seen({});
}

std::vector<const Buffer*> DecodeState::changing() const {
  std::vector<const Buffer*> buffers = {&ids, &positions, &lengths, &transcript, &step, &rng};
  if (seen.data()) buffers.push_back(&seen);
  return buffers;
}

void DecodeState::put(const Buffer& buffer, std::span<const int> values) {
  device_.upload(buffer.data(), values.data(), values.size_bytes(), device_.stream());
  device_.synchronize();
}

std::vector<int> DecodeState::get(const Buffer& buffer) const {
  std::vector<int> values(buffer.bytes() / sizeof(int));
  device_.download(values.data(), buffer.data(), buffer.bytes());
  return values;
}

void DecodeState::set(std::span<const int> new_lengths, int new_step) {
  std::vector<int> new_positions;
  for (const int length : new_lengths) new_positions.push_back(length - 1);
  put(lengths, new_lengths);
  put(positions, new_positions);
  put(step, std::array{new_step});
}

void DecodeState::clear() {
  const std::array<std::uint64_t, 2> start = {seed_, 0};
  device_.upload(rng.data(), start.data(), sizeof(start), device_.stream());
  device_.set_bytes(transcript.data(), 0xff, transcript.bytes(), device_.stream());
  device_.set_bytes(bad_token.data(), 0, bad_token.bytes(), device_.stream());
  device_.synchronize();
}

DecodeState::Snapshot DecodeState::save() const {
  Snapshot snapshot;
  for (const Buffer* buffer : changing()) {
    snapshot.emplace_back(buffer->bytes());
    device_.download(snapshot.back().data(), buffer->data(), buffer->bytes());
  }
  return snapshot;
}

void DecodeState::restore(const Snapshot& snapshot) {
  const auto buffers = changing();
  for (std::size_t i = 0; i < buffers.size(); ++i)
    device_.upload(buffers[i]->data(), snapshot[i].data(), snapshot[i].size(), device_.stream());
  device_.synchronize();
}

void DecodeState::set_seen(std::span<const std::vector<int>> prompts) {
  if (!seen.data()) return;
  std::vector<int> words(seen.bytes() / sizeof(int));
  for (std::size_t b = 0; b < prompts.size(); ++b)
    for (const int id : prompts[b]) {
      int& word = words[b * static_cast<std::size_t>(seen_words_) + static_cast<std::size_t>(id / 32)];
      word = static_cast<int>(static_cast<unsigned>(word) | 1u << id % 32);
    }
  put(seen, words);
}

void DecodeState::set_ids(std::span<const int> values) { put(ids, values); }

std::vector<std::vector<int>> DecodeState::get_transcript(int steps) const {
  const std::vector<int> all = get(transcript);
  std::vector<std::vector<int>> rows;
  for (int b = 0; b < batch_; ++b) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(b) * columns_;
    rows.emplace_back(first, first + steps);
  }
  return rows;
}

}  // namespace warptune
