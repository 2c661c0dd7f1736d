// warptune decode: runs, checks and times a LLaMA made of tuned plans.
#include "cli/decode.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <filesystem>

#include "cli/commands.h"
#include "cli/recorded_speed.h"
#include "cli/wisdom_in_use.h"
#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/core/print.h"
#include "harness/core/stopwatch.h"
#include "harness/llama/checkpoint.h"
#include "harness/llama/fusion_choice.h"
#include "harness/llama/layer_dump.h"
#include "harness/llama/memory_need.h"
#include "harness/llama/model_problems.h"
#include "harness/llama/tuned_dtypes.h"
#include "harness/measure/bench.h"
#include "harness/results/run_info.h"
#include "harness/tune/device_file.h"
#include "harness/tune/device_lock.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

constexpr double kMiB = 1 << 20;

void note(const std::string& text) { print_note(text); }

/// Adds to each op its recorded times and its roofline floor.
void describe(const OpTable& table, std::vector<OpTime>& ops, const Wisdom& wisdom,
              const DeviceFacts& facts) {
  for (OpTime& op : ops) {
    const OpEntry& entry = table.find(op.op);
    op.label = label_of(entry.op, op.problem);
    op.speed = recorded_speed(entry, op.problem, op.us, wisdom.winner_on(op.problem, facts.name), facts);
  }
}

/// "12 plans exact, 8 nearest; --explain lists them".
std::string plans_line(std::string sources, bool explained) {
  if (const auto space = sources.find(' '); space != std::string::npos) sources.insert(space, " plans");
  return sources + (explained ? "" : "; --explain lists them");
}

/// The part of the model that this rank has.
ModelConfig model_of(const DecodeOptions& o, const Ranks& ranks) {
  if (o.model_folder.empty() == o.preset_name.empty())
    throw InputError("decode needs either --model DIR or --preset NAME");
  ModelConfig config = o.preset_name.empty() ? read_model(o.model_folder) : preset(o.preset_name);
  if (!o.weights.empty()) {
    const WeightFormat wanted = parse_weight_format(o.weights);
    if (config.quantization && wanted.fp8_activations) config = with_fp8_activations(config);
    if (config.quantization && config.weights != wanted)
      throw InputError("--weights {} is for a model in 16 or 32 bits; the weights of {} are {}", wanted.str(),
                       config.name,
                       config.weights.quantized() ? config.weights.str()
                                                  : "in 16 bits, which its quantization_config asks for");
    config.weights = wanted;
  }
  return split_over_ranks(std::move(config), ranks.rank(), ranks.count());
}

void expect_weights(const DecodeOptions& o) {
  if (!o.model_folder.empty() && !o.random_weights && !Checkpoint::is_in(o.model_folder))
    throw InputError(
        "{} has neither model.safetensors nor model.safetensors.index.json; --random-weights SEED runs its "
        "config.json",
        o.model_folder);
}

DType dtype_of(const DecodeOptions& o, const DeviceFacts& facts) {
  if (o.dtype.empty()) return default_dtype(facts.backend);
  if (o.dtype != "fp32" && o.dtype != "fp16" && o.dtype != "bf16")
    throw InputError("--dtype is '{}'; it must be fp32, fp16 or bf16", brief(o.dtype));
  return parse_dtype(o.dtype);
}

KvFormat kv_format_of(const DecodeOptions& o, const ModelConfig& config) {
  KvFormat format = with_window(o.kv, config.window);
  if (o.kv_dtype == "int8") format.quantized = DType::int8;
  if (o.kv_dtype == "fp8") format.quantized = DType::fp8;
  if (o.k_layout == "dsx") format.k_layout = KLayout::dsx;
  return format;
}

