#include "harness/report/summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/core/variant.h"
#include "harness/llama/kv_format.h"
#include "harness/llama/model_problems.h"
#include "harness/select/winner_lookup.h"

namespace warptune {
namespace {

bool is_ok(const CsvRow& row) { return field(row, "status") == "ok" && number(row, "time_us") > 0; }
bool is_vendor(const std::string& variant) { return variant.starts_with("cublas") || variant == "cudnn"; }

/// "rms_norm[tokens=1,dtype=bf16]" as its op and its dims.
struct Key {
  std::string op;
  std::map<std::string, std::string> dims;
};
std::optional<Key> parse_key(const std::string& problem) {
  const auto open = problem.find('[');
  if (open == std::string::npos || problem.back() != ']') return std::nullopt;
  Key key{.op = problem.substr(0, open)};
  try {
    for (const auto& [name, value] : parse_pairs(problem.substr(open + 1, problem.size() - open - 2)))
      key.dims[name] = value == "no" ? "0" : value == "yes" ? "1" : value;
  } catch (const InputError&) {
    return std::nullopt;
  }
  return key;
}

/// Whether all dims that both keys have are equal: another program may name other dims.
bool same_problem(const Key& a, const Key& b) {
  return a.op == b.op && std::ranges::all_of(b.dims, [&](const auto& dim) {
           const auto it = a.dims.find(dim.first);
           return it == a.dims.end() || it->second == dim.second;
         });
}

/// The fastest of the rows that are ok and wanted; prefers times of finalists to first ones.
const CsvRow* fastest(const std::vector<const CsvRow*>& rows, const auto& wanted) {
  const auto rank = [](const CsvRow& row) { return std::pair(is_first_row(row), number(row, "time_us")); };
  const CsvRow* best = nullptr;
  for (const CsvRow* row : rows)
    if (is_ok(*row) && wanted(*row) && (!best || rank(*row) < rank(*best))) best = row;
  return best;
}

/// The row of the wisdom's winner among the rows of its problem; of several, the one of the latest run.
const CsvRow* row_of_wisdom(const ResultsSet& set, const std::vector<const CsvRow*>& rows) {
  const CsvRow* latest = nullptr;
  for (const Wisdom& wisdom : set.wisdom)
    for (const Winner& w : wisdom.winners()) {
      if (w.problem.key() != field(*rows.front(), "problem") ||
          w.made_on.device != field(*rows.front(), "device"))
        continue;
      const std::string config = w.config.str();
      const CsvRow* row = fastest(rows, [&](const CsvRow& r) {
        return field(r, "run_id") == w.run_id && field(r, "variant") == w.variant &&
               field(r, "config") == config;
      });
      if (row && (!latest || field(*row, "run_id") > field(*latest, "run_id"))) latest = row;
    }
  return latest;
}

void add_vendor(Best& best, const std::vector<const CsvRow*>& rows, const ResultsSet& set) {
  const CsvRow* found = fastest(rows, [](const CsvRow& r) { return is_vendor(field(r, "variant")); });
  if (const auto key = parse_key(best.problem))
    for (const CsvRow& peer : set.peers) {
      if (!is_ok(peer) || field(peer, "device") != best.device || field(peer, "cache") != best.cache)
        continue;
      const auto other = parse_key(field(peer, "problem"));
      if (other && same_problem(*key, *other) &&
          (!found || number(peer, "time_us") < number(*found, "time_us")))
        found = &peer;
    }
  best.vendor_us = found ? number(*found, "time_us") : NAN;
  best.vendor = found ? field(*found, "variant") : "";
}

}  // namespace

std::vector<Best> winners_of(const ResultsSet& set) {
  std::vector<std::pair<std::string, std::string>> order;  // device, problem
  std::map<std::pair<std::string, std::string>, std::vector<const CsvRow*>> groups;
  const std::vector<RowRole> roles = roles_of(set.rows);
  for (std::size_t i = 0; i < roles.size(); ++i) {
    if (roles[i] == RowRole::aside) continue;
    const CsvRow& row = set.rows[i];
    auto& group = groups[{field(row, "device"), field(row, "problem")}];
    if (group.empty()) order.emplace_back(field(row, "device"), field(row, "problem"));
    group.push_back(&row);
  }
  std::vector<Best> winners;
  for (const auto& key : order) {
    const auto& rows = groups[key];
    const CsvRow* won = row_of_wisdom(set, rows);
    const bool by_wisdom = won != nullptr;
    std::string latest;  // ids begin with the time
    for (const CsvRow* r : rows)
      if (is_ok(*r)) latest = std::max(latest, field(*r, "run_id"));
    if (!won) won = fastest(rows, [&](const CsvRow& r) { return field(r, "run_id") == latest; });
    if (!won) continue;
    const CsvRow* naive = fastest(rows, [](const CsvRow& r) { return is_naive(field(r, "variant")); });
    Best& best = winners.emplace_back(Best{.device = key.first,
                                           .op = field(*won, "op"),
                                           .problem = key.second,
                                           .variant = field(*won, "variant"),
                                           .config = field(*won, "config"),
                                           .cache = field(*won, "cache"),
                                           .run_id = field(*won, "run_id"),
                                           .throttled = field(*won, "throttled"),
                                           .time_us = number(*won, "time_us"),
                                           .floor_us = number(*won, "floor_us"),
                                           .pct_floor = number(*won, "pct_floor"),
                                           .bytes = number(*won, "bytes"),
                                           .flops = number(*won, "flops"),
                                           .naive_us = naive ? number(*naive, "time_us") : NAN,
                                           .vendor_us = NAN,
                                           .by_wisdom = by_wisdom});
    add_vendor(best, rows, set);
  }
  return winners;
}

namespace {

/// The winners as wisdom, so that the nearest context is found as decode finds it.
Wisdom wisdom_of(const OpTable& ops, const std::vector<Best>& winners) {
  Wisdom wisdom;
  for (const Best& best : winners) try {
      const auto open = best.problem.find('[');
      auto dims = parse_pairs(best.problem.substr(open + 1, best.problem.size() - open - 2));
      const DType dtype = parse_dtype(dims.back().second);
      dims.pop_back();
      wisdom.put({.problem = ops.find(best.op).op.problem(dims, dtype),
                  .variant = best.variant,
                  .time_us = best.time_us,
                  .made_on = {best.device, best.device, "", "", ""}});
    } catch (const std::exception&) {  // an op or a dim of another program
    }
  return wisdom;
}

int integer(const CsvRow& row, const std::string& column) {
  return static_cast<int>(std::strtol(field(row, column).c_str(), nullptr, 10));
}

Step step_of(const OpTable& ops, const CsvRow& row, const WinnerLookup& lookup) {
  Step step{.device = field(row, "device"),
            .model = field(row, "model"),
            .plan_set = field(row, "plan_set"),
            .batch = integer(row, "batch"),
            .context = integer(row, "context"),
            .us_per_token = number(row, "us_per_token"),
            .sum_of_ops_us = number(row, "sum_of_ops_us"),
            .floor_us = number(row, "floor_us")};
  const ModelConfig& config = preset(step.model);
  const ModelProblems of(ops, config, parse_dtype(field(row, "dtype")));
  const Provenance here{step.device, step.device, "", "", ""};
  const auto part = [&](const char* role, const Problem& problem, int count) {
    const Winner* winner = lookup.find(problem, here).winner;
    if (winner && winner->made_on.device != step.device) winner = nullptr;
    return StepPart{.role = role,
                    .problem = winner ? winner->problem.key() : problem.key(),
                    .variant = winner ? winner->variant : "",
                    .count = count,
                    .us = winner ? winner->time_us : NAN};
  };
  const int layers = config.layers;
  const std::int64_t batch = step.batch, context = context_bucket(step.context);
  const StepPart rope = part("RoPE and append", of.rope_append(batch, batch, context), layers),
                 attention = part("attention", of.attention_decode(batch, context, false), layers),
                 fused = part("attention with RoPE", of.attention_decode(batch, context, true), layers);
  step.parts = {part("embedding", of.embedding(batch), 1), part("first norm", of.rms_norm(batch), 1),
                part("qkv projection", of.qkv(batch), layers)};
  if (!(fused.us > rope.us + attention.us) && !std::isnan(fused.us))
    step.parts.push_back(fused);
  else
    step.parts.insert(step.parts.end(), {rope, attention});
  for (const StepPart& p :
       {part("output projection", of.o(batch), layers),
        part("add and norm", of.add_rms_norm(batch), 2 * layers),
        part("gate and up projection", of.gate_up(batch), layers), part("SwiGLU", of.swiglu(batch), layers),
        part("down projection", of.down(batch), layers), part("logits", of.lm_head(batch), 1),
        part("argmax", of.argmax(batch), 1), part("advance", of.advance(batch), 1)})
    step.parts.push_back(p);
  return step;
}

}  // namespace

std::vector<Step> steps_of(const OpTable& ops, const ResultsSet& set, const std::vector<Best>& winners) {
  const Wisdom wisdom = wisdom_of(ops, winners);
  const WinnerLookup lookup(ops, wisdom);
  const auto presets = preset_names();
  std::map<std::array<std::string, 5>, const CsvRow*> last;
  // Runs with another KV cache (plan_set "tuned+kv=int8") have other ops than the plain step.
  for (const CsvRow& row : set.decode)
    if (contains(presets, field(row, "model")) && is_plain_step(field(row, "plan_set")))
      last[{field(row, "device"), field(row, "model"), field(row, "batch"), field(row, "context"),
            field(row, "plan_set")}] = &row;
  std::vector<Step> steps;
  for (const auto& [key, row] : last) steps.push_back(step_of(ops, *row, lookup));
  return steps;
}

}  // namespace warptune
