#include "harness/tune/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/expression.h"
#include "harness/core/limits.h"
#include "harness/measure/statistics.h"
#include "harness/results/sweep_file.h"
#include "harness/search/strategy.h"
#include "harness/tune/prune.h"
#include "harness/tune/sweep_models.h"
#include "harness/tune/yaml_reader.h"

namespace warptune {
namespace {

using Dims = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kMostProblems = 10000;
constexpr double kMostBytes = 1LL << 43;  // of a tensor or a launch: more than any memory

template <class Range, class Name>
std::vector<std::string> names_of(const Range& range, Name name) {
  std::vector<std::string> names;
  for (const auto& item : range) names.push_back(item.*name);
  return names;
}

/// Throws InputError for sizes that no memory holds, before they overflow.
void check_size(const Op& op, const Problem& problem) {
  const auto too_large = [&](const std::string& what, double bytes) {
    if (bytes > kMostBytes)
      throw InputError(
          fmt::format("{} of {} takes {:.3g} bytes, more than any memory", what, problem.key(), bytes));
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
      : ops_(ops), yaml_(path.string()), folder_(path.parent_path()) {
    sweep_.name = path.stem().string();
  }

  Sweep load() {
    const YAML::Node& root = yaml_.root();
    if (!root.IsMap()) yaml_.fail(root, "a sweep must be a map with 'ops' or 'models'");
    yaml_.expect_keys(root, "a sweep",
                      {"name", "device", "dtypes", "cache", "seed", "output", "sampling", "finalists", "most",
                       "constraint_rows", "prune", "strategy", "ops", "models"});
    read_name(root);
    if (root["device"]) read_device(root["device"]);
    if (root["output"]) sweep_.output = yaml_.text(root["output"], "'output'");
    if (root["seed"]) {
      const std::int64_t seed = yaml_.whole(root["seed"], "'seed'");
      if (seed < 0) yaml_.fail(root["seed"], fmt::format("'seed' is {}; it must be 0 or more", seed));
      options_.seed = static_cast<std::uint64_t>(seed);
    }
    if (root["sampling"]) read_sampling(root["sampling"]);
    if (root["cache"]) options_.cache = cache_of(root["cache"]);
    if (root["strategy"]) read_strategy(root["strategy"]);
    if (root["most"]) most_ = most_of(root["most"]);
    if (root["finalists"]) finalists_ = finalists_of(root["finalists"]);
    if (root["constraint_rows"])
      sweep_.constraint_rows = yaml_.yes(root["constraint_rows"], "'constraint_rows'");
    if (root["prune"]) read_prune(root["prune"]);
    if (root["dtypes"]) dtypes_ = dtypes_of(root["dtypes"]);
    if (!root["ops"] && !root["models"]) yaml_.fail(root, "a sweep needs 'ops' or 'models'");
    if (root["ops"]) {
      yaml_.expect_list(root["ops"], "'ops'");
      for (const YAML::Node& node : root["ops"]) read_op(node);
    }
    if (root["models"]) {
      yaml_.expect_list(root["models"], "'models'");
      for (const YAML::Node& node : root["models"]) read_model(node);
    }
    return std::move(sweep_);
  }

 private:
  void read_name(const YAML::Node& root) {
    const YAML::Node named = root["name"];
    if (named) sweep_.name = yaml_.text(named, "'name'");
    if (const std::string fault = fault_of_sweep_name(sweep_.name); !fault.empty())
      yaml_.fail(named ? named : root, fmt::format("'name' is '{}'; {}", brief(sweep_.name), fault));
  }

  void read_device(const YAML::Node& node) {
    sweep_.device = yaml_.text(node, "'device'");
    static const std::regex good("all|(auto|host|cuda:[0-9]+)(,(auto|host|cuda:[0-9]+))*");
    constexpr std::size_t kMost = 1000;  // std::regex recurses
    if (sweep_.device.size() > kMost || !std::regex_match(sweep_.device, good))
      yaml_.fail(node,
                 fmt::format("'device' is '{}'; it must be auto, host, cuda:N, all, or a list with commas",
                             brief(sweep_.device)));
  }

  void read_sampling(const YAML::Node& node) {
    yaml_.expect_keys(node, "'sampling'", {"max_rel_ci", "min_samples", "max_time"});
    if (node["max_rel_ci"]) options_.max_rel_ci = yaml_.positive(node["max_rel_ci"], "'max_rel_ci'");
    if (node["max_time"]) options_.max_time = yaml_.positive(node["max_time"], "'max_time'");
    if (node["min_samples"]) {
      const std::int64_t n = yaml_.whole(node["min_samples"], "'min_samples'");
      if (n < kFewestForInterval || n > 100000)
        yaml_.fail(node["min_samples"],
                   fmt::format("'min_samples' is {}; it must be {} to 100000 (fewer give no 95 % interval)",
                               n, kFewestForInterval));
      options_.min_samples = static_cast<int>(n);
    }
  }

  /// A name, or {name: ..., budget: ..., seed: ..., resources: ...}.
  void read_strategy(const YAML::Node& node) {
    SearchChoice& search = sweep_.search;
    if (node.IsMap()) yaml_.expect_keys(node, "'strategy'", {"name", "budget", "seed", "resources"});
    const YAML::Node name = node.IsMap() ? node["name"] : node;
    if (!name) yaml_.fail(node, "'strategy' needs 'name'");
    search.strategy = yaml_.text(name, "'strategy'");
    const auto& known = strategy_names();
    if (std::ranges::find(known, search.strategy) == known.end())
      yaml_.fail(name,
                 fmt::format("unknown strategy '{}'; known are {}", brief(search.strategy), listed(known)));
    if (search.strategy != "exhaustive") search.budget = parse_budget("15%");
    if (!node.IsMap()) return;
    if (const YAML::Node budget = node["budget"])
      search.budget = yaml_.at(budget, [&] { return parse_budget(yaml_.text(budget, "'budget'")); });
    if (node["resources"]) search.resources = yaml_.yes(node["resources"], "'resources'");
    if (node["seed"]) {
      const std::int64_t seed = yaml_.whole(node["seed"], "'seed'");
      if (seed < 0) yaml_.fail(node["seed"], fmt::format("'seed' is {}; it must be 0 or more", seed));
      search.seed = static_cast<std::uint64_t>(seed);
    }
  }

  void read_prune(const YAML::Node& node) {
    for (const YAML::Node& item : yaml_.items(node, "'prune'")) {
      sweep_.prune.push_back(yaml_.text(item, "a condition of 'prune'"));
      yaml_.at(item, [&] { PruneRules({sweep_.prune.back()}); });
    }
  }

  CacheMode cache_of(const YAML::Node& node) const {
    const std::string text = yaml_.text(node, "'cache'");
    const auto cache = cache_mode_of(text);
    if (!cache) yaml_.fail(node, fmt::format("'cache' is '{}'; it must be cold or hot", brief(text)));
    return *cache;
  }

  int most_of(const YAML::Node& node) const {
    const std::int64_t most = yaml_.whole(node, "'most'");
    if (most < 1 || most > 1000000)
      yaml_.fail(node, fmt::format("'most' is {}; it must be 1 to 1000000", most));
    return static_cast<int>(most);
  }

  int finalists_of(const YAML::Node& node) const {
    const std::int64_t n = yaml_.whole(node, "'finalists'");
    if (n < 1 || n > 64) yaml_.fail(node, fmt::format("'finalists' is {}; it must be 1 to 64", n));
    return static_cast<int>(n);
  }

  std::vector<DType> dtypes_of(const YAML::Node& node) const {
    std::vector<DType> dtypes;
    for (const YAML::Node& item : yaml_.items(node, "'dtypes'")) {
      const std::string name = yaml_.text(item, "a dtype");
      static const std::vector<std::string> known = {"fp32", "fp16", "bf16", "int32"};
      if (std::ranges::find(known, name) == known.end())
        yaml_.fail(item, fmt::format("unknown dtype '{}'; known are {}", brief(name), listed(known)));
      dtypes.push_back(parse_dtype(name));
    }
    return dtypes;
  }

  /// Adds the constraints to the choices whose names they use; a constraint that fits none is wrong.
  void add_constraints(const YAML::Node& node, const OpEntry& entry, std::span<VariantChoice> choices) const {
    for (const YAML::Node& item : yaml_.items(node, "'constraints'")) {
      const std::string text = yaml_.text(item, "a constraint");
      std::string wrong;
      bool fits = false;
      for (VariantChoice& choice : choices) {
        std::vector<std::string> variables =
            known_values(Problem{}, DeviceFacts{}).names;  // of every problem and device
        const auto add = [&](const std::string& name) {
          if (std::ranges::find(variables, name) == variables.end()) variables.push_back(name);
        };
        for (const Parameter& parameter : choice.variant->parameters) add(parameter.name);
        for (const Dim& dim : entry.op.dims) add(dim.name);
        try {
          Expression(text, variables);
          choice.constraints.push_back(text);
          fits = true;
        } catch (const InputError& e) {
          wrong = e.what();
        }
      }
      if (!fits) yaml_.fail(item, wrong);
    }
  }

  const OpEntry& op_of(const YAML::Node& node, const std::string& name) const {
    return *yaml_.at(node, [&] { return &ops_.find(name); });
  }

  std::int64_t parameter_value(const YAML::Node& node, const Parameter& parameter,
                               const std::string& text) const {
    if (const auto labelled = value_of_label(parameter, text)) return *labelled;
    if (!parameter.labels.empty())
      yaml_.fail(node, fmt::format("parameter '{}' is '{}'; it must be one of {}", parameter.name,
                                   brief(text), listed(offered_labels(parameter))));
    const std::int64_t value =
        yaml_.at(node, [&] { return whole_number(text, fmt::format("parameter '{}'", parameter.name)); });
    const bool zero = std::ranges::find(parameter.values, 0) != parameter.values.end();
    if (value < (zero ? 0 : 1))
      yaml_.fail(node, fmt::format("parameter '{}' is {}; it must be at least {}", parameter.name, value,
                                   zero ? 0 : 1));
    return value;
  }

  VariantChoice choice_of(const YAML::Node& node, const OpEntry& entry, const std::string& name) const {
    const Variant* variant = entry.find_variant(name);
    if (!variant) {
      for (const OptionalVariant& optional : entry.optional_variants)
        if (optional.name == name)
          yaml_.fail(node, fmt::format("op '{}' has no variant '{}' here: {}", entry.op.name, name,
                                       optional.why_missing));
      const auto known = names_of(entry.variants, &Variant::name);
      const std::string hint = near_miss(name, known);
      yaml_.fail(node, fmt::format("op '{}' has no variant '{}'{}", entry.op.name, brief(name),
                                   hint.empty() ? "; it has " + listed(known) : hint));
    }
    return {.variant = variant, .overrides = {}, .constraints = {}};
  }

  /// A name, or {name: {parameters: {...}, constraints: [...]}}.
  VariantChoice read_variant(const YAML::Node& node, const OpEntry& entry) const {
    if (node.IsScalar()) return choice_of(node, entry, node.Scalar());
    if (!node.IsMap() || node.size() != 1)
      yaml_.fail(node, "a variant must be a name or {name: {parameters: ..., constraints: ...}}");
    const YAML::Node key = node.begin()->first, body = node.begin()->second;
    VariantChoice choice = choice_of(key, entry, yaml_.text(key, "a variant"));
    const Variant& variant = *choice.variant;
    const std::string what = fmt::format("variant '{}'", variant.name);
    if (body.IsNull()) return choice;
    yaml_.expect_keys(body, what, {"parameters", "constraints"});
    if (const YAML::Node parameters = body["parameters"]) {
      yaml_.expect_map(parameters, fmt::format("'parameters' of {}", what));
      for (const auto& pair : parameters) {
        const std::string name = pair.first.Scalar();
        const auto it = std::ranges::find(variant.parameters, name, &Parameter::name);
        if (it == variant.parameters.end()) {
          const auto known = names_of(variant.parameters, &Parameter::name);
          const std::string hint = near_miss(name, known);
          yaml_.fail(pair.first,
                     fmt::format("variant '{}/{}' has no parameter '{}'{}", entry.op.name, variant.name,
                                 brief(name), hint.empty() ? "; it has " + listed(known) : hint));
        }
        Override values{.parameter = name, .values = {}};
        for (const std::string& text : yaml_.values(pair.second, fmt::format("parameter '{}'", name)))
          values.values.push_back(parameter_value(pair.second, *it, text));
        choice.overrides.push_back(std::move(values));
      }
    }
    if (body["constraints"]) add_constraints(body["constraints"], entry, {&choice, 1});
    return choice;
  }

  std::vector<VariantChoice> read_variants(const YAML::Node& node, const OpEntry& entry) const {
    std::vector<VariantChoice> choices;
    for (const YAML::Node& item : yaml_.items(node, "'variants'")) {
      VariantChoice choice = read_variant(item, entry);
      if (std::ranges::find(choices, choice.variant, &VariantChoice::variant) != choices.end())
        yaml_.fail(item, fmt::format("variant '{}' is given twice", choice.variant->name));
      choices.push_back(std::move(choice));
    }
    return choices;
  }

  static std::vector<VariantChoice> all_variants(const OpEntry& entry) {
    std::vector<VariantChoice> choices;
    for (const Variant& variant : entry.variants) choices.push_back({&variant, {}, {}});
    return choices;
  }

  /// Crosses the values of a map of dims, the last dim varying fastest.
  std::vector<Dims> crossed(const YAML::Node& node, const Op& op) const {
    yaml_.expect_map(node, fmt::format("a problem of op '{}'", op.name));
    std::vector<Dims> problems{{}};
    for (const auto& pair : node) {
      const std::string name = pair.first.Scalar();
      if (!op.find_dim(name)) {
        const auto known = names_of(op.dims, &Dim::name);
        yaml_.fail(pair.first, fmt::format("op '{}' has no dim '{}'{}", op.name, brief(name),
                                           near_miss(name, known).empty() ? "; its dims are " + listed(known)
                                                                          : near_miss(name, known)));
      }
      const auto values = yaml_.values(pair.second, fmt::format("dim '{}'", name));
      for (const std::string& value : values) yaml_.at(pair.second, [&] { check_value(op, name, value); });
      if (problems.size() * values.size() > kMostProblems) too_many(pair.second);
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

  [[noreturn]] void too_many(const YAML::Node& node) const {
    yaml_.fail(node, fmt::format("more than {} problems; a sweep takes no more", kMostProblems));
  }

  /// Of sizes that fit a memory.
  Problem problem_of(const OpEntry& entry, const Dims& dims, DType dtype) const {
    Problem problem = entry.op.problem(dims, dtype);
    check_size(entry.op, problem);
    return problem;
  }

  /// The value alone, so that its own line is in the message.
  static void check_value(const Op& op, const std::string& name, const std::string& text) {
    const Dim& dim = *op.find_dim(name);
    if (!dim.labels.empty()) {
      if (std::ranges::find(dim.labels, text) == dim.labels.end())
        throw InputError(fmt::format("dim '{}' of op '{}' is '{}'; it must be one of {}", name, op.name,
                                     brief(text), listed(dim.labels)));
      return;
    }
    check_dim(op, dim, whole_number(text, fmt::format("dim '{}' of op '{}'", name, op.name)));
  }

  void read_op(const YAML::Node& node) {
    yaml_.expect_keys(node, "an item of 'ops'",
                      {"op", "problems", "variants", "skip", "constraints", "dtypes", "cache", "most"});
    if (!node["op"]) yaml_.fail(node, "an item of 'ops' needs 'op'");
    const OpEntry& entry = op_of(node["op"], yaml_.text(node["op"], "'op'"));
    auto dtypes = node["dtypes"] ? dtypes_of(node["dtypes"]) : dtypes_;
    if (!node["dtypes"] && entry.op.dtypes == std::vector{DType::int32}) dtypes = entry.op.dtypes;
    SweepItem item{.entry = &entry, .options = options_};
    item.most = node["most"] ? most_of(node["most"]) : most_;
    if (node["cache"]) item.options.cache = cache_of(node["cache"]);
    item.named = bool(node["variants"]);
    item.where = yaml_.where(item.named ? node["variants"] : node);
    item.choices = item.named ? read_variants(node["variants"], entry) : all_variants(entry);
    if (node["skip"]) skip(skip_patterns(yaml_, node["skip"]), item);
    if (node["constraints"]) add_constraints(node["constraints"], entry, item.choices);
    if (!node["problems"]) yaml_.fail(node, fmt::format("op '{}' needs 'problems'", entry.op.name));
    yaml_.expect_list(node["problems"], "'problems'");
    for (const YAML::Node& map : node["problems"])
      for (const Dims& dims : crossed(map, entry.op))
        for (const DType dtype : dtypes) {
          item.problem = yaml_.at(map, [&] { return problem_of(entry, dims, dtype); });
          add(item, map);
        }
  }

  void read_model(const YAML::Node& node) {
    yaml_.expect_keys(node, "an item of 'models'",
                      {"model", "batch", "context", "prompt_len", "kv_dtype", "page_size", "window", "dtypes",
                       "cache", "ops", "variants", "skip", "most"});
    const ModelItem model = read_model_item(yaml_, node, folder_);
    const auto dtypes = node["dtypes"] ? dtypes_of(node["dtypes"]) : dtypes_;

    BenchOptions options = options_;
    if (node["cache"]) options.cache = cache_of(node["cache"]);
    std::vector<const OpEntry*> ops;
    if (node["ops"])
      for (const YAML::Node& item : yaml_.items(node["ops"], "'ops'"))
        ops.push_back(&op_of(item, yaml_.text(item, "an op")));
    std::vector<std::pair<const OpEntry*, std::vector<VariantChoice>>> named;
    if (const YAML::Node variants = node["variants"]) {
      yaml_.expect_map(variants, "'variants' of a model");
      for (const auto& pair : variants) {
        const OpEntry& entry = op_of(pair.first, pair.first.Scalar());
        named.emplace_back(&entry, read_variants(pair.second, entry));
      }
    }
    const auto skipped = node["skip"] ? skip_patterns(yaml_, node["skip"]) : std::vector<std::regex>{};

    for (const DType dtype : dtypes)
      for (const std::int64_t batch : model.batches)
        for (Problem& problem : yaml_.at(node, [&] { return model.problems(ops_, dtype, batch); })) {
          const OpEntry& entry = op_of(node, problem.op);
          if (!ops.empty() && std::ranges::find(ops, &entry) == ops.end()) continue;
          yaml_.at(node, [&] { check_size(entry.op, problem); });
          SweepItem item{.entry = &entry, .problem = std::move(problem), .options = options};
          const auto it = std::ranges::find(named, &entry, [](const auto& pair) { return pair.first; });
          item.most = node["most"] ? most_of(node["most"]) : most_;
          item.named = it != named.end();
          item.where = yaml_.where(item.named ? node["variants"] : node);
          item.choices = item.named ? it->second : all_variants(entry);
          skip(skipped, item);
          add(std::move(item), node);
        }
  }

  static void skip(const std::vector<std::regex>& patterns, SweepItem& item) {
    std::erase_if(item.choices, [&](const VariantChoice& choice) {
      const std::string name = item.entry->op.name + "/" + choice.variant->name;
      return std::ranges::any_of(patterns,
                                 [&](const std::regex& pattern) { return std::regex_match(name, pattern); });
    });
  }

  /// The same problem from two places is solved once, by the variants of both.
  void add(SweepItem item, const YAML::Node& from) {
    item.finalists = finalists_;
    const auto [at, is_new] =
        places_.try_emplace({item.problem.key(), item.options.cache}, sweep_.items.size());
    if (is_new) {
      if (sweep_.items.size() == kMostProblems) too_many(from);
      sweep_.items.push_back(std::move(item));
      return;
    }
    auto& choices = sweep_.items[at->second].choices;
    for (VariantChoice& choice : item.choices)
      if (std::ranges::find(choices, choice.variant, &VariantChoice::variant) == choices.end())
        choices.push_back(std::move(choice));
  }

  const OpTable& ops_;
  YamlReader yaml_;
  std::filesystem::path folder_;
  Sweep sweep_;
  std::map<std::pair<std::string, CacheMode>, std::size_t> places_;  // of the items
  BenchOptions options_;
  std::vector<DType> dtypes_ = {DType::bf16};
  int most_ = 0, finalists_ = 8;
};

}  // namespace

Sweep load_sweep(const OpTable& ops, const std::filesystem::path& path) { return Loader(ops, path).load(); }

}  // namespace warptune
