// Runs a target on the files of its corpus, without libFuzzer: ordinary tests of the ordinary build.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace {
namespace fs = std::filesystem;

std::vector<fs::path> files_below(const fs::path& path) {
  if (!fs::is_directory(path)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// False for an exception that escapes the target.
bool passes(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  try {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    return true;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: {}\n", file.string(), e.what());
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t files = 0, failed = 0;
  for (int i = 1; i < argc; ++i)
    for (const fs::path& file : files_below(argv[i])) {
      ++files;
      if (!passes(file)) ++failed;
    }
  fmt::print("{} of {} inputs pass\n", files - failed, files);
  return files == 0 || failed > 0 ? 1 : 0;
}
