#pragma once
// Files of tests.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace warptune::testing {

/// The bytes of a file; empty if it cannot be read.
inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace warptune::testing
