#include "cli/decode_layers.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/core/print.h"
#include "harness/core/text_table.h"
#include "harness/llama/layer_compare.h"
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
                 const std::string& folder) {
  std::size_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, prompt.size());
  LayerDump dump(model.device(), folder, model.step_calls(static_cast<std::int64_t>(longest) + 1), steps);
  const Watch watch(model, dump);
  model.prefill(prompts);
  for (int i = 0; i < steps; ++i) model.step();
  constexpr double kMiB = 1 << 20;
  print("the layers of the prefill and of {} steps are in {}: {} files, {:.1f} MiB\n", steps, folder,
        dump.files(), dump.bytes() / kMiB);
}

bool compare_layers(Model& model, const std::vector<std::vector<int>>& prompts, int steps,
                    const std::string& folder) {
  LayerCompare compare(model.device(), folder, model.options().kv);
  const Watch watch(model, compare);
  model.prefill(prompts);
  for (int step = 1; step <= steps; ++step) {
    model.force(compare.fed(step, model.options().batch));
    model.step();
  }
  print("{}", AsIs{compare.text(takes_color(stdout))});
  return compare.agrees();
}

}  // namespace warptune
