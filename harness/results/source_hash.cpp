#include "harness/results/source_hash.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/core/hash.h"
#include "source_hashes.h"
#include "variants/library.h"
#include "variants/table.h"

namespace warptune {

std::string source_hash(const Compiler& compiler, const std::string& op, const Variant& variant) {
  if (!variant.stages.empty() && !calls_library(variant)) return compiler.source_hash(variant);
  const auto sources =
      std::ranges::find(kVariantSources, op, &std::pair<std::string_view, std::string_view>::first);
  std::string text(sources == std::end(kVariantSources) ? std::string_view() : sources->second);
  if (calls_library(variant)) text += ' ' + vendor_library(variant.name);
  if (!variant.stages.empty()) text += ' ' + compiler.source_hash(variant);
  return fmt::format("{:016x}", stable_hash(text));
}

namespace {

const Variant* variant_of(const Winner& winner) {
  for (const OpEntry& entry : all_ops()) {
    if (entry.op.name != winner.problem.op) continue;
    const auto it = std::ranges::find(entry.variants, winner.variant, &Variant::name);
    if (it != entry.variants.end()) return &*it;
  }
  return nullptr;
}

}  // namespace

std::string source_hash(const Compiler& compiler, const Winner& winner) {
  const Variant* variant = variant_of(winner);
  return variant ? source_hash(compiler, winner.problem.op, *variant) : std::string();
}

std::string code_hash(const Compiler& compiler, const Winner& winner) try {
  const Variant* variant = variant_of(winner);
  if (!variant) return {};
  const Problem problem = find_op(winner.problem.op).op.problem(winner.problem.dims, winner.problem.dtype);
  return code_hash(compiler, *variant, problem, winner.config, winner.made_on.arch);
} catch (const std::exception&) {  // other dims or parameters now, or code that does not compile
  return {};
}

CodeNow code_now(const Compiler& compiler, const Winner& winner) {
  return {source_hash(compiler, winner), [&compiler, winner] { return code_hash(compiler, winner); }};
}

}  // namespace warptune
