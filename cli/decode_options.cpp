// The options of `warptune decode`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/decode.h"
#include "cli/options.h"
#include "harness/llama/model_config.h"

namespace warptune {
namespace {

void add_model(CLI::App& c, DecodeOptions& o) {
  auto* folder = c.add_option(
      "--model", o.model_folder,
      "folder of a Hugging Face checkpoint, or a GGUF file; with --random-weights a config.json is enough");
  c.add_option(
       "--preset", o.preset_name,
       fmt::format("shape of a known model, with random weights: {}", fmt::join(preset_names(), ", ")))
      ->excludes(folder);
  c.add_option(
      "--random-weights", o.random_weights,
      "seed of random prompts and random weights, which a preset has anyway and a --model instead of "
      "its own (default 1)");
  c.add_option("--device", o.device,
               "auto, host or cuda:N (default auto); with --ranks one for each: cuda:2,cuda:3");
  add_as(c, o.device);
  c.add_option("--ranks", o.ranks,
               "split the model over N GPUs, a process each (tensor parallelism), which this command starts, "
               "or torchrun, mpirun or srun (default 1)")
      ->check(CLI::Range(1, 8));
  c.add_option("--dtype", o.dtype, "fp32, fp16 or bf16 (default bf16, on the host fp32)");
}

void add_prompts(CLI::App& c, DecodeOptions& o) {
  c.add_option("--batch", o.batch,
               "sequences (default: as many as there are prompts; a larger batch repeats them)")
      ->check(CLI::Range(1, 4096));
  auto* ids = c.add_option("--prompt-ids", o.prompt_file, "file of token ids, one prompt per line");
  c.add_option("--prompt-len", o.prompt_lens,
               "lengths of random prompts, repeated over the batch (default 32)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20))
      ->excludes(ids);
  c.add_option("--steps", o.steps, "decode steps after the first token (default 32)")
      ->check(CLI::Range(0, 1 << 20));
  c.add_option("--context", o.context,
               "KV length of every sequence in the timed step (default: of each its length at the last step)")
      ->check(CLI::Range(1, 1 << 20));
  c.add_option(
      "--sampling", o.sampling,
      "greedy (default), or any of top_k=50 (0: off), p=1, min_p=0, repetition_penalty=1, temperature=1 and "
      "seed=1, separated by commas; these values are the defaults");
}

void add_text(CLI::App& c, DecodeOptions& o) {
  auto* text = c.add_option("--prompt", o.texts, "text of a prompt; may be repeated, one sequence each")
                   ->allow_extra_args(false);
  auto* file = c.add_option("--prompt-file", o.text_file, "file of texts, one prompt per line");
  file->excludes(text);
  for (auto* option : {text, file})
    for (const char* other : {"--prompt-ids", "--prompt-len"}) option->excludes(c.get_option(other));
  c.add_option("--stop", o.stops, "the text ends before this one; may be repeated")->allow_extra_args(false);
  c.add_flag("--chat", o.chat, "put the checkpoint's chat template around each prompt");
}

void add_formats(CLI::App& c, DecodeOptions& o) {
  c.add_option("--weights", o.weights,
               "quantize the matrices of the layers: int8, int4, fp8, nvfp4, mxfp4, q4_k, q5_k or q6_k, with "
               ":group=32, 64 or 128 where groups of columns have a scale (default: as the checkpoint; int4 "
               "has groups of 128)");
  c.add_option("--kv-dtype", o.kv_dtype,
               "dtype of the KV cache: same (as the model, default), int8 or fp8 with a scale per row")
      ->check(CLI::IsMember({"same", "int8", "fp8"}));
  c.add_option("--k-layout", o.k_layout,
               "layout of K of a head: sd, a row per key (default), or dsx, [D/x, S, x] with x of 16 bytes")
      ->check(CLI::IsMember({"sd", "dsx"}));
  c.add_option("--page-size", o.kv.page_size,
               "keys per page of a paged KV cache: 16, 32, 64, 128 or 256 (default: contiguous)")
      ->check(CLI::IsMember({16, 32, 64, 128, 256}));
  c.add_option("--window", o.kv.window,
               "sliding window: a token attends to the last N keys, its own included (default: all)")
      ->check(CLI::Range(1, 1 << 20));
}

void add_plans(CLI::App& c, DecodeOptions& o) {
  auto* wisdom =
      c.add_option("--wisdom", o.wisdom, "winners to use (default OUT/<device>/wisdom.json if it exists)");
  auto* require = c.add_flag("--require-tuned", o.require_tuned,
                             "exit with 1 if a plan is neither from the wisdom nor an override");
  c.add_option("--tune-missing", o.tune_missing,
               "seconds of GPU time for each problem that the wisdom does not know: its likely "
               "configurations are timed before the run (default 0.3, on the host 0: not at all)")
      ->check(within(0, 3600));
  c.add_option("--stale-wisdom", o.stale_wisdom,
               "winners tuned on other sources of their kernels: refuse (default), or use with a warning")
      ->check(CLI::IsMember({"refuse", "use"}));
  c.add_option("--variant", o.variants,
               "op=variant or op=variant:block=256,..: overrides the wisdom; may be repeated")
      ->allow_extra_args(false);
  o.kernels.add_to(c);
  o.history.add_to(c);
  c.add_option("--baseline", o.baseline, "naive: the naive variant of every op")
      ->check(CLI::IsMember({"naive"}))
      ->excludes(wisdom)
      ->excludes(require);
  c.add_option("--graph", o.graph, "on: steps are replays of CUDA graphs (default); off: single launches")
      ->check(CLI::IsMember({"on", "off"}));
  for (std::size_t i = 0; i < kFusionOptions.size(); ++i) {
    std::string flag = "--" + std::string(kFusionOptions[i].name);
    std::ranges::replace(flag, '_', '-');
    c.add_option_function<std::string>(
         flag,
         [choice = o.fuse.all()[i]](const std::string& word) {
           if (word != "auto") *choice = word == "on";
         },
         std::string(kFusionOptions[i].help) +
             ": on, off, or auto (default): if the wisdom has it and nothing faster")
        ->check(CLI::IsMember({"auto", "on", "off"}));
  }
}

void add_output(CLI::App& c, DecodeOptions& o) {
  auto* check = c.add_option("--check", o.golden,
                             "golden.safetensors: run its prompts and steps, compare logits and tokens; "
                             "exit with 1 if they differ");
  for (const char* other :
       {"--batch", "--prompt", "--prompt-file", "--prompt-ids", "--prompt-len", "--steps"})
    check->excludes(c.get_option(other));
  auto* baseline =
      c.add_option("--check-baseline", o.check_baseline,
                   "compare prefill and N teacher-forced steps with the naive plans; exit with 1 if "
                   "they differ")
          ->check(CLI::Range(1, 1 << 20));
  c.add_flag("--check-steps-only", o.check_steps_only,
             "with --check-baseline: the naive plans start from the KV cache of the tuned prefill, for long "
             "prompts, on which a naive prefill takes minutes")
      ->needs(baseline);
  c.add_flag("--if-fits", o.if_fits,
             "leave out what the device's memory does not hold, with a line: the check first, then the run; "
             "the exit code is then 0");
  c.add_option("--profile-steps", o.profile_steps,
               "the last N steps lie between cudaProfilerStart and cudaProfilerStop, those before are the "
               "warm-up; sequences never finish (scripts/nsys_decode.sh)")
      ->check(CLI::Range(1, 1 << 20));
  c.add_flag("--explain", o.explain,
             "list each plan that is not the exact winner of its problem, with the reason");
  c.add_flag(
      "-v,--verbose", o.verbose,
      "also print the sum of the kernels, the plans of the prefill and the rate of loading a checkpoint");
  c.add_option("--csv", o.csv, "file the row is appended to (default OUT/<device>/decode.csv)");
  c.add_option("--out", o.out, "folder of results and wisdom (default results)");
}

void add_layers(CLI::App& c, DecodeOptions& o) {
  auto* dump = c.add_option("--dump-layers", o.dump_layers,
                            "empty or new folder: write the activations of each layer and op there, one "
                            "safetensors file per step; nothing is timed");
  auto* compare =
      c.add_option("--compare-layers", o.compare_layers,
                   "folder of --dump-layers: run on its tokens and find the first step, layer and "
                   "op that differ; exit with 1 if one does; nothing is timed")
          ->excludes(dump);
  for (CLI::Option* option : {dump, compare})
    for (const char* other :
         {"--check", "--check-baseline", "--context", "--csv", "--graph", "--require-tuned", "--verbose"})
      option->excludes(c.get_option(other));
}

}  // namespace

void add_decode_options(CLI::App& command, DecodeOptions& options) {
  add_model(command, options);
  add_prompts(command, options);
  add_text(command, options);
  add_formats(command, options);
  add_plans(command, options);
  add_output(command, options);
  add_layers(command, options);
}

}  // namespace warptune
