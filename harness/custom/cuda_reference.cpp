#include "harness/custom/cuda_reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>

#include "harness/core/error.h"
#include "harness/core/reference_array.h"
#include "harness/custom/kernel_stage.h"
#include "harness/custom/shared_library.h"
#include "harness/device/source_closure.h"

namespace warptune {
namespace fs = std::filesystem;

extern const char kKernelOnHost[];  // kernel_on_host.h

namespace {

/// A reference as it was read: one stage, and the struct that its arguments are members of.
struct ReferenceKernel {
  OpDefinition definition;
  std::vector<ArgsField> fields;
  bool in_fp64 = true;
  std::shared_ptr<const Variant> variant;

  const Stage& stage() const { return variant->stages.front(); }
  Args bind(const Problem& problem, std::span<void* const> tensors) const {
    return bind_fields(definition, fields, problem, tensors, nullptr);
  }
};

/// "FILE:LINE" as a directive for the compiler, whose errors then name it.
std::string line_directive(const std::string& where) {
  const auto colon = where.rfind(':');
  return fmt::format("#line {} \"{}\"\n", where.substr(colon + 1), where.substr(0, colon));
}

/// The file with the call of one kernel, compiled for the host.
class HostKernel {
 public:
  HostKernel(const CustomKernel& kernel, const std::string& name) : where_(kernel.where), name_(name) {
    const TemporaryFolder folder;
    const fs::path source = folder.path() / "reference.cpp";
    std::ofstream(source)
        << kKernelOnHost << fmt::format("#include \"{}\"\n", kernel.file.string())
        << line_directive(kernel.where) << fmt::format("static constexpr auto warptune_kernel = &{};\n", name)
        << "extern \"C\" unsigned warptune_parameters(unsigned* sizes) {\n"
           "  return warptune_host::parameters(warptune_kernel, sizes);\n}\n"
           "extern \"C\" void warptune_run(void* const* arguments, const unsigned* extents) {\n"
           "  warptune_host::run(warptune_kernel, arguments, extents);\n}\n";
    library_ = std::make_unique<SharedLibrary>(source, kernel.file.string());
    run_ = library_->function<void(void* const*, const unsigned*)>("warptune_run");
    parameters_ = library_->function<unsigned(unsigned*)>("warptune_parameters");
  }
  /// Throws InputError where the kernel takes other parameters.
  void run(std::vector<KernelArgument> arguments, Args members, const Launch& launch) const {
    std::array<unsigned, 64> sizes{};
    const unsigned count = parameters_(sizes.data());
    const auto differs = [](unsigned size, const KernelArgument& a) { return size != a.bytes; };
    bool same = count == arguments.size() && count <= sizes.size();
    for (std::size_t i = 0; same && i < count; ++i) same = !differs(sizes[i], arguments[i]);
    if (!same) {
      std::vector<std::size_t> passed;
      for (const KernelArgument& argument : arguments) passed.push_back(argument.bytes);
      throw InputError(fmt::format(
          "{}: kernel '{}' takes other parameters ({} of {} bytes) than 'arguments' passes ({} of {} bytes)",
          where_, name_, count, fmt::join(std::span(sizes).first(std::min<std::size_t>(count, 64)), ", "),
          passed.size(), fmt::join(passed, ", ")));
    }
    std::vector<std::byte> bytes(members.size());
    std::memcpy(bytes.data(), members.data(), members.size());
    std::vector<void*> addresses;
    for (KernelArgument& argument : arguments)
      addresses.push_back(argument.kind == KernelArgument::Kind::member
                              ? static_cast<void*>(bytes.data() + argument.offset)
                              : static_cast<void*>(argument.value.data()));
    const unsigned extents[] = {launch.grid.x,  launch.grid.y,  launch.grid.z,
                                launch.block.x, launch.block.y, launch.block.z};
    run_(addresses.data(), extents);
  }

 private:
  std::string where_, name_;
  std::unique_ptr<SharedLibrary> library_;
  void (*run_)(void* const*, const unsigned*) = nullptr;
  unsigned (*parameters_)(unsigned*) = nullptr;
};

/// The kernels that were compiled, by name: a template's depends on the problem.
struct HostKernels {
  std::mutex mutex;
  std::map<std::string, HostKernel> known;

