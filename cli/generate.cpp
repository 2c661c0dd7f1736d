// The tokens of a `warptune decode` run: prefill, then steps whose launches run ahead of the device.
#include <algorithm>

#include "cli/decode.h"
#include "harness/core/error.h"
#include "harness/core/stopwatch.h"
#include "harness/device/nvtx.h"
#include "harness/device/profiler_range.h"

namespace warptune {
namespace {

constexpr int kFinishedEvery = 16;   // steps between checks for finished sequences
constexpr double kReadEvery = 0.01;  // seconds between reads of the tokens

/// The steps that a profiler records.
struct SteadyWindow {
  explicit SteadyWindow(Device& device)
      : recorded(device), named(NvtxKind::phase, "", [] { return "steady window"; }) {}
  const ProfilerRange recorded;
  const NvtxRange named;
};

/// Hands the sampled tokens to the text, those of about 10 ms at a time: a read waits for every launched
/// step, and the device then idles until the next launch. Steps after the end of the text are discarded.
class TokenReader {
 public:
  TokenReader(const Model& model, DecodeText& text) : model_(model), text_(text) {}

  /// Call after each step. Returns whether the text goes on.
  bool stepped() {
    if (++unread_ < every_) return true;
    const bool goes_on = read();
    const double seconds = since_read_.seconds();
    const double steps = kReadEvery / std::max(seconds / unread_, 1e-6);
    every_ = static_cast<int>(std::clamp(steps, 1.0, 64.0));
    unread_ = 0;
    since_read_ = Stopwatch();
    return goes_on;
  }
  /// Reads every token that is not read yet. Returns whether the text goes on.
  bool read() {
    const auto tokens = model_.sampled();
    const auto bad = model_.bad_logits();
    const std::size_t end = bad ? static_cast<std::size_t>(bad->step) : tokens.front().size();
    if (goes_on_ && read_ < end) {
      std::vector<std::span<const int>> fresh;
      for (const auto& sequence : tokens)
        fresh.push_back(std::span<const int>(sequence).subspan(read_, end - read_));
      goes_on_ = text_.next(std::move(fresh));
      read_ = end;
    }
    goes_on_ = goes_on_ && !bad;
    return goes_on_;
  }

 private:
  const Model& model_;
  DecodeText& text_;
  std::size_t read_ = 0;        // tokens of each sequence
  int unread_ = 0, every_ = 1;  // steps since the last read, and between reads
  Stopwatch since_read_;
  bool goes_on_ = true;
};

}  // namespace

Generated generate(Model& model, const std::vector<std::vector<int>>& prompts, int steps, int profiled,
                   std::optional<DecodeText>& text, const std::function<bool(bool)>& agree) {
  Generated done{.prefill_us = model.prefill(prompts), .wall = {}};
  std::optional<TokenReader> reader;
  if (text) {
    text->begin(model.options().batch);
    reader.emplace(model, *text);
  }
  const auto agreed = [&](bool goes_on) { return agree ? agree(goes_on) : goes_on; };
  bool goes_on = agreed(!reader || reader->read());
  if (goes_on) model.prepare_steps(steps);
  std::optional<SteadyWindow> window;
  int& step = done.wall.steps;
  const Stopwatch watch;
  for (; step < steps && goes_on; ++step) {
    if (step % kFinishedEvery == 0 && model.all_finished()) break;
    if (step == steps - profiled) window.emplace(model.device());
    model.step();
    goes_on = agreed(!reader || reader->stepped());
  }
  if (reader) reader->read();
  model.ids();  // waits until the last token is on the host
  if (step > 0) done.wall.us_per_step = watch.seconds() * 1e6 / step;
  window.reset();
  if (text) text->end();
  if (const auto bad = model.bad_logits())
    throw CheckError(bad->str() + "; --dump-layers DIR writes the activations of every layer");
  return done;
}

}  // namespace warptune
