#include "harness/results/source_hash.h"

#include <fmt/format.h>

#include "harness/core/hash.h"
#include "harness/core/lazy_library.h"
#include "harness/measure/impossible.h"

namespace warptune {

std::string source_hash(const Compiler& compiler, const OpEntry& op, const Variant& variant) {
  if (!variant.stages.empty() && !calls_library(variant)) return compiler.source_hash(variant);
  std::string text =
      calls_library(variant) ? op.library_source_hash + ' ' + variant.library_version() : op.host_source_hash;
  if (!variant.stages.empty()) text += ' ' + compiler.source_hash(variant);
  return fmt::format("{:016x}", stable_hash(text));
}

std::string source_hash(const Compiler& compiler, const OpEntry& op, const Winner& winner) {
  const Variant* variant = op.find_variant(winner.variant);
  return variant ? source_hash(compiler, op, *variant) : std::string();
}

std::string source_hash(const Compiler& compiler, const OpTable& ops, const Winner& winner) {
  const OpEntry* op = ops.find_if_known(winner.problem.op);
  return op ? source_hash(compiler, *op, winner) : std::string();
}

std::string code_hash(const Compiler& compiler, const OpEntry& op, const Winner& winner) try {
  const Variant* variant = op.find_variant(winner.variant);
  if (!variant) return {};
  const Problem problem = op.op.problem(winner.problem.dims, winner.problem.dtype);
  return code_hash(compiler, *variant, problem, winner.config, winner.made_on.arch);
} catch (const LibraryError&) {
  throw;
} catch (const std::exception&) {  // the dims or parameters have changed, or the code does not compile
  return {};
}

double impossible_us(const OpEntry& op, const Winner& winner, const DeviceFacts& peaks) try {
  DeviceFacts facts = peaks.name == winner.made_on.device ? peaks : DeviceFacts{};
  facts.backend = winner.made_on.arch.starts_with("sm_") ? Backend::cuda : Backend::host;
  return impossible_elsewhere_us(facts, op.op, op.op.problem(winner.problem.dims, winner.problem.dtype),
                                 winner.cache, least_us(winner));
} catch (const std::exception&) {  // the dims have changed
  return 0;
}

CodeNow code_now(const Compiler& compiler, const OpEntry& op, const Winner& winner,
                 const DeviceFacts& peaks) {
  return {source_hash(compiler, op, winner),
          [&compiler, &op, winner] { return code_hash(compiler, op, winner); },
          impossible_us(op, winner, peaks)};
}

CodeNow code_now(const Compiler& compiler, const OpTable& ops, const Winner& winner,
                 const DeviceFacts& peaks) {
  const OpEntry* op = ops.find_if_known(winner.problem.op);
  return op ? code_now(compiler, *op, winner, peaks) : CodeNow{};
}

}  // namespace warptune
