#include "harness/tune/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/core/op.h"
#include "harness/core/yaml_reader.h"
#include "harness/custom/kernel_files.h"
#include "harness/llama/model_problems.h"
#include "harness/results/sweep_file.h"
#include "harness/tune/sweep_models.h"
#include "harness/tune/sweep_settings.h"

namespace warptune {
namespace {

using Dims = std::vector<std::pair<std::string, std::string>>;
using DimLists = std::vector<std::pair<std::string, std::vector<std::string>>>;

constexpr std::size_t kMaxProblems = 1'000'000, kMaxSteps = 1000;  // 1.3 GB of problems
constexpr double kMaxRepeated = 2e6;                               // with repetitions
constexpr double kMaxGiven = 1e7;        // steps and prefills of a model; many contexts share a problem
constexpr double kMaxBytes = 1LL << 43;  // more than any memory; limit of a tensor and of a launch

/// Throws InputError for sizes beyond any memory, before they overflow.
void check_size(const Op& op, const Problem& problem) {
  const auto too_large = [&](const std::string& what, double bytes) {
    if (bytes > kMaxBytes)
      throw InputError("{} of {} takes {:.3g} bytes, more than any memory", what, problem.key(), bytes);
  };
  too_large("a launch", op.cost(problem).bytes);
  for (const TensorSpec& spec : op.tensors(problem, 0)) {
    double bytes = static_cast<double>(size_of(spec.dtype));
    for (const std::int64_t extent : spec.shape) bytes *= static_cast<double>(extent);
    too_large(fmt::format("tensor '{}'", spec.name), bytes);
  }
}

class Loader {
 public:
  Loader(const OpTable& ops, const std::filesystem::path& path)
      : ops_(&ops), yaml_(path.string()), path_(path), folder_(path.parent_path()) {
    sweep_.name = path.stem().string();
  }

  Sweep load() {
    const YAML::Node& root = yaml_.root();
    if (!root.IsMap()) yaml_.fail(root, "a sweep must be a map with 'ops', 'models' or 'steps'");
    yaml_.expect_keys(root, "a sweep",
                      {"name",      "device",    "dtypes",        "cache",       "seed",
                       "inputs",    "output",    "sampling",      "finalists",   "other_caches",
                       "objective", "sustained", "fresh_process", "max_configs", "constraint_rows",
                       "missing",   "prune",     "strategy",      "ops",         "models",
                       "steps",     "kernels",   "kernel_files",  "ops_defined", "tune"});
    read_name(root);
    if (defines_kernels(root)) {
      sweep_.kernels.paths = {std::filesystem::absolute(path_)};
      sweep_.own_ops = with_kernels(*ops_, sweep_.kernels.paths);
      sweep_.kernels.hash = hash_of_kernels(*sweep_.own_ops);
      ops_ = sweep_.own_ops.get();
    }
    sweep_.ops = ops_;
    if (root["device"]) sweep_.device = device_of(yaml_, root["device"]);
    if (root["output"]) sweep_.output = yaml_.text(root["output"], "'output'");
    if (root["seed"]) options_.seed = seed_of(yaml_, root["seed"]);
    if (root["sampling"]) read_sampling(yaml_, root["sampling"], options_);
    if (root["cache"]) options_.cache = cache_of(yaml_, root["cache"]);
    if (root["inputs"]) read_inputs(root);
    if (root["strategy"]) sweep_.search = search_of(yaml_, root["strategy"]);
    if (root["max_configs"]) max_configs_ = max_configs_of(yaml_, root["max_configs"]);
    if (root["finalists"]) finalists_ = count_of(yaml_, root["finalists"], "finalists");
    if (root["objective"]) objective_ = objective_of(yaml_, root["objective"]);
    if (root["other_caches"]) other_caches_ = yaml_.yes(root["other_caches"], "'other_caches'");
    if (root["sustained"]) sustained_ = yaml_.yes(root["sustained"], "'sustained'");
    if (root["fresh_process"]) sweep_.fresh_process = yaml_.yes(root["fresh_process"], "'fresh_process'");
    if (root["missing"]) sweep_.missing = yaml_.yes(root["missing"], "'missing'");
    if (root["constraint_rows"])
      sweep_.constraint_rows = yaml_.yes(root["constraint_rows"], "'constraint_rows'");
    if (root["prune"]) sweep_.prune = prune_of(yaml_, root["prune"]);
    if (root["dtypes"]) dtypes_ = dtypes_of(yaml_, root["dtypes"]);
    if (!root["ops"] && !root["models"] && !root["steps"])
      yaml_.fail(root, "a sweep needs 'ops', 'models' or 'steps'");
    read_list(root["ops"], "'ops'", &Loader::read_op);
    read_list(root["models"], "'models'", &Loader::read_model);
    read_list(root["steps"], "'steps'", &Loader::read_steps);
    if (root["tune"]) read_tune(root["tune"]);
    for (const auto& [tensor, used] : inputs_used_)
      if (!used) yaml_.fail(root["inputs"], "no problem has an input '{}'", brief(tensor));
    return std::move(sweep_);
  }

