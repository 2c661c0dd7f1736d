#include "harness/core/assignment.h"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>
#include <unordered_set>

#include "harness/core/brief.h"
#include "harness/core/error.h"
#include "harness/core/lookup.h"

namespace warptune {

Assignment::Assignment(std::initializer_list<std::pair<std::string, std::int64_t>> entries) {
  for (const auto& [name, value] : entries) set(name, value);
}

const Assignment::Entry* Assignment::find(std::string_view name) const { return find_named(entries_, name); }

std::int64_t Assignment::operator[](std::string_view name) const {
  if (const Entry* entry = find(name)) return entry->value;
  throw std::out_of_range(fmt::format("no '{}' in '{}'", name, str()));
}

std::int64_t Assignment::get(std::string_view name, std::int64_t fallback) const {
  const Entry* entry = find(name);
  return entry ? entry->value : fallback;
}

void Assignment::set(std::string_view name, std::int64_t value, std::string label, bool omitted) {
  Entry entry{std::string(name), value, std::move(label), omitted};
  if (Entry* known = find_named(entries_, name))
    *known = std::move(entry);
  else
    entries_.push_back(std::move(entry));
}

std::string Assignment::str() const {
  std::string text;
  for (const Entry& entry : written()) {
    if (!text.empty()) text += ',';
    text += entry.label.empty() ? fmt::format("{}={}", entry.name, entry.value)
                                : fmt::format("{}={}", entry.name, entry.label);
  }
  return text;
}

std::string Assignment::yaml() const {
  std::string text;
  for (const Entry& entry : written())
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", entry.name,
                        entry.label.empty() ? fmt::format("{}", entry.value) : entry.label);
  return "{" + text + "}";
}

std::string label_at(const std::vector<std::string>& labels, std::int64_t value, std::string otherwise) {
  const auto index = static_cast<std::size_t>(value);
  return index < labels.size() ? labels[index] : otherwise;
}

std::int64_t whole_number(std::string_view text, std::string_view what) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end == text.data() + text.size();
  if (whole && error == std::errc::result_out_of_range)
    throw InputError("{} is {}, which does not fit 64 bits", what, brief(text));
  if (!whole || error != std::errc())
    throw InputError("{} is '{}'; it must be an integer", what, brief(text));
  return value;
}

std::vector<std::pair<std::string, std::string>> parse_pairs(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  std::unordered_set<std::string_view> names;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const auto item = text.substr(0, comma);
    const auto equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0)
      throw InputError("'{}' is not of the form name=value", brief(item));
    if (!names.insert(item.substr(0, equals)).second)
      throw InputError("'{}' is given twice", brief(item.substr(0, equals)));
    pairs.emplace_back(item.substr(0, equals), item.substr(equals + 1));
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  }
  return pairs;
}

}  // namespace warptune
