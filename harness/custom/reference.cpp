#include "harness/custom/reference.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/hash.h"
#include "harness/core/input_file.h"
#include "harness/device/compile.h"

namespace warptune {
namespace fs = std::filesystem;

extern const char kRunReference[];  // run_reference.py

namespace {

constexpr std::uintmax_t kMaxReferenceBytes = 16 << 20;

/// A word of a shell's command line.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// Runs a command. Throws InputError that begins with `what` and ends with its last line, if it fails.
void run_command(const std::string& command, const std::string& what) {
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (!pipe) throw InputError(what + ": no process could be started");
  std::string text;
  std::array<char, 4096> buffer;
  while (const auto n = std::fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), n);
  if (::pclose(pipe) == 0) return;
  while (text.ends_with('\n')) text.pop_back();
  const auto error = text.find("error:");  // of a compiler; Python's is in the last line
  const auto begin = error == std::string::npos ? text.rfind('\n') + 1 : text.rfind('\n', error) + 1;
  throw InputError(fmt::format("{}: {}", what, text.substr(begin, text.find('\n', begin) - begin)));
}

/// A new folder that is removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "warptune-reference-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder for a reference");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void write_values(const fs::path& path, const std::vector<double>& values) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(double)));
  if (!out.flush()) throw std::runtime_error(fmt::format("'{}' cannot be written", path.string()));
}

using CppFunction = void(const double* const*, double* const*, const long long*, const double*);

/// A shared library with a function.
class Library {
 public:
  Library(const fs::path& file, const std::string& function) {
    const std::string text = read_input(file, fmt::format("'{}'", file.string()), kMaxReferenceBytes);
    const TemporaryFolder folder;
    const fs::path library = folder.path() / "reference.so";
    const char* compiler = std::getenv("CXX");
    run_command(fmt::format("{} -O2 -std=c++20 -shared -fPIC -x c++ -o {} {}", compiler ? compiler : "c++",
                            quoted(library.string()), quoted(file.string())),
                fmt::format("'{}' does not compile", file.string()));
    handle_ = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) throw InputError(fmt::format("'{}' cannot be loaded: {}", file.string(), ::dlerror()));
    function_ = reinterpret_cast<CppFunction*>(::dlsym(handle_, function.c_str()));
    if (!function_) {
      ::dlclose(handle_);
      throw InputError(
          fmt::format("'{}' has no function '{}' that is extern \"C\"", file.string(), function));
    }
  }
  ~Library() { ::dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  CppFunction* function() const { return function_; }

 private:
  void* handle_ = nullptr;
  CppFunction* function_ = nullptr;
};

/// A library that the first call compiles and loads.
struct LazyLibrary {
  std::mutex mutex;
  std::unique_ptr<Library> library;
};

}  // namespace

Reference cpp_reference(const fs::path& file, const std::string& function) {
  return [file, function, lazy = std::make_shared<LazyLibrary>()](
             std::span<const ReferenceTensor> inputs, std::span<ReferenceTensor> outputs,
             std::span<const ReferenceNumber> dims, std::span<const ReferenceNumber> scalars) {
    {
      const std::lock_guard lock(lazy->mutex);
      if (!lazy->library) lazy->library = std::make_unique<Library>(file, function);
    }
    std::vector<const double*> in;
    for (const ReferenceTensor& tensor : inputs) in.push_back(tensor.values.data());
    std::vector<double*> out;
    for (ReferenceTensor& tensor : outputs) out.push_back(tensor.values.data());
    std::vector<long long> sizes;
    for (const ReferenceNumber& dim : dims) sizes.push_back(static_cast<long long>(dim.value));
    std::vector<double> numbers;
    for (const ReferenceNumber& scalar : scalars) numbers.push_back(scalar.value);
    lazy->library->function()(in.data(), out.data(), sizes.data(), numbers.data());
  };
}

Reference python_reference(const fs::path& file, const std::string& function) {
  return [file, function](std::span<const ReferenceTensor> inputs, std::span<ReferenceTensor> outputs,
                          std::span<const ReferenceNumber> dims, std::span<const ReferenceNumber> scalars) {
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
    run_command(fmt::format("python3 {} {}", quoted((folder.path() / "run.py").string()),
                            quoted((folder.path() / "job.json").string())),
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
