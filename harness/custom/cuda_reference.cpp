// A reference that is a plain kernel in a .cu file, on arrays of fp64 or fp32.
#include <fmt/format.h>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/kernel_reference.h"
#include "harness/core/lookup.h"
#include "harness/custom/host_kernel.h"
#include "harness/custom/kernel_item.h"
#include "harness/custom/reference.h"
#include "harness/device/source_closure.h"

namespace warptune {
namespace fs = std::filesystem;

namespace {

/// A reference as it was read: one stage, and the struct that its arguments are members of.
struct ReferenceKernel {
  OpDefinition definition;
  std::vector<ArgsField> fields;
  bool in_fp64 = true;
  std::shared_ptr<const Variant> variant;

  const Stage& stage() const { return variant->stages.front(); }
  Launch launch(const Problem& problem) const { return launch_of(*variant, stage(), problem, {}); }
  Args bind(const Problem& problem, std::span<void* const> tensors) const {
    return bind_fields(definition, fields, problem, tensors, nullptr);
  }
};

void run_on_host(const ReferenceKernel& reference, HostKernels& kernels, ReferenceJob& job) {
  const std::vector<TensorSpec> specs = reference.definition.specs(job.problem, 0);
  std::vector<std::vector<std::byte>> arrays;
  std::vector<void*> addresses;
  for (const TensorSpec& spec : specs) {
    const ReferenceTensor* given = find_named(job.inputs, spec.name);  // also the first content of an inout
    if (!given) given = find_named(job.outputs, spec.name);
    arrays.push_back(to_reference_array(spec.dtype, reference.in_fp64, given->values));
    addresses.push_back(arrays.back().data());
  }
  const Args args = reference.bind(job.problem, addresses);
  kernels.get(*reference.stage().custom, job.problem, {})
      .run(args.data(), nullptr, reference.launch(job.problem));
  for (std::size_t t = 0; t < specs.size(); ++t)
    if (ReferenceTensor* output = find_named(job.outputs, specs[t].name))
      output->values = from_reference_array(specs[t].dtype, reference.in_fp64, arrays[t]);
}

Reference host_reference(std::shared_ptr<const ReferenceKernel> reference, double seconds) {
  auto kernels = std::make_shared<HostKernels>();
  const Stage& stage = reference->stage();
  return {.load =
              [reference, kernels](const ReferenceJob& job) {
                try {
                  kernels->get(*reference->stage().custom, job.problem, {});
                  reference->launch(job.problem);
                } catch (const CompileError& e) {
                  throw InputError(e.what());
                }
              },
          .run = [reference, kernels](ReferenceJob& job) { run_on_host(*reference, *kernels, job); },
          .name = fmt::format("the reference '{}' of '{}'", stage.kernel, stage.custom->file.string()),
          .seconds = seconds};
}

/// Fails where the files have no kernel of that name.
void expect_kernel(const YamlReader& yaml, const YAML::Node& node, const CustomKernel& kernel) {
  const std::string text = node.Scalar(), name = text.substr(0, text.find('<'));
  std::vector<std::string> known;
  for (const auto& [file, content] : kernel.files)
    for (std::string& other : kernels_in(content)) known.push_back(std::move(other));
  if (!contains(known, name.substr(name.rfind(':') + 1)))
    yaml.fail(node, "'{}' has no kernel '{}'{}", kernel.file.string(), brief(name),
              did_you_mean(name, known, "it has"));
}

}  // namespace

CudaReference read_cuda_reference(const YamlReader& yaml, const YAML::Node& node, const fs::path& folder,
                                  const OpDefinition& definition, double seconds) {
  yaml.expect_keys(node, "'reference' in CUDA", {"cuda", "kernel", "arguments", "launch", "dtype"});
  for (const char* key : {"kernel", "arguments", "launch"})
    if (!node[key]) yaml.fail(node, "a 'reference' in CUDA needs '{}'", key);
  yaml.expect_keys(node["launch"], "'launch' of a reference", {"grid", "block"});
  auto reference = std::make_shared<ReferenceKernel>();
  if (node["dtype"]) {
    const std::string dtype = yaml.text(node["dtype"], "'dtype'");
    if (dtype != "fp64" && dtype != "fp32")
      yaml.fail(node["dtype"], "'dtype' of a reference is '{}'; it must be fp64 or fp32", brief(dtype));
    reference->in_fp64 = dtype == "fp64";
  }
  reference->definition = definition;
  reference->fields = fields_of(definition, reference->in_fp64 ? "double" : "float");
  const Op op{.name = definition.name,
              .bind = [reference = reference.get()](const Problem& p, std::span<void* const> t,
                                                    void*) { return reference->bind(p, t); },
              .fields = reference->fields};
  std::vector<Variable> names(definition.dims.begin(), definition.dims.end());
  names.push_back({"dtype_bytes"});
  const KernelItem item{.yaml = yaml, .folder = folder, .op = op, .name = "reference", .names = names};
  Variant variant{.name = "reference", .idea = "The reference of the op."};
  variant.stages.push_back(read_stage(item, node, {.kernel = node}, 0));
  expect_kernel(yaml, node["kernel"], *variant.stages.front().custom);
  reference->variant = std::make_shared<const Variant>(std::move(variant));
  return {.on_gpu = {.variant = reference->variant,
                     .in_fp64 = reference->in_fp64,
                     .bind = [reference](const Problem& p,
                                         std::span<void* const> t) { return reference->bind(p, t); }},
          .on_host = host_reference(reference, seconds)};
}

}  // namespace warptune
