#pragma once
// What the fuzz targets share. A target gives LLVMFuzzerTestOneInput() to libFuzzer, or to replay.cpp, which
// runs the corpus as an ordinary test. A finding is any exception but InputError, a broken promise() and
// whatever the sanitizers report.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "harness/core/error.h"
#include "harness/core/print.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace warptune::fuzz {

/// Ends the program where something does not hold that the code under test promises.
inline void promise(bool holds, std::string_view what) {
  if (holds) return;
  fmt::print(stderr, "broken promise: {}\n", what);
  std::abort();
}

/// Runs the code under test. It may refuse the input with a sentence, which is printed on one line.
template <class Body>
void accept_or_refuse(Body&& body) {
  try {
    body();
  } catch (const InputError& e) {
    const std::string sentence = one_line(e.what());
    promise(!sentence.empty() && sentence.size() <= kMaxMessage, "a sentence of 1 to 400 bytes");
    for (const char c : sentence)
      promise(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "a sentence without control characters");
  }
}

/// A folder of this process, removed at its end.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / fmt::format("warptune_fuzz.{}", ::getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Writes the input to a file, for code that reads files. The next input replaces it.
inline std::filesystem::path input_file(const char* name, std::string_view text) {
  static const Folder folder;
  const auto path = folder.path() / name;
  std::filesystem::remove(path.string() + ".cut");  // keep_beside() appends to it
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace warptune::fuzz
