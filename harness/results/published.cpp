#include "harness/results/published.h"

#include <fmt/format.h>

#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "harness/core/text.h"
#include "harness/core/text_table.h"
#include "published_files.h"  // the texts of results/published, written by CMake

namespace warptune {

namespace {

/// A GPU in the files, and a part of the name that CUDA gives it.
constexpr std::pair<std::string_view, std::string_view> kGpus[] = {
    {"a100_sxm", "A100-SXM4-80GB"}, {"h100_sxm", "H100 80GB HBM3"},
    {"h200_sxm", "NVIDIA H200"},    {"gb200", "GB200"},
    {"b200_sxm", "NVIDIA B200"},    {"b300_sxm", "NVIDIA B300"},
    {"l40s", "NVIDIA L40S"},        {"rtx_pro_6000_server", "RTX PRO 6000 Blackwell Server"},
};

using Times = std::map<std::string, std::string, std::less<>>;  // "GPU PROBLEM": "US SOURCE"

/// The columns are gpu, us and source, then dims, of which an empty one has its default.
void read(Times& times, std::string_view op, const char* file) {
  std::istringstream in(file);
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> columns = split(line, ',');
  while (std::getline(in, line)) {
    const std::vector<std::string> fields = split(line, ',');
    std::string key = fmt::format("{} {}[", fields[0], op);
    for (std::size_t i = 3; i < fields.size(); ++i)
      if (!fields[i].empty()) key += fmt::format("{}={},", columns[i], fields[i]);
    times.emplace(key + "dtype=bf16]", fields[1] + " " + fields[2]);
  }
}

const Times& times() {
  static const Times all = [] {
    Times read_times;
    for (const PublishedFile& file : kPublishedFiles) read(read_times, file.op, file.text);
    return read_times;
  }();
  return all;
}

}  // namespace

std::string published_time(std::string_view device, const Op& op, std::string_view problem) {
  for (const auto& [gpu, name] : kGpus) {
    if (device.find(name) == device.npos) continue;
    std::string label = label_of(op, problem);
    if (const auto append = label.find("append=yes,"); append != label.npos) label.erase(append, 11);
    // All published GEMMs on fp8 weights have fp8 activations.
    if (label.find("weights=fp8,") != label.npos && label.find("activations=") == label.npos)
      label.insert(label.find("dtype="), "activations=fp8,");
    const auto it = times().find(fmt::format("{} {}", gpu, label));
    return it == times().end() ? "" : it->second;
  }
  return {};
}

}  // namespace warptune
