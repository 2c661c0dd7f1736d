#include "harness/llama/decode_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "harness/core/brief.h"
#include "harness/device/host_device.h"
#include "harness/measure/statistics.h"
#include "harness/measure/steady_load.h"

namespace warptune {
namespace {

/// Replays for half a second or 60 samples, at least 5, each in the range; `prepare` runs untimed before
/// each.
std::vector<double> sample(Device& device, CapturedGraph& graph, const NvtxName& range,
                           const std::function<void()>& prepare) {
  const auto replay = [&] {
    prepare();
    const NvtxRange named(range);
    return device.time_us(graph);
  };
  replay();  // warm-up
  std::vector<double> times;
  double spent = 0;
  while (times.size() < 5 || (times.size() < 60 && spent < 5e5)) {
    times.push_back(replay());
    spent += times.back();
  }
  std::ranges::sort(times);
  return times;
}

}  // namespace

StepTime time_step(Model& model, std::span<const int> contexts) {
  Device& device = model.device();
  const int context = std::ranges::max(contexts);
  const NvtxRange range(NvtxKind::phase, "", [&] { return fmt::format("time step context={}", context); });
  model.pin(contexts);
  FunctionGraph one_by_one([calls = model.step_calls(context)](Stream stream) {
    for (const Call& call : calls) call.launch(stream);
  });
  CapturedGraph& graph = model.options().graph ? model.step_graph(context) : one_by_one;
  const auto times = sample(device, graph, model.options().graph ? model.step_range(context) : NvtxName(),
                            [&] { model.pin(contexts); });
  FunctionGraph pinned([&](Stream stream) {
    model.pin(contexts);
    graph.launch(stream);
  });
  const double joules =
      device.group() ? NAN : 1e-6 * energy_under_load(device, pinned, 1, steady_seconds).launch_uj;
  model.pin(contexts);
  return {.context = context,
          .mean_context =
              std::accumulate(contexts.begin(), contexts.end(), 0.0) / static_cast<double>(contexts.size()),
          .us = quantile(times, 0.5),
          .us_p10 = quantile(times, 0.1),
          .us_p90 = quantile(times, 0.9),
          .samples = static_cast<int>(times.size()),
          .joules = joules};
}

std::vector<OpTime> time_ops(Model& model, std::span<const int> contexts) {
  Device& device = model.device();
  const int context = std::ranges::max(contexts);
  const NvtxRange range(NvtxKind::phase, "", [&] { return fmt::format("time ops context={}", context); });
  // A single launch is too short for the resolution of the events; the host's clock is fine enough.
  const int repeats_wanted = device.facts().backend == Backend::cuda ? 16 : 1;
  const std::span<const Call> calls = model.step_calls(context);
  std::vector<OpTime> ops;
  std::map<const PlanEntry*, std::vector<const Call*>> groups;
  for (const Call& call : calls) groups[call.entry.get()].push_back(&call);
  for (const Call& call : calls) {
    const auto group = groups.extract(call.entry.get());
    if (group.empty()) continue;  // timed with its first problem
    const auto& same = group.mapped();
    const int count = static_cast<int>(same.size()), repeats = std::max(1, repeats_wanted / count);
    model.pin(contexts);
    const auto graph = device.record([&](Stream stream) {
      for (int i = 0; i < repeats; ++i)
        for (const Call* one : same) one->launch(stream);
    });
    const auto times = sample(device, *graph, call.entry->range, [&] { model.pin(contexts); });
    ops.push_back({.op = call.entry->problem.op,
                   .problem = call.entry->problem,
                   .variant = call.entry->variant,
                   .config = call.entry->config.str(),
                   .count = count,
                   .us = quantile(times, 0.5) / (repeats * count)});
  }
  model.pin(contexts);
  return ops;
}

double step_bytes(const ModelConfig& c, DType dtype, std::span<const int> contexts, const KvFormat& kv) {
  double bytes = weight_bytes(c, dtype);
  const double row = static_cast<double>(c.hidden) * static_cast<double>(size_of(dtype));
  // A step reads only the rows of its tokens from the embedding, but all of a tied one as the head.
  if (!c.tied_embeddings) bytes -= c.vocab * row;
  for (const int context : contexts) {
    const int keys = kv.window == 0 ? context : std::min(context, kv.window);
    bytes += row + KvCache::bytes(c, dtype, {.quantized = kv.quantized}, c.layers, 1, keys);
  }
  return bytes;
}

double step_bytes(const ModelConfig& c, DType dtype, int batch, int context, const KvFormat& kv) {
  return step_bytes(c, dtype, std::vector<int>(static_cast<std::size_t>(batch), context), kv);
}

double DecodeReport::sum_of_ops_us() const {
  double sum = 0;
  for (const OpTime& op : ops) sum += op.total();
  return sum;
}

namespace {

TextTable table_of(const DecodeReport& r) {
  std::vector<TextTable::Column> columns = {text_column("problem"), {"count"}, {"total us"}, {"share %"}};
  for (auto& column : speed_columns()) columns.push_back(std::move(column));
  columns[4].heading = "us each";
  TextTable table(std::move(columns));
  const double sum = r.sum_of_ops_us();
  for (const OpTime& op : r.ops) {
    std::vector<Cell> cells = {op.label.empty() ? op.problem.key() : op.label, std::to_string(op.count),
                               fmt::format("{:.1f}", op.total()),
                               fmt::format("{:.1f}", 100 * op.total() / sum)};
    Speed speed = op.speed;
    speed.time_us = op.us;
    for (Cell& cell : speed_cells(speed)) cells.push_back(std::move(cell));
    table.add(std::move(cells), op.variant + " " + op.config);
  }
  return table;
}

std::string shares_of(const DecodeReport& r) {
  std::map<std::string, double> shares;
  for (const OpTime& op : r.ops) shares[op.op] += op.total();
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [op, us] : shares) order.emplace_back(us, op);
  std::ranges::sort(order, std::greater<>());
  std::string text = "share of each op:";
  for (const auto& [us, op] : order) text += fmt::format(" {} {:.1f} %,", op, 100 * us / r.sum_of_ops_us());
  if (text.back() == ',') text.pop_back();
  std::string lines;
  for (const std::string& line : wrapped(text, TextTable::kWidth)) lines += line + '\n';
  return lines;
}

}  // namespace

