#include "harness/custom/reference.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/core/input_file.h"
#include "harness/custom/shared_library.h"
#include "harness/device/compile.h"

namespace warptune {
namespace fs = std::filesystem;

extern const char kRunReference[];  // run_reference.py

namespace {

constexpr std::uintmax_t kMaxReferenceBytes = 16 << 20;

void write_values(const fs::path& path, const std::vector<double>& values) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(double)));
  if (!out.flush()) throw std::runtime_error(fmt::format("'{}' cannot be written", path.string()));
}

using CppFunction = void(const double* const*, double* const*, const long long*, const double*);

/// A library that the first call compiles and loads.
struct LazyLibrary {
  std::mutex mutex;
  std::unique_ptr<SharedLibrary> library;
  CppFunction* function = nullptr;

  void load(const fs::path& file, const std::string& name) {
    const std::lock_guard lock(mutex);
    if (function) return;
    read_input(file, fmt::format("'{}'", file.string()), kMaxReferenceBytes);
    library = std::make_unique<SharedLibrary>(file, file.string());
    function = library->function<CppFunction>(name);
    if (!function)
      throw InputError(fmt::format("'{}' has no function '{}' that is extern \"C\"", file.string(), name));
  }
};

}  // namespace

Reference cpp_reference(const fs::path& file, const std::string& function) {
  return [file, function, lazy = std::make_shared<LazyLibrary>()](
             const Problem&, std::span<const ReferenceTensor> inputs, std::span<ReferenceTensor> outputs,
             std::span<const ReferenceNumber> dims, std::span<const ReferenceNumber> scalars) {
    lazy->load(file, function);
    std::vector<const double*> in;
    for (const ReferenceTensor& tensor : inputs) in.push_back(tensor.values.data());
    std::vector<double*> out;
    for (ReferenceTensor& tensor : outputs) out.push_back(tensor.values.data());
    std::vector<long long> sizes;
    for (const ReferenceNumber& dim : dims) sizes.push_back(static_cast<long long>(dim.value));
    std::vector<double> numbers;
    for (const ReferenceNumber& scalar : scalars) numbers.push_back(scalar.value);
    lazy->function(in.data(), out.data(), sizes.data(), numbers.data());
  };
}

Reference python_reference(const fs::path& file, const std::string& function) {
  return [file, function](const Problem&, std::span<const ReferenceTensor> inputs,
                          std::span<ReferenceTensor> outputs, std::span<const ReferenceNumber> dims,
                          std::span<const ReferenceNumber> scalars) {
    const TemporaryFolder folder;
    nlohmann::json job = {{"file", file.string()},
                          {"function", function},
                          {"inputs", nlohmann::json::array()},
                          {"outputs", nlohmann::json::array()},
                          {"numbers", nlohmann::json::object()}};
    const auto add = [&](const char* list, const ReferenceTensor& tensor) {
      const fs::path path = folder.path() / fmt::format("{}-{}", list, tensor.name);
      job[list].push_back({{"name", tensor.name}, {"shape", tensor.shape}, {"path", path.string()}});
      return path;
    };
    for (const ReferenceTensor& tensor : inputs) write_values(add("inputs", tensor), tensor.values);
    std::vector<fs::path> results;
    for (const ReferenceTensor& tensor : outputs) results.push_back(add("outputs", tensor));
    for (const auto numbers : {dims, scalars})
      for (const ReferenceNumber& number : numbers)
        if (number.whole)
          job["numbers"][number.name] = static_cast<std::int64_t>(number.value);
        else
          job["numbers"][number.name] = number.value;
    std::ofstream(folder.path() / "job.json") << job.dump();
    std::ofstream(folder.path() / "run.py") << kRunReference;
    run_command(fmt::format("python3 {} {}", shell_word((folder.path() / "run.py").string()),
                            shell_word((folder.path() / "job.json").string())),
                fmt::format("the reference '{}' of '{}' does not run", function, file.string()));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      std::ifstream in(results[i], std::ios::binary);
      in.read(reinterpret_cast<char*>(outputs[i].values.data()),
              static_cast<std::streamsize>(outputs[i].values.size() * sizeof(double)));
      if (!in) throw InputError(fmt::format("the reference '{}' wrote no '{}'", function, outputs[i].name));
    }
  };
}

}  // namespace warptune