  const HostKernel& get(const CustomKernel& kernel, const std::string& name) {
    const std::lock_guard lock(mutex);
    const auto it = known.find(name);
    return it != known.end() ? it->second : known.try_emplace(name, kernel, name).first->second;
  }
};

/// The one tensor of this name.
template <class Tensors>
auto* find_tensor(Tensors&& tensors, const std::string& name) {
  const auto it = std::ranges::find(tensors, name, &ReferenceTensor::name);
  return it == tensors.end() ? nullptr : &*it;
}

void run_on_host(const ReferenceKernel& reference, HostKernels& kernels, const Problem& problem,
                 std::span<const ReferenceTensor> inputs, std::span<ReferenceTensor> outputs) {
  const std::vector<TensorSpec> specs = reference.definition.specs(problem, 0);
  std::vector<std::vector<std::byte>> arrays;
  std::vector<void*> addresses;
  for (const TensorSpec& spec : specs) {
    const ReferenceTensor* given = find_tensor(inputs, spec.name);  // also the first content of an inout
    if (!given) given = find_tensor(outputs, spec.name);
    arrays.push_back(to_reference_array(spec.dtype, reference.in_fp64, given->values));
    addresses.push_back(arrays.back().data());
  }
  const Stage& stage = reference.stage();
  kernels.get(*stage.custom, stage.custom->name(problem, {}))
      .run(stage.custom->arguments(problem, {}), reference.bind(problem, addresses),
           stage.launch(problem, {}));
  for (std::size_t t = 0; t < specs.size(); ++t)
    if (ReferenceTensor* output = find_tensor(outputs, specs[t].name))
      output->values = from_reference_array(specs[t].dtype, reference.in_fp64, arrays[t]);
}

Reference host_reference(std::shared_ptr<const ReferenceKernel> reference) {
  auto kernels = std::make_shared<HostKernels>();
  return [reference, kernels](const Problem& problem, std::span<const ReferenceTensor> inputs,
                              std::span<ReferenceTensor> outputs, std::span<const ReferenceNumber>,
                              std::span<const ReferenceNumber>) {
    try {
      run_on_host(*reference, *kernels, problem, inputs, outputs);
    } catch (const CompileError& e) {  // of an expression
      throw InputError(e.what());
    }
  };
}

/// Fails where the files have no kernel of that name.
void expect_kernel(const YamlReader& yaml, const YAML::Node& node, const CustomKernel& kernel) {
  const std::string text = node.Scalar(), name = text.substr(0, text.find('<'));
  std::vector<std::string> known;
  for (const auto& [file, content] : kernel.files)
    for (std::string& other : kernels_in(content)) known.push_back(std::move(other));
  if (std::ranges::find(known, name.substr(name.rfind(':') + 1)) == known.end())
    yaml.fail(node, fmt::format("'{}' has no kernel '{}'{}", kernel.file.string(), brief(name),
                                did_you_mean(name, known, "it has")));
}

}  // namespace

CudaReference read_cuda_reference(const YamlReader& yaml, const YAML::Node& node, const fs::path& folder,
                                  const OpDefinition& definition) {
  yaml.expect_keys(node, "'reference' in CUDA", {"cuda", "kernel", "arguments", "launch", "dtype"});
  for (const char* key : {"kernel", "arguments", "launch"})
    if (!node[key]) yaml.fail(node, fmt::format("a 'reference' in CUDA needs '{}'", key));
  yaml.expect_keys(node["launch"], "'launch' of a reference", {"grid", "block"});
  auto reference = std::make_shared<ReferenceKernel>();
  if (node["dtype"]) {
    const std::string dtype = yaml.text(node["dtype"], "'dtype'");
    if (dtype != "fp64" && dtype != "fp32")
      yaml.fail(node["dtype"],
                fmt::format("'dtype' of a reference is '{}'; it must be fp64 or fp32", brief(dtype)));
    reference->in_fp64 = dtype == "fp64";
  }
  reference->definition = definition;
  reference->fields = fields_of(definition, reference->in_fp64 ? "double" : "float");
  const Op op{.name = definition.name,
              .bind = [reference = reference.get()](const Problem& p, std::span<void* const> t,
                                                    void*) { return reference->bind(p, t); },
              .fields = reference->fields};
  const KernelItem item{.yaml = yaml,
                        .folder = folder,
                        .op = op,
                        .name = "reference",
                        .names = {.dims = definition.dims, .parameters = {}}};
  Variant variant{.name = "reference", .idea = "The reference of the op."};
  variant.stages.push_back(read_stage(item, node, {.kernel = node}, 0));
  expect_kernel(yaml, node["kernel"], *variant.stages.front().custom);
  reference->variant = std::make_shared<const Variant>(std::move(variant));
  return {.on_gpu = {.variant = reference->variant,
                     .in_fp64 = reference->in_fp64,
                     .bind = [reference](const Problem& p,
                                         std::span<void* const> t) { return reference->bind(p, t); }},
          .on_host = host_reference(reference)};
}

}  // namespace warptune
