#pragma once
// Sweeps from texts.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "harness/core/error.h"
#include "harness/tune/sweep.h"
#include "variants/table.h"

namespace warptune::testing {

inline std::string file() { return (std::filesystem::path(::testing::TempDir()) / "s.yaml").string(); }

inline Sweep load(const std::string& text) {
  std::ofstream(file()) << text;
  return load_sweep(ops(), file());
}

/// The error of a sweep without the file's name: "LINE: sentence".
inline std::string error_of(const std::string& text) {
  try {
    load(text);
  } catch (const InputError& e) {
    const std::string message = e.what();
    return message.starts_with(file() + ":") ? message.substr(file().size() + 1) : message;
  }
  return "no error";
}

inline std::string with_op(const std::string& rest) { return "ops:\n  - op: rms_norm\n" + rest; }

}  // namespace warptune::testing
