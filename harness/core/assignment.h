#pragma once
// Ordered names with integer values: the dims of a problem, the parameters of a configuration.
#include <algorithm>
#include <cstdint>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

namespace warptune {

class Assignment {
 public:
  /// A value. An enumerated one (`style=interleaved`) has a label, and the value is the label's index. An
  /// omitted one is the default of an optional dim: it can be read, but is neither written nor compared.
  struct Entry {
    std::string name;
    std::int64_t value = 0;
    std::string label;
    bool omitted = false;
    bool operator==(const Entry&) const = default;
  };

  Assignment() = default;
  Assignment(std::initializer_list<std::pair<std::string, std::int64_t>> entries);

  /// The value of a name; throws std::out_of_range that lists the names.
  std::int64_t operator[](std::string_view name) const;
  std::int64_t get(std::string_view name, std::int64_t fallback) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const Entry* find(std::string_view name) const;
  void set(std::string_view name, std::int64_t value, std::string label = {}, bool omitted = false);

  void reserve(std::size_t entries) { entries_.reserve(entries); }

  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  std::size_t size() const { return entries_.size(); }
  /// The entries that are not omitted.
  auto written() const {
    return entries_ | std::views::filter([](const Entry& entry) { return !entry.omitted; });
  }
  /// "block=256,vec=8"; an enumerated value is written as its label.
  std::string str() const;
  /// The same as a mapping in YAML: "{block: 256, vec: 8}".
  std::string yaml() const;
  bool operator==(const Assignment& other) const { return std::ranges::equal(written(), other.written()); }

 private:
  std::vector<Entry> entries_;
};

/// The label of a value; `otherwise` where it has none.
std::string label_at(const std::vector<std::string>& labels, std::int64_t value, std::string otherwise = {});

/// Throws InputError that begins with `what` ("dim 'tokens'") unless the text is an integer that fits
/// 64 bits.
std::int64_t whole_number(std::string_view text, std::string_view what);
/// Splits "a=1,b=x" into pairs; throws InputError where a pair has no '=' or a name is given twice.
std::vector<std::pair<std::string, std::string>> parse_pairs(std::string_view text);

}  // namespace warptune
