#include "harness/results/output_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/core/error.h"
#include "harness/core/input_file.h"
#include "harness/results/durable_file.h"

namespace warptune {
namespace fs = std::filesystem;
namespace {

constexpr std::uintmax_t kMaxInspectedBytes = 1 << 30;  // the largest file that is looked into

/// What the user keeps in a file: results or sources. Empty where that is not known.
std::string kept_in(const fs::path& path, std::string_view text) {
  static const std::pair<std::string_view, std::string_view> kinds[] = {
      {".csv", "a CSV"},       {".journal", "the journal of a sweep"}, {".yaml", "a YAML file"},
      {".yml", "a YAML file"}, {".safetensors", "a file of weights"},  {".cu", "a CUDA source"}};
  for (const auto& [extension, kind] : kinds)
    if (path.extension() == extension) return std::string(kind);
  if (path.filename() == "device.json") return "the facts of a device";
  if (text.starts_with('{') && text.find("\"winners\"") != text.npos) return "a wisdom";
  const std::string_view heading = text.substr(0, text.find('\n'));
  return heading.find(',') != heading.npos && heading.find("run_id") != heading.npos ? "a row file" : "";
}

/// Whether a path lies below a folder, after all links.
bool is_below(const fs::path& path, const fs::path& folder) {
  std::error_code error;
  const fs::path file = fs::canonical(path, error), above = fs::canonical(folder, error);
  return !error && std::ranges::mismatch(above, file).in1 == above.end();
}

bool is_same(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

[[noreturn]] void fail_as_input(const fs::path& output) {
  throw InputError("'{}' is an input of this command, which never writes over it; name another output",
                   output.string());
}

void expect_none_of(const fs::path& output, const std::vector<fs::path>& inputs) {
  for (const fs::path& input : inputs)
    if (is_same(output, input)) fail_as_input(output);
}

void expect_below_none_of(const fs::path& output, const std::vector<fs::path>& inputs) {
  for (const fs::path& input : inputs)
    if (fs::is_directory(input) && is_below(output, input)) fail_as_input(output);
}

}  // namespace

OutputKind kind_that_begins(std::string name, std::vector<std::string> beginnings) {
  return {.name = std::move(name), .is_earlier = [beginnings = std::move(beginnings)](std::string_view text) {
            return std::ranges::any_of(beginnings,
                                       [&](const std::string& begin) { return text.starts_with(begin); });
          }};
}

void expect_no_input(const fs::path& output, const std::vector<fs::path>& inputs) {
  std::error_code error;
  if (!fs::exists(output, error)) return;
  expect_none_of(output, inputs);
  expect_below_none_of(output, inputs);
}

OutputFile::OutputFile(fs::path path, OutputKind kind, std::vector<fs::path> inputs, bool force)
    : path_(std::move(path)), kind_(std::move(kind)), inputs_(std::move(inputs)), force_(force) {
  expect_replaceable();
  expect_writable(path_);
}

void OutputFile::expect_replaceable() const {
  std::error_code error;
  const fs::file_status status = fs::status(path_, error);
  if (!fs::exists(status)) return;
  expect_none_of(path_, inputs_);
  if (fs::is_directory(status)) throw InputError("'{}' is a folder; the output is a file", path_.string());
  if (!fs::is_regular_file(status)) return;
  const bool is_large = fs::file_size(path_, error) > kMaxInspectedBytes;
  const std::string text =
      is_large ? std::string() : read_input(path_, fmt::format("'{}'", path_.string()), kMaxInspectedBytes);
  if (!is_large && (text.empty() || kind_.is_earlier(text))) return;
  expect_below_none_of(path_, inputs_);
  if (const std::string kept = kept_in(path_, text); !kept.empty() && kept != kind_.name)
    throw InputError("'{}' is {}, which {} never replaces; name another output, or remove it first",
                     path_.string(), kept, kind_.name);
  if (!force_)
    throw InputError(
        "'{}' exists and is not {} of an earlier run; name another output, or replace "
        "it with --force",
        path_.string(), kind_.name);
}

void OutputFile::write(std::string_view text) const try {
  expect_replaceable();
  replace_file(path_, text);
} catch (const std::runtime_error& e) {
  throw InputError(e.what());
}

}  // namespace warptune