 private:
  void read_list(const YAML::Node& list, const char* what, void (Loader::*read)(const YAML::Node&)) {
    if (!list) return;
    yaml_.expect_list(list, what);
    for (const YAML::Node& node : list) (this->*read)(node);
  }

  void read_name(const YAML::Node& root) {
    const YAML::Node named = root["name"];
    if (named) sweep_.name = yaml_.text(named, "'name'");
    if (const std::string fault = fault_of_sweep_name(sweep_.name); !fault.empty())
      yaml_.fail(named ? named : root, "'name' is '{}'; {}", brief(sweep_.name), fault);
  }

  void read_tune(const YAML::Node& node) {
    yaml_.expect_map(node, "'tune'");
    yaml_.expect_keys(node, "'tune'", {"share"});
    for (const YAML::Node& dim : yaml_.items(node["share"], "'share'")) {
      sweep_.share.push_back(yaml_.text(dim, "a dim of 'share'"));
      const auto has = [&](const SweepItem& item) { return item.entry->op.find_dim(sweep_.share.back()); };
      if (std::ranges::none_of(sweep_.items, has))
        yaml_.fail(dim, "'share' names '{}', and no op of the sweep has that dim",
                   brief(sweep_.share.back()));
    }
  }

  /// Inputs of all ops and models that have such a tensor; one has it at least.
  void read_inputs(const YAML::Node& root) {
    if (root["steps"])
      yaml_.fail(root["inputs"], "'inputs' changes the problems of 'ops' and 'models'; 'steps' run a model");
    options_.inputs = inputs_of(yaml_, root["inputs"], {});
    for (const InputChange& change : options_.inputs) inputs_used_.emplace(change.tensor, false);
  }

  /// The changed inputs of a problem: the ones of the sweep that it has, then its own item's, which it must
  /// have.
  InputChanges inputs_for(const Op& op, const Problem& problem, const YAML::Node* own = nullptr) {
    InputChanges inputs;
    if (!options_.inputs.empty()) {
      const auto names = names_of(op.tensors(problem, 0));
      for (const InputChange& change : options_.inputs)
        if (contains(names, change.tensor)) {
          inputs.push_back(change);
          inputs_used_[change.tensor] = true;
        }
      yaml_.at(yaml_.root()["inputs"], [&] { check_inputs(op, problem, inputs); });
    }
    if (!own || !*own) return inputs;
    inputs = inputs_of(yaml_, *own, std::move(inputs));
    yaml_.at(*own, [&] { check_inputs(op, problem, inputs); });
    return inputs;
  }

  const OpEntry& op_of(const YAML::Node& node, const std::string& name) const {
    return *yaml_.at(node, [&] { return &ops_->find(name); });
  }

  /// The values of each dim of a map.
  DimLists lists_of(const YAML::Node& node, const Op& op) const {
    yaml_.expect_map(node, fmt::format("a problem of op '{}'", op.name));
    DimLists lists;
    for (const auto& pair : node) {
      const std::string name = pair.first.Scalar();
      if (!op.find_dim(name)) {
        const auto known = names_of(op.dims);
        yaml_.fail(pair.first, "op '{}' has no dim '{}'{}", op.name, brief(name),
                   did_you_mean(name, known, "its dims are"));
      }
      auto values = yaml_.values(pair.second, fmt::format("dim '{}'", name));
      for (const std::string& value : values) yaml_.at(pair.second, [&] { check_value(op, name, value); });
      lists.emplace_back(name, std::move(values));
    }
    return lists;
  }

  /// The cross product; the last dim varies fastest.
  static std::vector<Dims> crossed(const DimLists& lists) {
    std::vector<Dims> problems{{}};
    for (const auto& [name, values] : lists) {
      std::vector<Dims> more;
      for (const Dims& dims : problems)
        for (const std::string& value : values) {
          more.push_back(dims);
          more.back().emplace_back(name, value);
        }
      problems = std::move(more);
    }
    return problems;
  }

  /// Counts before anything is built: the problems may not fit the memory. Repetitions take time as well.
  void expect_possible(const YAML::Node& node, double problems) {
    counted_ += problems;
    if (problems > kMaxProblems || counted_ > kMaxRepeated)
      yaml_.fail(node, "{:.16g} problems; a sweep takes at most {}",
                 problems > kMaxProblems ? problems : counted_, kMaxProblems);
  }