PlanBook::Options book_options(const DecodeOptions& o, const DeviceFacts& facts) {
  PlanBook::Options options{.naive = o.baseline == "naive"};
  if (o.explain) options.tell = note;
  for (const std::string& text : o.variants)
    options.overrides.push_back(parse_plan_override(o.kernels.ops(), text));
  if (options.naive) return options;
  WisdomInUse in_use = wisdom_in_use(o.wisdom, facts, fs::path(o.out) / facts.slug() / "wisdom.json");
  if (in_use.found()) {
    if (o.explain) note("wisdom " + in_use.str());
    options.wisdom = std::move(in_use.wisdom);
    options.has_wisdom = true;
    options.stale = o.stale_wisdom == "use" ? StaleCode::use : StaleCode::refuse;
  } else {
    note(fmt::format("there is no wisdom at {}; what is not timed now uses a default", in_use.missing()));
  }
  return options;
}

/// A note where the wisdom has winners of the model in other dtypes only.
void note_other_dtypes(const PlanBook& book, const ModelConfig& config, DType dtype) {
  const std::vector<DType> tuned = tuned_dtypes(book.ops(), book.wisdom(), config);
  if (tuned.empty() || contains(tuned, dtype)) return;
  std::vector<std::string_view> names;
  for (const DType other : tuned) names.push_back(name_of(other));
  note(fmt::format("the wisdom has winners of {} in {} only, and this run is {}; --dtype {} uses them",
                   config.name, fmt::join(names, " and "), name_of(dtype), names.front()));
}

/// One sentence where the device does not have the memory of the run; else empty.
std::string lacking_memory(const ModelConfig& config, DType dtype, const KvFormat& format,
                           const RunShape& run, const Device& device) {
  const MemoryNeed need = memory_need(config, dtype, format, run);
  const auto free = static_cast<double>(device.free_bytes());
  if (need.total() <= free) return {};
  return fmt::format(
      "{} needs {:.0f} MiB (weights {:.0f}, KV cache {:.0f}, {:.0f} for the rest) and {} has "
      "{:.0f} MiB free",
      config.name, need.total() / kMiB, need.weights / kMiB, need.kv_cache / kMiB, need.rest / kMiB,
      device.facts().name, free / kMiB);
}

/// Whether the device has the memory of a run; with --if-fits a check that does not fit is left out of it.
/// `lack`: the sentence of lacking_memory() for this many models. Throws InputError without --if-fits.
bool fits(const DecodeOptions& o, const std::function<std::string(int)>& lack, int& check_steps) {
  const std::string why = lack(check_steps > 0 ? 2 : 1);
  if (why.empty()) return true;
  if (!o.if_fits) throw InputError(why);
  const bool fits_without_check = check_steps > 0 && lack(1).empty();
  note(fmt::format("the {} is left out: {}", fits_without_check ? "check" : "run", why));
  check_steps = 0;
  return fits_without_check;
}

