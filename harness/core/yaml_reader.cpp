#include "harness/core/yaml_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <unordered_set>

#include "harness/core/assignment.h"
#include "harness/core/input_file.h"
#include "harness/core/lookup.h"

namespace warptune {
namespace {

constexpr std::uint64_t kMostSteps = 10'000'000;  // of a range

/// Where the documents of a text begin.
class DocumentStarts : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { marks.push_back(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}

  std::vector<YAML::Mark> marks;
};

/// The only document of a text. YAML::LoadAll() would never end where a document begins with ",": the parser
/// takes it for an empty document and leaves it where it is.
YAML::Node only_document(const std::string& text, const std::string& path) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  DocumentStarts starts;
  while (starts.marks.size() < 2 && parser.HandleNextDocument(starts)) {
  }
  if (starts.marks.size() < 2) return YAML::Load(text);
  const bool stuck = starts.marks[0].pos == starts.marks[1].pos;
  throw InputError("{}:{}: {}", path, starts.marks[1].line + 1,
                   stuck ? "not valid YAML: a document cannot begin with this character"
                         : "a second document begins; a file holds one sweep");
}

}  // namespace

YamlReader::YamlReader(std::string path) : path_(std::move(path)) {
  const std::string text = read_input(path_, fmt::format("{}:1: the file", path_), kMaxSweepBytes);
  try {
    root_ = only_document(text, path_);
  } catch (const YAML::Exception& e) {
    throw InputError("{}:{}: not valid YAML: {}", path_, std::max(e.mark.line, 0) + 1, brief(e.msg));
  }
}

std::string YamlReader::where(const YAML::Node& node) const {
  return fmt::format("{}:{}", path_, node.IsDefined() ? std::max(node.Mark().line, 0) + 1 : 1);
}

void YamlReader::fail(const YAML::Node& node, const std::string& sentence) const {
  throw InputError("{}: {}", where(node), sentence);
}

void YamlReader::expect_map(const YAML::Node& node, const std::string& what) const {
  if (!node.IsMap()) fail(node, "{} must be a map of names to values", what);
  std::unordered_set<std::string> seen;
  for (const auto& pair : node) {
    const std::string key = text(pair.first, "a key");
    if (!seen.insert(key).second) fail(pair.first, "key '{}' of {} is given twice", brief(key), what);
    if (pair.second.IsNull()) fail(pair.first, "key '{}' of {} has no value", brief(key), what);
  }
}

void YamlReader::expect_keys(const YAML::Node& map, const std::string& what,
                             std::initializer_list<const char*> keys) const {
  expect_map(map, what);
  const std::vector<std::string> known(keys.begin(), keys.end());
  for (const auto& pair : map) {
    const std::string key = pair.first.Scalar();
    if (contains(known, key)) continue;
    fail(pair.first, "unknown key '{}' in {}{}", brief(key), what, did_you_mean(key, known));
  }
}

void YamlReader::expect_list(const YAML::Node& node, const std::string& what) const {
  if (!node.IsSequence()) fail(node, "{} must be a list", what);
  if (node.size() == 0) fail(node, "{} is an empty list; give at least one", what);
}

std::string YamlReader::text(const YAML::Node& node, const std::string& what) const {
  if (!node.IsScalar() || node.Scalar().empty()) fail(node, "{} must be a word", what);
  return node.Scalar();
}

std::size_t YamlReader::word(const YAML::Node& node, const std::string& what,
                             std::initializer_list<std::string_view> words) const {
  const std::string given = text(node, what);
  const auto it = std::ranges::find(words, given);
  if (it != words.end()) return static_cast<std::size_t>(it - words.begin());
  const std::string_view last = *(words.end() - 1);
  fail(node, "{} is '{}'; it must be {} or {}", what, brief(given),
       fmt::join(words.begin(), words.end() - 1, ", "), last);
}

std::int64_t YamlReader::whole(const YAML::Node& node, const std::string& what, std::int64_t min,
                               std::int64_t max) const {
  const std::int64_t value = whole(node, what);
  if (value < min || value > max) fail(node, "{} is {}; it must be {} to {}", what, value, min, max);
  return value;
}

std::int64_t YamlReader::whole(const YAML::Node& node, const std::string& what) const {
  if (!node.IsScalar()) fail(node, "{} must be an integer", what);
  try {
    return whole_number(node.Scalar(), what);
  } catch (const InputError& e) {
    fail(node, e.what());
  }
}

bool YamlReader::yes(const YAML::Node& node, const std::string& what) const {
  return word(node, what, {"true", "false"}) == 0;
}

double YamlReader::positive(const YAML::Node& node, const std::string& what) const {
  double value = 0;
  if (!node.IsScalar() || !YAML::convert<double>::decode(node, value) || !std::isfinite(value) || value <= 0)
    fail(node, "{}{} must be a number above 0", what,
         node.IsScalar() ? fmt::format(" is '{}'; it", brief(node.Scalar())) : "");
  return value;
}

std::vector<YAML::Node> YamlReader::items(const YAML::Node& node, const std::string& what) const {
  if (node.IsScalar()) return {node};
  expect_list(node, what);
  return {node.begin(), node.end()};
}

std::vector<std::string> YamlReader::values(const YAML::Node& node, const std::string& what) const {
  std::vector<std::string> texts;
  if (!node.IsMap()) {
    std::unordered_set<std::string> seen;
    for (const YAML::Node& item : items(node, what))
      if (std::string value = text(item, what); seen.insert(value).second) texts.push_back(std::move(value));
    return texts;
  }
  expect_keys(node, "a range", {"from", "to", "times", "step"});
  if (!node["from"] || !node["to"] || bool(node["times"]) == bool(node["step"]))
    fail(node, "the range of {} must be {{from: A, to: B, times: N}} or {{from: A, to: B, step: N}}", what);
  const std::int64_t from = whole(node["from"], "'from'"), to = whole(node["to"], "'to'");
  if (to < from) fail(node, "the range of {} is empty: {} is above {}", what, from, to);
  const bool multiply = bool(node["times"]);
  const std::int64_t by = multiply ? whole(node["times"], "'times'") : whole(node["step"], "'step'");
  if (by < (multiply ? 2 : 1))
    fail(node, "'{}' must be at least {}", multiply ? "times" : "step", multiply ? 2 : 1);
  if (multiply && from < 1) fail(node, "'from' must be at least 1 where 'times' is given");
  // Unsigned: the difference of two 64-bit numbers may not fit a signed one.
  const std::uint64_t steps =
      (static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from)) / static_cast<std::uint64_t>(by);
  if (!multiply && steps >= kMostSteps)
    fail(node, "the range of {} has {} steps of {}; it must have less than {}", what, steps, by, kMostSteps);
  for (std::int64_t value = from; value <= to;) {
    texts.push_back(std::to_string(value));
    if (multiply ? value > to / by : value > to - by) break;
    value = multiply ? value * by : value + by;
  }
  return texts;
}

}  // namespace warptune
