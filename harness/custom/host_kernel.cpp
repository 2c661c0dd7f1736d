#include "harness/custom/host_kernel.h"

#include <cxxabi.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/device/argument_values.h"
#include "harness/device/compile.h"
#include "harness/device/source_closure.h"

namespace warptune {
namespace fs = std::filesystem;

extern const char kKernelOnHost[];  // kernel_on_host.h

namespace {

constexpr unsigned kMaxParameters = 64;

/// "FILE:LINE" as a directive for the compiler, whose errors then name it.
std::string line_directive(const std::string& where) {
  const auto colon = where.rfind(':');
  return fmt::format("#line {} \"{}\"\n", where.substr(colon + 1), where.substr(0, colon));
}

/// "ns::name" of "_ZN2ns4nameE".
std::string demangled(const std::string& symbol) {
  int status = 0;
  char* const name = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string text = status == 0 ? name : symbol;
  std::free(name);
  return text;
}

/// The file with functions that call one kernel and give the addresses of its constant memory.
std::string text_of(const CustomKernel& kernel, const std::string& name,
                    const std::vector<ConstantMemory>& constants) {
  std::string addresses;
  for (const ConstantMemory& c : constants) addresses += fmt::format("(void*)&{}, ", demangled(c.symbol));
  return kKernelOnHost + fmt::format("#include \"{}\"\n", kernel.file.string()) +
         line_directive(kernel.where) + fmt::format("static constexpr auto warptune_kernel = &{};\n", name) +
         "extern \"C\" unsigned warptune_parameters(unsigned* sizes) {\n"
         "  return warptune_host::parameters(warptune_kernel, sizes);\n}\n"
         "extern \"C\" void warptune_run(void* const* arguments, const unsigned* extents) {\n"
         "  warptune_host::run(warptune_kernel, arguments, extents);\n}\n"
         "extern \"C\" void* warptune_constant(unsigned i) {\n"
         "  void* const all[] = {" +
         addresses + "nullptr};\n  return all[i];\n}\n";
}

/// The options that count on the host too: symbols, the standard, and folders that are not the toolkit's.
std::vector<std::string> options_of(const CustomKernel& kernel, const Problem& problem,
                                    const Config& config) {
  std::vector<std::string> options;
  const std::vector<fs::path> toolkit = toolkit_folders();
  for (const std::string& option : kernel.options)
    if (option.starts_with("-D") || option.starts_with("-std=") ||
        (option.starts_with("-I") && !contains(toolkit, fs::path(option.substr(2)))))
      options.push_back(option);
  if (kernel.defines)
    for (std::string& define : kernel.defines(problem, config)) options.push_back(std::move(define));
  return options;
}

std::vector<ConstantMemory> constants_of(const CustomKernel& kernel, const Problem& problem,
                                         const Config& config) {
  return kernel.constants ? kernel.constants(problem, config) : std::vector<ConstantMemory>();
}

}  // namespace

HostKernel::HostKernel(const CustomKernel& kernel, const Problem& problem, const Config& config)
    : arguments_(kernel.arguments(problem, config)), constants_(constants_of(kernel, problem, config)) {
  const std::string name = kernel.name(problem, config);
  try {
    library_ = std::make_unique<SharedLibrary>(text_of(kernel, name, constants_), kernel.file.string(),
                                               options_of(kernel, problem, config));
  } catch (const InputError& e) {
    throw CompileError(e.what());
  }
  check_parameters(kernel, name);
}

void HostKernel::check_parameters(const CustomKernel& kernel, const std::string& name) const {
  std::array<unsigned, kMaxParameters> sizes{};
  const unsigned count = (*library_->function<unsigned(unsigned*)>("warptune_parameters"))(sizes.data());
  const auto known = std::span(sizes).first(std::min(count, kMaxParameters));
  if (std::ranges::equal(known, arguments_, {}, {}, &KernelArgument::bytes) && count <= kMaxParameters)
    return;
  std::vector<std::size_t> passed;
  for (const KernelArgument& argument : arguments_) passed.push_back(argument.bytes);
  throw CompileError(
      "{}: kernel '{}' takes other parameters ({} of {} bytes) than 'arguments' passes ({} of {} bytes)",
      kernel.where, name, count, fmt::join(known, ", "), passed.size(), fmt::join(passed, ", "));
}

void HostKernel::run(const void* args, void* workspace, const Launch& launch) const {
  for (std::size_t i = 0; i < constants_.size(); ++i) {
    const ConstantMemory& c = constants_[i];
    const void* from = c.value.data();
    if (c.tensor_bytes > 0)
      std::memcpy(&from, static_cast<const std::byte*>(args) + c.tensor_offset, sizeof from);
    std::memcpy((*library_->function<void*(unsigned)>("warptune_constant"))(static_cast<unsigned>(i)), from,
                std::max(c.tensor_bytes, c.value.size()));
  }
  const unsigned extents[] = {launch.grid.x,  launch.grid.y,  launch.grid.z,
                              launch.block.x, launch.block.y, launch.block.z};
  const ArgumentValues values(arguments_, args, workspace);
  (*library_->function<void(void* const*, const unsigned*)>("warptune_run"))(values.addresses().data(),
                                                                             extents);
}

std::string HostKernel::why_not(const CustomKernel& kernel, const Problem& problem,
                                const Config& config) try {
  if (kernel.is_binary) return fmt::format("'{}' is machine code", kernel.file.string());
  check_cpp(text_of(kernel, kernel.name(problem, config), constants_of(kernel, problem, config)),
            kernel.file.string(), options_of(kernel, problem, config));
  return {};
} catch (const InputError& e) {
  return e.what();
} catch (const CompileError& e) {  // an expression fails
  return e.what();
}

const HostKernel& HostKernels::get(const CustomKernel& kernel, const Problem& problem, const Config& config) {
  const std::lock_guard lock(mutex_);
  const std::pair key(problem.key() + kernel.name(problem, config), config.str());
  const auto it = known_.find(key);
  return it != known_.end() ? it->second : known_.try_emplace(key, kernel, problem, config).first->second;
}

void add_host_functions(Variant& variant) {
  const Variant self = variant;  // as it is on a GPU
  variant.why_not_on_host = [self](const Problem& problem, const Config& config) -> std::string {
    for (const Stage* stage : active_kernels(self, problem, config)) {
      if (!stage->maps.empty()) return "its tensor maps need a GPU";
      if (std::string why = HostKernel::why_not(*stage->custom, problem, config); !why.empty()) return why;
    }
    return {};
  };
  variant.host = [self, kernels = std::make_shared<HostKernels>()](const Problem& problem,
                                                                   const Config& config) -> HostFunction {
    struct Step {
      const HostKernel* kernel;
      Launch launch;
    };
    std::vector<Step> steps;
    for (const Stage* stage : active_kernels(self, problem, config))
      steps.push_back(
          {&kernels->get(*stage->custom, problem, config), launch_of(self, *stage, problem, config)});
    const auto bytes = static_cast<std::size_t>(bytes_of(self.own_workspace, self, problem, config));
    return [kernels, steps, own = std::make_shared<std::vector<std::byte>>(bytes)](const void* args) {
      for (const Step& step : steps) step.kernel->run(args, own->data(), step.launch);
    };
  };
}

}  // namespace warptune
