#include "harness/verify/reference_kernel.h"

#include <fmt/format.h>

#include "harness/core/error.h"

namespace warptune {
namespace {

std::vector<std::byte> contents(const TensorSpec& spec, bool in_fp64, const Values& input) {
  std::vector<double> values(static_cast<std::size_t>(spec.count()));
  if (spec.role != Role::output)
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = input[static_cast<std::int64_t>(i)];
  return to_reference_array(spec.dtype, in_fp64, values);
}

}  // namespace

void run_reference_kernel(Device& device, const KernelReference& reference, const Problem& problem,
                          std::span<const TensorSpec> specs, std::uint64_t seed, Expected& out) {
  std::unique_ptr<Plan> plan;
  try {
    plan = device.prepare(*reference.variant, problem, {});
  } catch (const CompileError& e) {
    throw InputError("the reference of op '{}' does not compile: {}", problem.op, e.what());
  }
  const Inputs inputs(specs, seed);
  std::vector<Buffer> buffers;
  std::vector<void*> addresses;
  for (const TensorSpec& spec : specs) {
    const std::vector<std::byte> array = contents(spec, reference.in_fp64, inputs[spec.name]);
    buffers.push_back(device.allocate(array.size()));
    addresses.push_back(buffers.back().data());
    device.upload(addresses.back(), array.data(), array.size(), device.stream());
    device.synchronize();  // the copy reads `array`
  }
  const Args args = reference.bind(problem, addresses);
  plan->launch(args.data(), device.stream());
  device.synchronize();
  for (std::size_t t = 0; t < specs.size(); ++t) {
    if (specs[t].role == Role::input) continue;
    std::vector<std::byte> array(static_cast<std::size_t>(specs[t].count()) *
                                 reference_element_bytes(specs[t].dtype, reference.in_fp64));
    device.download(array.data(), addresses[t], array.size());
    std::vector<double> values = from_reference_array(specs[t].dtype, reference.in_fp64, array);
    expect_some_finite(problem.op, specs[t].name, values);
    out.put(specs[t].name, 0, std::move(values));
  }
}

}  // namespace warptune
