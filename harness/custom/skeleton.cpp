// The first files of a kernel of the user, and of an op of the user.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/custom/formula.h"
#include "harness/custom/kernel_files.h"

namespace warptune {
namespace {

/// Values of dims that make a problem of a usual size; others are 64.
struct ExampleDim {
  std::string_view name;
  int value;
};
constexpr ExampleDim kExampleDims[] = {
    {"tokens", 16},    {"hidden", 4096}, {"intermediate", 11008}, {"in", 4096},    {"out", 4096},
    {"vocab", 32000},  {"batch", 4},     {"q_heads", 32},         {"kv_heads", 8}, {"head_dim", 128},
    {"context", 1024}, {"k", 50},
};

int example_of(const std::string& dim) {
  const auto* it = std::ranges::find(kExampleDims, dim, &ExampleDim::name);
  return it == std::end(kExampleDims) ? 64 : it->value;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

const Variant& naive_of(const OpEntry& entry) {
  for (const Variant& v : entry.variants)
    if (v.backend == Backend::cuda && is_naive(v.name) && !v.stages.empty() && !calls_library(v)) return v;
  throw InputError("op '{}' has no naive kernel to begin with", entry.op.name);
}

/// The keys of one stage, each on a line.
std::string stage_text(const Stage& stage, const std::string& indent, const std::string& old_name,
                       const std::string& name) {
  const std::string kernel = replaced(replaced(stage.kernel, "{dtype}", "{warptune_dtype}"), old_name, name);
  return fmt::format("kernel: \"warptune::{}\"\n{}arguments: args\n", kernel, indent);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> kernel_skeleton(const OpEntry& entry,
                                                                 const std::string& name,
                                                                 const KernelSources& sources) {
  const Variant& naive = naive_of(entry);
  const std::string& op = entry.op.name;
  if (exchanges_between_gpus(entry))
    throw InputError("op '{}' runs on several GPUs; kernels from a file run on one", op);
  if (!is_identifier(name))
    throw InputError("'{}' cannot name a variant: letters, digits and '_' can", brief(name));
  if (entry.find_variant(name))
    throw InputError("op '{}' has a variant '{}' already; choose another name", op, name);
  const std::string old_name = op + "_" + naive.name;
  std::string stages = "    ";
  if (naive.stages.size() > 1) stages += "stages:\n";
  for (const Stage& stage : naive.stages)
    stages += naive.stages.size() > 1 ? "      - " + stage_text(stage, "        ", old_name, name)
                                      : stage_text(stage, "    ", old_name, name);
  std::vector<std::string> dims;
  for (const Dim& dim : entry.op.dims)
    if (!dim.fallback) dims.push_back(fmt::format("{}: {}", dim.name, example_of(dim.name)));
  const std::string yaml = fmt::format(
      "# A kernel of your own for {0}: {1}.\n"
      "#   warptune inspect {2}.yaml --arch sm_80,sm_90a\n"
      "#   warptune tune {2}.yaml\n"
      "# `like` gives it the parameters, constraints and launch of {3}; in their place write your own:\n"
      "#   parameters: {{block: [128, 256]}}\n"
      "#   launch: {{grid: {4}, block: block}}\n"
      "# `args` is the struct of kernels/{0}/args.h; a list of names passes single arguments:\n"
      "#   arguments: [{5}]\n"
      "kernels:\n"
      "  - name: {2}\n    op: {0}\n    like: {3}\n    source: {2}.cu\n{6}"
      "ops:\n  - op: {0}\n    problems: [{{{7}}}]\n    variants: [{2}, {3}]\n",
      op, entry.op.summary, name, naive.name, entry.op.dims.front().name,
      fmt::join(names_of(entry.op.fields), ", "), stages, fmt::join(dims, ", "));
  return {{name + ".cu", replaced(sources.read(naive.stages.front().file), old_name, name)},
          {name + ".yaml", yaml}};
}

std::vector<std::pair<std::string, std::string>> op_skeleton(const std::string& name) {
  if (!is_identifier(name))
    throw InputError("'{}' cannot name an op: letters, digits and '_' can", brief(name));
  const std::string kernel = fmt::format(
      "// {0}: y = factor * x, one thread per element. Replace it by your own.\n"
      "#include <cuda_bf16.h>\n"
      "#include <cuda_fp16.h>\n\n"
      "template <class T>\n"
      "__global__ void {0}(const T* x, T* y, int count, float factor) {{\n"
      "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i < count) y[i] = static_cast<T>(factor * static_cast<float>(x[i]));\n"
      "}}\n",
      name);
  const std::string reference = fmt::format(
      "// The reference of {0}, in fp64. The order is that of the tensors, dims and scalars in {0}.yaml.\n"
      "extern \"C\" void {0}_reference(const double* const* inputs, double* const* outputs, const long long* "
      "dims,\n"
      "                                const double* scalars) {{\n"
      "  for (long long i = 0; i < dims[0] * dims[1]; ++i) outputs[0][i] = scalars[0] * inputs[0][i];\n"
      "}}\n",
      name);
  const std::string yaml = fmt::format(
      "# An op of your own and a kernel for it.\n"
      "#   warptune tune {0}.yaml\n"
      "#   warptune tune {0}.yaml --device host\n"
      "ops_defined:\n"
      "  - name: {0}\n    summary: y = factor * x\n"
      "    dims: {{rows: {{doc: rows, role: work}}, columns: row length}}\n"
      "    tensors:\n"
      "      - {{name: x, shape: [rows, columns]}}\n"
      "      - {{name: y, shape: [rows, columns], role: output}}\n"
      "    scalars: {{factor: 0.5}}\n"
      "    flops: rows * columns\n"
      "    reference: {{cpp: {0}_reference.cpp, function: {0}_reference}}\n"
      "kernels:\n"
      "  - name: one_thread_per_element\n    op: {0}\n    source: {0}.cu\n    kernel: \"{0}<{{dtype}}>\"\n"
      "    arguments: [x, y, rows * columns, factor]\n"
      "    parameters: {{block: [128, 256, 512]}}\n"
      "    launch: {{grid: \"ceil_div(rows * columns, block)\", block: block}}\n"
      "ops:\n  - op: {0}\n    problems: [{{rows: [1, 256], columns: 4096}}]\n",
      name);
  return {{name + ".cu", kernel}, {name + "_reference.cpp", reference}, {name + ".yaml", yaml}};
}

}  // namespace warptune