  /// The problem; throws InputError where its sizes exceed any memory.
  Problem problem_of(const OpEntry& entry, const Dims& dims, DType dtype) const {
    Problem problem = entry.op.problem(dims, dtype);
    check_size(entry.op, problem);
    return problem;
  }

  /// Checks a value on its own, so that the message has its line.
  static void check_value(const Op& op, const std::string& name, const std::string& text) {
    const Dim& dim = *op.find_dim(name);
    if (!dim.labels.empty()) {
      if (!contains(dim.labels, text))
        throw InputError("dim '{}' of op '{}' is '{}'; it must be one of {}", name, op.name, brief(text),
                         listed(dim.labels));
      return;
    }
    check_dim(op, dim, whole_number(text, fmt::format("dim '{}' of op '{}'", name, op.name)));
  }

  void read_op(const YAML::Node& node) {
    yaml_.expect_keys(
        node, "an item of 'ops'",
        {"op", "problems", "variants", "skip", "constraints", "dtypes", "cache", "inputs", "max_configs"});
    if (!node["op"]) yaml_.fail(node, "an item of 'ops' needs 'op'");
    const OpEntry& entry = op_of(node["op"], yaml_.text(node["op"], "'op'"));
    auto dtypes = node["dtypes"] ? dtypes_of(yaml_, node["dtypes"]) : dtypes_;
    if (!node["dtypes"] && entry.op.dtypes == std::vector{DType::int32}) dtypes = entry.op.dtypes;
    SweepItem item{.entry = &entry, .options = options_};
    item.max_configs = node["max_configs"] ? max_configs_of(yaml_, node["max_configs"]) : max_configs_;
    if (node["cache"]) item.options.cache = cache_of(yaml_, node["cache"]);
    item.named = bool(node["variants"]);
    item.where = yaml_.where(item.named ? node["variants"] : node);
    item.choices = item.named ? read_variants(yaml_, node["variants"], entry) : all_variants(entry);
    if (node["skip"]) skip(skip_patterns(yaml_, node["skip"]), item);
    if (node["constraints"]) add_constraints(yaml_, node["constraints"], entry, item.choices);
    if (!node["problems"]) yaml_.fail(node, "op '{}' needs 'problems'", entry.op.name);
    yaml_.expect_list(node["problems"], "'problems'");
    for (const YAML::Node& map : node["problems"]) {
      auto count = static_cast<double>(dtypes.size());
      for (const auto& [name, values] : lists_of(map, entry.op)) count *= static_cast<double>(values.size());
      expect_possible(map, count);
    }
    const YAML::Node own_inputs = node["inputs"];
    for (const YAML::Node& map : node["problems"])
      for (const Dims& dims : crossed(lists_of(map, entry.op)))
        for (const DType dtype : dtypes) {
          item.problem = yaml_.at(map, [&] { return problem_of(entry, dims, dtype); });
          item.options.inputs = inputs_for(entry.op, item.problem, &own_inputs);
          add(item, map);
        }
  }

  void read_model(const YAML::Node& node) {
    yaml_.expect_keys(node, "an item of 'models'",
                      {"model", "ranks", "batch", "context", "prompt_len", "weights", "kv_dtype", "k_layout",
                       "page_size", "window", "dtypes", "cache", "ops", "variants", "skip", "max_configs"});
    const ModelItem model = read_model_item(yaml_, node, folder_);
    const auto dtypes = node["dtypes"] ? dtypes_of(yaml_, node["dtypes"]) : dtypes_;

    BenchOptions options = options_;
    if (node["cache"]) options.cache = cache_of(yaml_, node["cache"]);
    std::vector<const OpEntry*> ops;
    if (node["ops"])
      for (const YAML::Node& item : yaml_.items(node["ops"], "'ops'"))
        ops.push_back(&op_of(item, yaml_.text(item, "an op")));
    std::vector<std::pair<const OpEntry*, std::vector<VariantChoice>>> named;
    if (const YAML::Node variants = node["variants"]) {
      yaml_.expect_map(variants, "'variants' of a model");
      for (const auto& pair : variants) {
        const OpEntry& entry = op_of(pair.first, pair.first.Scalar());
        named.emplace_back(&entry, read_variants(yaml_, pair.second, entry));
      }
    }
    const auto skipped = node["skip"] ? skip_patterns(yaml_, node["skip"]) : std::vector<Pattern>{};

    const auto kinds = static_cast<double>(dtypes.size());
    if (const double given = kinds * model.given_count(); given > kMaxGiven)
      yaml_.fail(node, "{:.16g} problems; a sweep takes at most {}", given, kMaxProblems);
    double problems = 0;
    for (const DType dtype : dtypes) problems += model.least_problems(dtype);
    expect_possible(node, problems);
    for (const DType dtype : dtypes)
      for (const std::int64_t batch : model.batches)
        for (auto& [problem, share] : yaml_.at(node, [&] { return model.problems(*ops_, dtype, batch); })) {
          const OpEntry& entry = op_of(node, problem.op);
          if (!ops.empty() && !contains(ops, &entry)) continue;
          yaml_.at(node, [&] { check_size(entry.op, problem); });
          SweepItem item{.entry = &entry, .problem = std::move(problem), .options = options};
          const auto it = std::ranges::find(named, &entry, [](const auto& pair) { return pair.first; });
          item.max_configs = node["max_configs"] ? max_configs_of(yaml_, node["max_configs"]) : max_configs_;
          item.named = it != named.end();
          item.where = yaml_.where(item.named ? node["variants"] : node);
          item.choices = item.named ? it->second : all_variants(entry);
          item.share = share;
          item.options.inputs = inputs_for(entry.op, item.problem);
          skip(skipped, item);
          add(std::move(item), node);
        }
  }

