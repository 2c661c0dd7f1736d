#include "harness/custom/reference.h"

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/custom/child_process.h"
#include "harness/custom/shared_library.h"

namespace warptune {
namespace fs = std::filesystem;

extern const char kRunReference[];  // run_reference.py

namespace {

using CppFunction = void(const double* const*, double* const*, const long long*, const double*);

/// A library that the first call compiles and loads.
struct LazyLibrary {
  std::mutex mutex;
  std::unique_ptr<SharedLibrary> library;
  CppFunction* function = nullptr;

  CppFunction* load(const fs::path& file, const std::string& name) {
    const std::lock_guard lock(mutex);
    if (function) return function;
    read_input(file, fmt::format("'{}'", file.string()), kMaxReferenceBytes);
    library = std::make_unique<SharedLibrary>(fmt::format("#include \"{}\"\n", file.string()), file.string());
    function = library->function<CppFunction>(name);
    if (!function) throw InputError("'{}' has no function '{}' that is extern \"C\"", file.string(), name);
    return function;
  }
};

std::string name_of(const fs::path& file, const std::string& function) {
  return fmt::format("the reference '{}' of '{}'", function, file.string());
}

/// The bounds of a run, and how a message about it begins.
ChildBounds bounds_of(const Reference& reference) { return {.seconds = reference.seconds}; }
std::string what_of(const Reference& reference) { return reference.name + " does not run"; }

/// Takes the outputs from the files into which a child wrote them.
void take_outputs(const Reference& reference, const std::vector<MemoryFile>& files, ReferenceJob& job) {
  for (std::size_t i = 0; i < files.size(); ++i)
    if (!files[i].read(std::as_writable_bytes(std::span(job.outputs[i].values))))
      throw InputError("{} wrote no '{}'", reference.name, job.outputs[i].name);
}

/// The job for run_reference.py, without its tensors.
nlohmann::json job_of(const fs::path& file, const std::string& function, const ReferenceJob& job) {
  nlohmann::json json = {{"file", file.string()},
                         {"function", function},
                         {"inputs", nlohmann::json::array()},
                         {"outputs", nlohmann::json::array()},
                         {"numbers", nlohmann::json::object()}};
  for (const auto* numbers : {&job.dims, &job.scalars})
    for (const ReferenceNumber& number : *numbers)
      if (number.whole)
        json["numbers"][number.name] = static_cast<std::int64_t>(number.value);
      else
        json["numbers"][number.name] = number.value;
  return json;
}

void run_python(const Reference& reference, const fs::path& file, const std::string& function,
                ReferenceJob& job) {
  std::vector<MemoryFile> outputs(job.outputs.size()), files(job.inputs.size() + 1);  // the job is the last
  nlohmann::json json = job_of(file, function, job);
  const auto add = [&](const char* list, const ReferenceTensor& tensor, const MemoryFile& at) {
    json[list].push_back({{"name", tensor.name}, {"shape", tensor.shape}, {"path", at.path()}});
  };
  for (std::size_t i = 0; i < job.inputs.size(); ++i) {
    files[i].write(std::as_bytes(std::span(job.inputs[i].values)));
    add("inputs", job.inputs[i], files[i]);
  }
  for (std::size_t i = 0; i < job.outputs.size(); ++i) add("outputs", job.outputs[i], outputs[i]);
  const std::string text = json.dump();
  files.back().write(std::as_bytes(std::span(text)));
  std::vector<int> inherited;
  for (const auto* list : {&files, &outputs})
    for (const MemoryFile& f : *list) inherited.push_back(f.descriptor());
  run_program(what_of(reference), bounds_of(reference),
              {"python3", "-B", "-c", kRunReference, files.back().path()}, {}, inherited);
  take_outputs(reference, outputs, job);
}

}  // namespace

void run_apart(const Reference& reference, ReferenceJob& job) {
  if (!reference.load) return reference.run(job);
  reference.load(job);
  const std::vector<MemoryFile> files(job.outputs.size());
  run_child(what_of(reference), bounds_of(reference), [&] {
    reference.run(job);
    for (std::size_t i = 0; i < files.size(); ++i)
      files[i].write(std::as_bytes(std::span(job.outputs[i].values)));
  });
  take_outputs(reference, files, job);
}

Reference cpp_reference(const fs::path& file, const std::string& function, double seconds) {
  const auto lazy = std::make_shared<LazyLibrary>();
  return {.load = [file, function, lazy](const ReferenceJob&) { lazy->load(file, function); },
          .run =
              [file, function, lazy](ReferenceJob& job) {
                std::vector<const double*> in;
                for (const ReferenceTensor& tensor : job.inputs) in.push_back(tensor.values.data());
                std::vector<double*> out;
                for (ReferenceTensor& tensor : job.outputs) out.push_back(tensor.values.data());
                std::vector<long long> sizes;
                for (const ReferenceNumber& dim : job.dims)
                  sizes.push_back(static_cast<long long>(dim.value));
                std::vector<double> numbers;
                for (const ReferenceNumber& scalar : job.scalars) numbers.push_back(scalar.value);
                lazy->load(file, function)(in.data(), out.data(), sizes.data(), numbers.data());
              },
          .name = name_of(file, function),
          .seconds = seconds};
}

Reference python_reference(const fs::path& file, const std::string& function, double seconds) {
  Reference reference{.name = name_of(file, function), .seconds = seconds};
  reference.run = [file, function, bounds = reference](ReferenceJob& job) {
    run_python(bounds, file, function, job);
  };
  return reference;
}

}  // namespace warptune
