// The prompts and the lengths of a `warptune decode` run.

#include <algorithm>

#include "cli/decode.h"
#include "harness/core/error.h"
#include "harness/core/print.h"
#include "harness/llama/prompts.h"

namespace warptune {

Prompts prompts_of(const DecodeOptions& o, const std::optional<Golden>& golden,
                   const std::vector<std::vector<int>>& text) {
  Prompts prompts;
  if (golden)
    prompts.given = golden->prompts;
  else if (!text.empty())
    prompts.given = text;
  else if (!o.prompt_file.empty())
    prompts.given = read_prompts(o.prompt_file);
  std::vector<std::int64_t> once(o.prompt_lens.begin(), o.prompt_lens.end());
  if (once.empty()) once = {32};
  if (!prompts.given.empty()) once.clear();
  for (const auto& prompt : prompts.given) once.push_back(static_cast<std::int64_t>(prompt.size()));
  // A larger batch repeats the prompts; a smaller one takes the first ones.
  const std::size_t batch = o.batch > 0 ? static_cast<std::size_t>(o.batch) : once.size();
  for (std::size_t b = 0; b < batch; ++b) prompts.lengths.push_back(once[b % once.size()]);
  return prompts;
}

std::vector<std::vector<int>> tokens_of(const Prompts& prompts, const DecodeOptions& o,
                                        const ModelConfig& config) {
  const std::size_t batch = prompts.lengths.size(), given = prompts.given.size();
  if (given == 0) {
    const std::vector<int> lengths(prompts.lengths.begin(), prompts.lengths.end());
    return random_prompts(static_cast<int>(batch), lengths, config.vocab, o.seed());
  }
  std::vector<std::vector<int>> tokens;
  for (std::size_t b = 0; b < batch; ++b) tokens.push_back(prompts.given[b % given]);
  return tokens;
}

int Lengths::longest_context() const { return std::ranges::max(contexts); }

Lengths lengths_of(const DecodeOptions& o, const ModelConfig& config, const std::optional<Golden>& golden,
                   const Prompts& prompts) {
  Lengths lengths{.steps = std::max(golden ? golden->steps() : o.steps, o.check_baseline)};
  if (o.profile_steps >= lengths.steps && o.profile_steps > 0)
    throw InputError(
        "--profile-steps is {}; it must be below the {} steps of the run, since the "
        "steps before are the warm-up",
        o.profile_steps, lengths.steps);
  lengths.prompt = static_cast<int>(std::ranges::max(prompts.lengths));
  const int end = lengths.prompt + lengths.steps;
  for (const std::int64_t prompt : prompts.lengths)
    lengths.contexts.push_back(o.context > 0 ? o.context : static_cast<int>(prompt) + lengths.steps);
  const int context = lengths.longest_context();
  lengths.positions = std::max(context, end);
  lengths.capacity = static_cast<int>(ceil_div(std::max(context, end + 1), 64) * 64);
  if (lengths.positions > config.max_position)
    print_note("{} was made for {} positions", config.name, config.max_position);
  return lengths;
}

}  // namespace warptune
