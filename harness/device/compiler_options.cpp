#include "harness/device/compiler_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <sstream>
#include <vector>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"
#include "harness/core/text.h"

namespace warptune {
namespace {

enum class Value { none, truth, number, word, text, ptxas };

struct Known {
  const char* names;  // separated by spaces
  Value value = Value::none;
  int least = 0, most = 0;      // the range of a number
  const char* words = nullptr;  // separated by spaces
};

constexpr Known kOptions[] = {
    {.names = "--std -std", .value = Value::word, .words = "c++03 c++11 c++14 c++17 c++20 c++23"},
    {.names = "--define-macro -D", .value = Value::text},
    {.names = "--undefine-macro -U", .value = Value::text},
    {.names = "--pre-include -include", .value = Value::text},
    {.names = "--maxrregcount -maxrregcount", .value = Value::number, .least = 16, .most = 255},
    {.names = "--use_fast_math -use_fast_math"},
    {.names = "--ftz -ftz", .value = Value::truth},
    {.names = "--prec-sqrt -prec-sqrt", .value = Value::truth},
    {.names = "--prec-div -prec-div", .value = Value::truth},
    {.names = "--fmad -fmad", .value = Value::truth},
    {.names = "--extra-device-vectorization -extra-device-vectorization"},
    {.names = "--restrict -restrict"},
    {.names = "--device-as-default-execution-space -default-device"},
    {.names = "--device-int128 -device-int128"},
    {.names = "--device-float128 -device-float128"},
    {.names = "--device-debug -G"},
    {.names = "--generate-line-info -lineinfo"},
    {.names = "--dopt -dopt", .value = Value::word, .words = "on"},
    {.names = "--Ofast-compile -Ofc", .value = Value::word, .words = "0 min mid max"},
    {.names = "--ptxas-options -Xptxas", .value = Value::ptxas},
    {.names = "--disable-warnings -w"},
    {.names = "--diag-error -diag-error", .value = Value::text},
    {.names = "--diag-suppress -diag-suppress", .value = Value::text},
    {.names = "--diag-warn -diag-warn", .value = Value::text},
    {.names = "--display-error-number -err-no"},
    {.names = "--no-display-error-number -no-err-no"},
    {.names = "--brief-diagnostics -brief-diag", .value = Value::truth},
    {.names = "--builtin-move-forward -builtin-move-forward", .value = Value::truth},
    {.names = "--builtin-initializer-list -builtin-initializer-list", .value = Value::truth},
    {.names = "--modify-stack-limit -modify-stack-limit", .value = Value::truth},
    {.names = "--jump-table-density -jtd", .value = Value::number, .least = 0, .most = 101},
    {.names = "--device-stack-protector -device-stack-protector", .value = Value::truth},
    {.names = "--split-compile -split-compile", .value = Value::number, .least = 0, .most = 1024},
    {.names = "--minimal -minimal"},
    {.names = "--no-cache -no-cache"},
};

constexpr Known kPtxasOptions[] = {
    {.names = "--opt-level -O", .value = Value::number, .least = 0, .most = 4},
    {.names = "--verbose -v"},
    {.names = "--disable-warnings -w"},
    {.names = "--maxrregcount -maxrregcount", .value = Value::number, .least = 16, .most = 255},
    {.names = "--allow-expensive-optimizations", .value = Value::truth},
    {.names = "--def-load-cache -dlcm", .value = Value::word, .words = "ca cg cs lu cv"},
    {.names = "--force-load-cache -flcm", .value = Value::word, .words = "ca cg cs lu cv"},
    {.names = "--def-store-cache -dscm", .value = Value::word, .words = "wb cg cs wt"},
    {.names = "--force-store-cache -fscm", .value = Value::word, .words = "wb cg cs wt"},
    {.names = "--fmad", .value = Value::truth},
    {.names = "--register-usage-level", .value = Value::number, .least = 0, .most = 10},
    {.names = "--disable-optimizer-constants"},
    {.names = "--optimize-float-atomics"},
    {.names = "--sp-bounds-check"},
    {.names = "--return-at-end"},
    {.names = "--dont-merge-basicblocks"},
    {.names = "--warn-on-spills"},
    {.names = "--warn-on-local-memory-usage"},
    {.names = "--warn-on-double-precision-use"},
    {.names = "--suppress-stack-size-warning"},
    {.names = "--warning-as-error"},
};

/// Options of NVRTC that are refused, and why.
struct Refused {
  const char *names, *why;
};
constexpr Refused kRefused[] = {
    {"--time -time --fdevice-time-trace -fdevice-time-trace", "it makes the compiler write a file"},
    {"--pch -pch --create-pch -create-pch --use-pch -use-pch --pch-dir -pch-dir --pch-messages -pch-messages "
     "--pch-verbose -pch-verbose --instantiate-templates-in-pch -instantiate-templates-in-pch",
     "precompiled headers are files beside the cache, which it does not follow"},
    {"-I --include-path -include-path",
     "folders of headers belong to 'include', so that the hash of the sources covers them"},
    {"--no-source-include -no-source-include", "the folder of the source is always searched"},
    {"--gpu-architecture -arch", "the device decides the architecture"},
    {"--device-c -dc --device-w -dw --relocatable-device-code -rdc --extensible-whole-program -ewp "
     "--dlink-time-opt -dlto --gen-opt-lto -gen-opt-lto --optix-ir -optix-ir --fdevice-syntax-only "
     "-fdevice-syntax-only",
     "it makes no kernel that can be launched"},
    {"-Xcudafe -Xnvvm -Xllc -Xopt", "options of the compiler's parts may write files"},
};

std::vector<std::string> words_of(const char* text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

bool has_word(const char* text, const std::string& word) { return contains(words_of(text), word); }

/// An option as it is written: -DNAME, --name=value, -name.
struct Written {
  std::string name;
  std::optional<std::string> value;
};

Written split(const std::string& option) {
  const std::string joined = option.substr(0, 2);
  if ((joined == "-D" || joined == "-U" || joined == "-I") && option.size() > 2)
    return {joined, option.substr(2)};
  const bool is_level = joined == "-O" && option.size() == 3;  // -O3
  if (is_level) return {joined, option.substr(2)};
  const auto equals = option.find('=');
  if (equals == std::string::npos) return {option, std::nullopt};
  return {option.substr(0, equals), option.substr(equals + 1)};
}

[[noreturn]] void refuse(const std::string& option, const std::string& why) {
  throw InputError("the compiler option '{}' is not allowed: {}", brief(option), why);
}

Known find_option(std::span<const Known> options, const std::string& option, const std::string& name) {
  std::vector<std::string> names;
  for (const Known& known : options) {
    if (has_word(known.names, name)) return known;
    std::ranges::copy(words_of(known.names), std::back_inserter(names));
  }
  for (const Refused& refused : kRefused)
    if (has_word(refused.names, name)) refuse(option, refused.why);
  const std::string near = near_miss(name, names);
  refuse(option, "docs/custom-kernels.md lists the allowed ones" + near);
}

/// `whole` is the option in messages: `option` may be a part of it.
std::string checked(std::span<const Known> options, const std::string& option, const std::string& whole) {
  const auto [name, value] = split(option);
  const Known known = find_option(options, whole, name);
  const auto expect = [&, &name = name](bool right, const std::string& what) {
    if (!right)
      throw InputError("the compiler option '{}' is wrong: '{}' takes {}", brief(whole), name, what);
  };
  const std::string text = value.value_or("");
  switch (known.value) {
    case Value::none:
      expect(!value || text == "0" || text == "1", "no value, or 0 or 1");
      return text == "0" ? "" : name;
    case Value::truth:
      expect(text == "true" || text == "false" || text == "0" || text == "1", "true or false");
      return fmt::format("{}={}", name, text == "true" || text == "1");
    case Value::number: {
      const auto number = parse_number<int>(text);
      expect(number && *number >= known.least && *number <= known.most,
             fmt::format("an integer from {} to {}", known.least, known.most));
      return option;
    }
    case Value::word:
      expect(has_word(known.words, text), "one of " + listed(words_of(known.words)));
      return option;
    case Value::text:
      expect(!text.empty(), "a value");
      return option;
    case Value::ptxas: {
      expect(!text.empty(), "one option of ptxas");
      const std::string inner = checked(kPtxasOptions, text, whole);
      return inner.empty() ? "" : name + "=" + inner;
    }
  }
  return option;
}

}  // namespace

std::string checked_option(const std::string& option) { return checked(kOptions, option, option); }

void check_option_name(const std::string& option) {
  const auto [name, value] = split(option);
  const Known known = find_option(kOptions, option, name);
  if (known.value == Value::ptxas && value && value->find('{') != 0)
    find_option(kPtxasOptions, option, split(*value).name);
}

}  // namespace warptune