  void read_steps(const YAML::Node& node) {
    for (StepItem& step : read_step_item(yaml_, node, folder_, dtypes_)) {
      const std::int64_t contexts[] = {step.spec.context};
      yaml_.at(node, [&] {  // throws where the ops do not have these dims
        for (const Problem& problem : decode_problems(*ops_, step.spec.model, step.spec.dtype,
                                                      step.spec.batch, contexts, step.spec.kv))
          check_size(op_of(node, problem.op).op, problem);
      });
      step.spec.seed = options_.seed;
      step.candidates =
          node["candidates"] ? count_of(yaml_, node["candidates"], "candidates") : std::max(finalists_, 1);
      if (sweep_.steps.size() == kMaxSteps)
        yaml_.fail(node, "more than {} steps up to here; a sweep takes no more", kMaxSteps);
      sweep_.steps.push_back(std::move(step));
    }
  }

  static void skip(const std::vector<Pattern>& patterns, SweepItem& item) {
    std::erase_if(item.choices, [&](const VariantChoice& choice) {
      const std::string name = item.entry->op.name + "/" + choice.variant->name;
      return std::ranges::any_of(patterns, [&](const Pattern& pattern) { return pattern.matches(name); });
    });
  }

  /// A problem that comes up twice is solved once, by the variants of both.
  void add(SweepItem item, const YAML::Node& from) {
    item.finalists = finalists_;
    item.other_caches = other_caches_;
    item.sustained = sustained_;
    item.objective = objective_;
    const auto [at, is_new] =
        index_of_item_.try_emplace({item.problem.key(), item.options.cache}, sweep_.items.size());
    if (is_new) {
      if (sweep_.items.size() == kMaxProblems)
        yaml_.fail(from, "more than {} problems up to here; a sweep takes no more", kMaxProblems);
      sweep_.items.push_back(std::move(item));
      return;
    }
    SweepItem& known = sweep_.items[at->second];
    if (known.options.inputs != item.options.inputs)
      yaml_.fail(from, "{} comes up again with other 'inputs'; their rows need a sweep of their own",
                 item.problem.key());
    known.share = std::max(known.share, item.share);
    auto& choices = known.choices;
    for (VariantChoice& choice : item.choices)
      if (!contains(choices, choice.variant, &VariantChoice::variant)) choices.push_back(std::move(choice));
  }

  const OpTable* ops_;  // with the kernels of the sweep
  YamlReader yaml_;
  std::filesystem::path path_;
  std::filesystem::path folder_;
  Sweep sweep_;
  std::map<std::pair<std::string, CacheMode>, std::size_t> index_of_item_;
  BenchOptions options_;
  std::vector<DType> dtypes_ = {DType::bf16};
  int max_configs_ = 0, finalists_ = 8;
  bool other_caches_ = false, sustained_ = false;
  Objective objective_ = Objective::time;
  double counted_ = 0;                       // problems so far, with repetitions
  std::map<std::string, bool> inputs_used_;  // tensors of the sweep's inputs, and whether a problem has them
};

}  // namespace

int ranks_of(const Sweep& sweep) {
  Problem first;
  std::int64_t ranks = 1;
  const auto add = [&](const Problem& problem, const std::string& where) {
    const std::int64_t own = ranks_of(problem);
    if (own == 1 || own == ranks) return;
    if (ranks > 1)
      throw InputError("{}{} is for {} ranks, {} for {}; a sweep has one number of ranks",
                       where.empty() ? "" : where + ": ", problem.key(), own, first.key(), ranks);
    first = problem;
    ranks = own;
  };
  for (const SweepItem& item : sweep.items) add(item.problem, item.where);
  for (const StepItem& item : sweep.steps) add(step_problem(item.spec), item.where);
  return static_cast<int>(ranks);
}

Sweep load_sweep(const OpTable& ops, const std::filesystem::path& path) { return Loader(ops, path).load(); }

}  // namespace warptune
