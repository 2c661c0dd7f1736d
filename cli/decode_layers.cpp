// decode --dump-layers and --compare-layers: the activations of a run that launches op by op.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/decode.h"
#include "harness/core/print.h"
#include "harness/core/text_table.h"
#include "harness/llama/layer_dump.h"

namespace warptune {
namespace {

/// Watches a model while it is in scope.
class Watch {
 public:
  Watch(Model& model, LaunchWatcher& watcher) : model_(model) { model_.watch(&watcher); }
  ~Watch() { model_.watch(nullptr); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  Model& model_;
};

}  // namespace

void dump_layers(Model& model, const std::vector<std::vector<int>>& prompts, int steps,
                 const std::string& folder, const Ranks& ranks) {
  std::size_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, prompt.size());
  const auto calls = model.step_calls(static_cast<std::int64_t>(longest) + 1);
  const auto run = [&] {
    model.prefill(prompts);
    for (int i = 0; i < steps; ++i) model.step();
  };
  if (!ranks.is_first()) return run();
  LayerDump dump(model.device(), folder, calls, steps);
  const Watch watch(model, dump);
  run();
  constexpr double kMiB = 1 << 20;
  print("the layers of the prefill and of {} steps are in {}: {} files, {:.1f} MiB\n", steps, folder,
        dump.files(), dump.bytes() / kMiB);
}

bool compare_layers(Model& model, const std::vector<std::vector<int>>& prompts, int steps,
                    const std::string& folder, const Ranks& ranks) {
  std::optional<LayerCompare> compare;
  std::optional<Watch> watch;
  if (ranks.is_first()) {
    compare.emplace(model.device(), folder, model.options().kv);
    watch.emplace(model, *compare);
  }
  model.prefill(prompts);
  for (int step = 1; step <= steps; ++step) {
    model.force(ranks.of_first(compare ? compare->fed(step, model.options().batch) : std::vector<int>()));
    model.step();
  }
  if (!compare) return true;
  print("{}", AsIs{compare->text(takes_color(stdout))});
  return compare->agrees();
}

}  // namespace warptune
