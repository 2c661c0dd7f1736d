#include "harness/tune/dry_run.h"

#include <fmt/format.h>

#include <map>

#include "harness/tune/device_worker.h"
#include "harness/tune/plan.h"

namespace warptune {

void dry_run(const Sweep& sweep, const TuneOptions& options) {
  const auto workers = start_workers(sweep, options);
  const DeviceFacts& facts = workers.front()->facts();
  const auto problems = keep_shard(plan_sweep(sweep, facts, options.filter), options.shard);
  struct Counts {
    std::int64_t before = 0, after = 0, tried = 0;
    void add(const SpaceCount& c) {
      before += c.before;
      after += c.after;
      tried += c.tried;
    }
  };
  const auto line = [&](const auto& c, const std::string& text) {
    fmt::print(options.log, "{:>10}  {:>10}  {:>10}  {}\n", c.before, c.after, c.tried, text);
  };
  fmt::print(options.log, "{:>10}  {:>10}  {:>10}  op/variant, problem\n", "before", "after", "tried");
  std::vector<std::string> order;
  std::map<std::string, Counts> variants;
  Counts total;
  for (const PlannedProblem& p : problems)
    for (const SpaceCount& count : p.counts) {
      const std::string name = p.item->entry->op.name + "/" + count.variant->name;
      line(count, name + " " + p.item->problem.key());
      if (!variants.contains(name)) order.push_back(name);
      variants[name].add(count);
      total.add(count);
    }
  fmt::print(options.log, "\n{:>10}  {:>10}  {:>10}  op/variant, all problems\n", "before", "after", "tried");
  for (const std::string& name : order) line(variants[name], name);
  std::size_t budget = 0;
  for (const PlannedProblem& p : problems) budget += sweep.search.budget.evaluations(p.candidates.size());
  line(total, fmt::format("total of {} problems on {} ({})", problems.size(), facts.name, facts.arch));
  const bool timed = sweep.search.budget.unit == Budget::Unit::seconds;
  fmt::print(options.log, "\nstrategy {}: at most {} evaluations{}\n", sweep.search.strategy, budget,
             timed ? fmt::format(", {:g} s per problem", sweep.search.budget.amount) : "");
}

}  // namespace warptune