/// The memory of the run: on a GPU the growth since the start, on the host the peak of this process.
double used_mib(const Device& device, std::size_t free_at_start) {
  if (device.facts().backend == Backend::cuda)
    return (static_cast<double>(free_at_start) - static_cast<double>(device.free_bytes())) / kMiB;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

FusionChoice fuse_of(const DecodeOptions& o) {
  FusionChoice fuse = o.fuse;
  if (o.baseline == "naive")
    for (std::optional<bool>* flag : fuse.all()) *flag = flag->value_or(false);
  return fuse;
}

void print_tokens(const std::vector<std::vector<int>>& transcript) {
  for (std::size_t b = 0; b < transcript.size() && b < 8; ++b) {
    std::string line;
    for (std::size_t i = 0; i < transcript[b].size() && i < 16; ++i)
      line += fmt::format(" {}", transcript[b][i]);
    print("sequence {}: {} tokens:{}{}\n", b, transcript[b].size(), line,
          transcript[b].size() > 16 ? " .." : "");
  }
}

/// Sets the peaks of the device: the stored ones of this card, else measured now, with ranks on all where
/// rank 0 has none. Returns their origin in words.
std::string set_peaks(Device& device, const fs::path& stored, const Ranks& ranks) {
  const auto facts = load_card_file(stored, device.facts());
  if (ranks.of_first(facts.has_value())) {
    if (!facts) return {};
    device.set_peaks(*facts);
    return fmt::format("{:.1f} GB/s of {}", facts->read_gb_per_s, stored.string());
  }
  try {
    device.set_peaks(measure_peaks(device));
  } catch (const ResourceError& e) {
    note(fmt::format("the read bandwidth is not measured: {}", e.what()));
  }
  return fmt::format("{:.1f} GB/s measured now: there is no {} of this card and driver",
                     device.facts().read_gb_per_s, stored.string());
}

ModelOptions model_options(const DecodeOptions& o, const ModelConfig& config, const Lengths& lengths,
                           int batch, bool forced) {
  if (config.eos.size() > 1)
    note(fmt::format("{} has {} end tokens: all end the printed text, only {} ends the computation",
                     config.name, config.eos.size(), config.eos[0]));
  return {.batch = batch,
          .capacity = lengths.capacity,
          .positions = lengths.positions,
          .max_steps = lengths.steps,
          .sampling = parse_sampling(o.sampling),
          .eos = config.eos.empty() || forced ? -1 : config.eos[0],
          .fuse = fuse_of(o),
          .kv = kv_format_of(o, config),
          .graph = o.graph == "on" && !o.watches_layers()};
}

/// Times the step and its ops at these keys of each sequence, and adds the speed columns.
void measure(DecodeReport& report, Model& model, const PlanBook& book, const DecodeOptions& o,
             const std::vector<int>& contexts, const Ranks& ranks) {
  Device& device = model.device();
  const KvFormat& kv = model.options().kv;
  report.step = time_step(model, contexts);
  report.ops = time_ops(model, contexts);
  const ModelConfig& config = model.config();
  report.plan_set = book.plan_set();
  if (config.weights.quantized()) report.plan_set += "+weights=" + config.weights.str();
  if (config.has_mixed_formats()) report.plan_set += "+mixed";
  report.plan_set += kv.suffix() + model.options().sampling.suffix();
  if (report.step.uneven()) report.plan_set += fmt::format("+mean_context={:.0f}", report.step.mean_context);
  if (ranks.count() > 1) report.plan_set += fmt::format("+ranks={}", ranks.count());
  report.plan_sources = plans_line(book.plan_sources(), o.explain);
  report.peak_from = set_peaks(device, fs::path(o.out) / device.facts().slug() / "device.json", ranks);
  describe(o.kernels.ops(), report.ops, book.wisdom(), device.facts());
  if (const double rate = device.facts().read_gb_per_s; rate > 0)
    report.floor_us = step_bytes(config, dtype_of(o, device.facts()), contexts, kv) / rate * 1e-3;
}

/// The weights of the checkpoint, or random ones. -v prints how fast the checkpoint was loaded.
Weights weights_of(const DecodeOptions& o, Device& device, const ModelConfig& config, DType dtype) {
  if (o.model_folder.empty() || o.random_weights) return random_weights(device, config, dtype, o.seed());
  const Stopwatch watch;
  Weights weights = load_weights(device, config, dtype, o.model_folder);
  for (const std::string& text : weights.notes) note(text);
  if (o.verbose) print("{}\n", load_line(weight_bytes(config, dtype), watch.seconds()));
  return weights;
}

/// With --explain: the hash that is equal for all ranks of a job that take the same plans.
void explain_plans(const DecodeOptions& o, const PlanBook& book) {
  if (o.explain) note(fmt::format("plans {}", book.plan_hash()));
}

/// --dump-layers and --compare-layers, instead of a timed run. Returns the exit code.
int run_layers(Model& model, const std::vector<std::vector<int>>& prompts, const Lengths& lengths,
               const PlanBook& book, const DecodeOptions& o, const Ranks& ranks) {
  note("steps launch op by op and sequences do not end; nothing is timed");
  bool ok = true;
  if (o.compare_layers.empty())
    dump_layers(model, prompts, lengths.steps, o.dump_layers, ranks);
  else
    ok = compare_layers(model, prompts, lengths.steps, o.compare_layers, ranks);
  model.device().synchronize();
  ranks.barrier();  // others may still read what this rank has given to the exchange
  book.require_overrides();
  explain_plans(o, book);
  return ok ? 0 : 1;
}

int run(const DecodeOptions& o, const Ranks& ranks) {
  const ModelConfig config = model_of(o, ranks);
  parse_sampling(o.sampling);  // bad input is reported before the device is opened
  const auto golden = o.golden.empty() ? std::nullopt : std::optional(read_golden(o.golden));
  std::optional<DecodeText> text;
  if (ranks.is_first()) text = DecodeText::open(o, config);
  const bool has_text = ranks.of_first(text.has_value());
  const auto text_ids = ranks.of_first(text ? text->prompts() : std::vector<std::vector<int>>());
  const auto device = open_device(o.device, ranks.group());
  if (config.weights.fp8_activations && device->facts().backend == Backend::cuda &&
      !device->facts().has_wgmma())
    throw InputError("--weights {} needs wgmma (sm_90a), which {} does not have; --weights fp8 runs",
                     config.weights.str(), device->facts().name);
  const DType dtype = dtype_of(o, device->facts());
  const ModelProblems problems(o.kernels.ops(), config, dtype, kv_format_of(o, config));
  problems.rope_append(1, 1, 0);  // throws if K has no such layout
  expect_possible_fusions(o.fuse, problems, config, dtype);
  const Prompts given = prompts_of(o, golden, text_ids);
  const Lengths lengths = lengths_of(o, config, golden, given);
  int check_steps = o.check_baseline;
  const auto lack = [&](int models) {
    return ranks.any_of(lacking_memory(config, dtype, kv_format_of(o, config),
                                       {.prompt_lengths = given.lengths,
                                        .capacity = lengths.capacity,
                                        .steps = lengths.steps,
                                        .models = models},
                                       *device));
  };
  if (!fits(o, lack, check_steps)) return 0;
  expect_weights(o);
  if (!o.dump_layers.empty() && ranks.is_first()) expect_new_dump(o.dump_layers);
  if (!o.compare_layers.empty()) expect_dump(o.compare_layers, lengths.steps);
  const fs::path path =
      o.csv.empty() ? fs::path(o.out) / device->facts().slug() / "decode.csv" : fs::path(o.csv);
  std::unique_ptr<CsvFile> csv;
  if (ranks.is_first()) {  // before anything runs
    o.history.expect_writable();
    if (!o.watches_layers()) csv = open_decode_csv(path, note);
  }
  PlanOptions plans;
  ranks.in_order([&] {
    plans = book_options(o, device->facts());
    tune_missing(o, config, dtype, kv_format_of(o, config), given, lengths, device->facts(), plans,
                 ranks.is_first());
  });
  std::optional<DeviceLock> lock;
  const bool locks = ranks.is_first_with(device->facts().id);
  ranks.in_order([&] {
    if (locks) lock.emplace(device->facts().id);
  });
  const std::size_t free_at_start = device->free_bytes();

  const auto prompts = tokens_of(given, o, config);
  ModelOptions options =
      model_options(o, config, lengths, static_cast<int>(prompts.size()),
                    golden.has_value() || o.check_baseline > 0 || o.profile_steps > 0 || o.watches_layers());
  const fs::path device_file = fs::path(o.out) / device->facts().slug() / "device.json";
  if (const auto stored = load_device_file(device_file, device->facts())) device->set_peaks(*stored);
  if (const std::string text = device->facts().family_note(); !text.empty()) note(text);
  PlanBook book(o.kernels.ops(), *device, std::move(plans));
  note_other_dtypes(book, config, dtype);
  const Weights weights = weights_of(o, *device, config, dtype);
  Model model(*device, config, weights, book, options);
  if (o.watches_layers()) return run_layers(model, prompts, lengths, book, o, ranks);

  DecodeReport report{.model = config.name,
                      .dtype = std::string(name_of(dtype)),
                      .batch = options.batch,
                      .prompt_len = lengths.prompt,
                      .steps = lengths.steps,
                      .ranks = ranks.count(),
                      .graph = options.graph};
  std::function<bool(bool)> agree;
  if (has_text) agree = [&](bool goes_on) { return ranks.of_first(goes_on); };
  const Generated generated = generate(model, prompts, lengths.steps, o.profile_steps, text, agree);
  report.prefill_us = generated.prefill_us;
  report.wall = generated.wall;
  report.prefill_attention = book.plans_of("attention_prefill");
  model.step_calls(lengths.longest_context());
  book.require_overrides();
  explain_plans(o, book);
  if (!text) print_tokens(model.transcript());
  report.device_memory_mib = used_mib(*device, free_at_start);

  bool ok = true;
  const auto judge = [&](const Agreement& agreement, const std::string& against) {
    print("check against {}: {}: {}\n", against, agreement.ok() ? "ok" : "FAILED", agreement.summary());
    ok = ok && agreement.ok();
    report.check = ok ? "pass" : "fail";
  };
  if (golden) judge(check_golden(model, *golden), o.golden);
  if (check_steps > 0) {
    PlanBook naive_book(o.kernels.ops(), *device, {.naive = true});
    options.fuse = kUnfused;
    Model naive(*device, config, weights, naive_book, options);
    const CheckScope scope = o.check_steps_only ? CheckScope::steps : CheckScope::prefill_and_steps;
    judge(check_against(model, naive, prompts, check_steps, scope), "the naive plans");
    if (ok && o.check_steps_only) report.check = "pass-steps";
  }
  measure(report, model, book, o, lengths.contexts, ranks);
  if (!ranks.is_first()) return 0;
  print("\n{}", AsIs{to_text(report, takes_color(stdout), o.verbose)});

  const RunInfo info = new_run();
  csv->append(to_row(report, device->facts(), info, timestamp_utc()));
  if (const std::string lost = csv->rescue(); !lost.empty()) throw std::runtime_error(lost);
  print("row appended to {}\n", path.string());
  if (ok && o.history.is_given())
    o.history.add({history_row(report, device->facts(), info, timestamp_utc())});
  if (!ok) print_error("the check failed");
  if (const auto untuned = book.untuned(); o.require_tuned && !untuned.empty()) {
    print_error("{} plans are defaults: {}", untuned.size(), fmt::join(untuned, ", "));
    ok = false;
  }
  return ok ? 0 : 1;
}

/// Runs as one of the ranks of a command. All but the first say only why they fail.
int run_as(const DecodeOptions& given, const RankIdentity& identity) {
  DecodeOptions o = given;
  o.device = device_of_rank(o.device, identity.rank, identity.ranks);
  try {
    std::optional<SilentStreams> silent;
    if (identity.rank > 0) silent.emplace();
    Ranks ranks(identity);
    const int code = run(o, ranks);
    ranks.end();
    return ranks.is_first() ? code : 0;
  } catch (const RankLost&) {
    if (!identity.by_program) throw;
    return kLostAnotherRank;
  }
}

int start(const DecodeOptions& o) {
  if (o.ranks == 1) return run(o, Ranks());
  if (const auto identity = take_rank_identity(o.ranks)) return run_as(o, *identity);
  device_of_rank(o.device, 0, o.ranks);  // throws if there are too few
  return launch_ranks(o.ranks);
}

}  // namespace

void add_decode(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<DecodeOptions>();
  CLI::App* c = app.add_subcommand("decode", "Runs a LLaMA assembled from the winners; checks and times it");
  c->footer(
      "Examples:\n"
      "  warptune decode --preset llama2-7b --prompt-len 480 --steps 32\n"
      "  warptune decode --preset llama3-8b --ranks 2\n"
      "  warptune decode --model DIR --prompt 'The capital of France is' --stop '.'\n"
      "  warptune decode --model DIR --prompt-ids ids.txt --sampling top_k=50,p=0.95,temperature=0.8,seed=1\n"
      "  warptune decode --model tests/data/golden/gqa --check tests/data/golden/gqa/golden.safetensors\n"
      "  warptune decode --model DIR --prompt-ids ids.txt --steps 4 --dump-layers layers\n"
      "  warptune decode --preset llama3-8b --prompt-len 8000 --kv-dtype int8 --page-size 64 --window 4096");
  add_decode_options(*c, *o);
  c->callback([o, &exit_code] { exit_code = start(*o); });
}

}  // namespace warptune
