#include "harness/llama/fusion_choice.h"

#include "harness/core/error.h"
#include "kernels/linear/args.h"

namespace warptune {

void expect_possible_fusions(const FusionChoice& fuse, const ModelProblems& problems,
                             const ModelConfig& config, DType dtype) {
  const int ranks = config.shard.ranks;
  for (const auto& [wanted, flag] : {std::pair{fuse.norm, "--fuse-norm"}, {fuse.split_norm, "--split-norm"}})
    if (wanted.value_or(false) && !problems.can_fuse_norm())
      throw InputError("{} on needs one rank: {} ranks add the residual in their exchange", flag, ranks);
  if (fuse.argmax.value_or(false) && !problems.can_fuse_argmax())
    throw InputError("--fuse-argmax on needs the whole vocabulary; {} ranks split that of {}", ranks,
                     config.name);
  if (fuse.split_norm.value_or(false) && dtype == DType::fp16)
    throw InputError("--split-norm on needs bf16 or fp32: x times the norm's weight may exceed fp16");
  if (fuse.split_norm.value_or(false) && !problems.can_split_norm())
    throw InputError("--split-norm on needs a hidden size that is a multiple of {}; that of {} is {}",
                     kSquaresGroup, config.name, config.hidden);
  if (fuse.swiglu.value_or(false) && !problems.can_fuse_swiglu())
    throw InputError("--fuse-swiglu on needs gate and up without a bias; {} has biases", config.name);
}

Fusion choose_fusion(const FusionChoice& wanted, const ModelProblems& problems, const Prefers& prefers,
                     int batch, std::int64_t context, bool greedy) {
  const std::vector<Problem> apart = {problems.rope_append(batch, batch, context),
                                      problems.attention_decode(batch, context, false)};
  const std::vector<Problem> append = {problems.attention_decode(batch, context, true)};
  Fusion best{.append = wanted.append.value_or(prefers(append, apart)),
              .norm = problems.can_fuse_norm() && wanted.norm.value_or(false),
              .swiglu = wanted.swiglu.value_or(false),
              .split_norm = problems.can_fuse_norm() && wanted.split_norm.value_or(false)};
  for (Fusion more : problems.fusions(batch)) {
    more.append = best.append;
    more.norm = wanted.norm.value_or(more.norm);
    more.swiglu = wanted.swiglu.value_or(more.swiglu);
    more.split_norm = wanted.split_norm.value_or(more.split_norm);
    if (prefers(problems.layer_gemms(batch, more), problems.layer_gemms(batch, best))) best = more;
  }
  const bool can_fuse_o = best.append && best.norm && !best.split_norm && problems.can_fuse_o(batch);
  if (can_fuse_o) {
    const std::vector<Problem> with_o = {problems.attention_decode(batch, context, true, true)};
    best.o = wanted.o.value_or(prefers(with_o, std::vector{append[0], problems.o(batch, best)}));
  }
  if (greedy && batch <= kMaxFusedTokens && problems.can_fuse_argmax()) {
    const Problem head = problems.lm_head(batch, best);
    best.argmax = true;
    const std::vector<Problem> fused = {problems.lm_head(batch, best)};
    best.argmax = wanted.argmax.value_or(prefers(fused, std::vector{head, problems.argmax(batch)}));
  }
  return best;
}

}  // namespace warptune