std::string to_text(const DecodeReport& r, bool colored, bool verbose) {
  std::string text = table_of(r).text(colored) + shares_of(r);
  const std::string context =
      r.step.uneven() ? fmt::format("{} at most, {:.1f} on average", r.step.context, r.step.mean_context)
                      : std::to_string(r.step.context);
  const std::string ranks = r.ranks == 1 ? "" : fmt::format(", {} ranks", r.ranks);
  text += fmt::format("\n{} {} batch {} context {}{}, plans: {}, graph {}\n", printable(r.model), r.dtype,
                      r.batch, context, ranks, r.plan_set, r.graph ? "on" : "off");
  if (!r.plan_sources.empty()) text += printable(r.plan_sources) + '\n';
  text += fmt::format("prefill             {:12.1f} us for prompts of up to {} tokens\n", r.prefill_us,
                      r.prompt_len);
  if (verbose)
    for (const std::string& plan : r.prefill_attention) text += fmt::format("  {}\n", printable(plan));
  text += fmt::format("time per token      {:12.1f} us (p10 {:.1f}, p90 {:.1f}, {} samples)\n", r.step.us,
                      r.step.us_p10, r.step.us_p90, r.step.samples);
  if (r.wall.steps > 0)
    text += fmt::format(
        "wall clock          {:12.1f} us per token over {} steps, {:+.1f} % against the timed step\n",
        r.wall.us_per_step, r.wall.steps, r.wall_clock_overhead_pct());
  text += fmt::format("tokens/s            {:12.1f}\n", r.tokens_per_s());
  if (std::isfinite(r.step.joules))
    text += fmt::format("joules per token    {:12.4f} of the whole board\n", r.joules_per_token());
  if (verbose)
    text += fmt::format("sum of the kernels  {:12.1f} us, the step takes {:.1f} % of it\n", r.sum_of_ops_us(),
                        100 * r.step.us / r.sum_of_ops_us());
  if (r.floor_us > 0)
    text +=
        fmt::format("byte floor          {:12.1f} us, {:.1f} % reached{}\n{}", r.floor_us, r.pct_floor(),
                    r.pct_floor() > 100 ? " (above the measured peak: the working set fits the cache)" : "",
                    r.peak_from.empty() ? "" : fmt::format("  read bandwidth: {}\n", printable(r.peak_from)));
  else
    text += "byte floor                   n/a (the read bandwidth is not measured)\n";
  text += fmt::format("device memory       {:12.1f} MiB\n", r.device_memory_mib);
  return text;
}

}  // namespace warptune
