#include "harness/results/source_hash.h"

#include <fmt/format.h>

#include "harness/core/hash.h"

namespace warptune {

std::string source_hash(const Compiler& compiler, const OpEntry& op, const Variant& variant) {
  if (!variant.stages.empty() && !calls_library(variant)) return compiler.source_hash(variant);
  std::string text =
      calls_library(variant) ? op.library_source_hash + ' ' + variant.library_version : op.host_source_hash;
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
} catch (const std::exception&) {  // the dims or parameters have changed, or the code does not compile
  return {};
}

CodeNow code_now(const Compiler& compiler, const OpEntry& op, const Winner& winner) {
  return {source_hash(compiler, op, winner),
          [&compiler, &op, winner] { return code_hash(compiler, op, winner); }};
}

CodeNow code_now(const Compiler& compiler, const OpTable& ops, const Winner& winner) {
  const OpEntry* op = ops.find_if_known(winner.problem.op);
  return op ? code_now(compiler, *op, winner) : CodeNow{};
}

}  // namespace warptune
