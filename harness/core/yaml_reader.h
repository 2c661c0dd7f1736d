#pragma once
// Typed access to YAML. Errors have the file, the line and what would be right.
#include <fmt/core.h>
#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/brief.h"
#include "harness/core/error.h"

namespace warptune {

class YamlReader {
 public:
  /// Parses the file. Throws InputError.
  explicit YamlReader(std::string path);
  const YAML::Node& root() const { return root_; }

  /// "FILE:LINE" of a node.
  std::string where(const YAML::Node& node) const;
  [[noreturn]] void fail(const YAML::Node& node, const std::string& sentence) const;
  template <class... T>
  requires(sizeof...(T) > 0)
      [[noreturn]] void fail(const YAML::Node& node, fmt::format_string<T...> format, T&&... values) const {
    fail(node, fmt::format(format, std::forward<T>(values)...));
  }
  /// Returns what `body` returns; its InputError gets file and line of the node.
  template <class F>
  auto at(const YAML::Node& node, F&& body) const {
    try {
      return body();
    } catch (const InputError& e) {
      fail(node, e.what());
    }
  }

  /// Checks that a node is a map with only these keys, none twice. `what` names the node: "an op".
  void expect_keys(const YAML::Node& map, const std::string& what,
                   std::initializer_list<const char*> keys) const;
  void expect_map(const YAML::Node& node, const std::string& what) const;
  /// Checks that a node is a list with at least one item.
  void expect_list(const YAML::Node& node, const std::string& what) const;
  std::string text(const YAML::Node& node, const std::string& what) const;
  /// One of these words, as its index.
  std::size_t word(const YAML::Node& node, const std::string& what,
                   std::initializer_list<std::string_view> words) const;
  std::int64_t whole(const YAML::Node& node, const std::string& what) const;
  /// An integer in these bounds.
  std::int64_t whole(const YAML::Node& node, const std::string& what, std::int64_t min,
                     std::int64_t max) const;
  /// true or false.
  bool yes(const YAML::Node& node, const std::string& what) const;
  double positive(const YAML::Node& node, const std::string& what) const;
  /// The items of a list, or the scalar itself.
  std::vector<YAML::Node> items(const YAML::Node& node, const std::string& what) const;
  /// The texts of a list, of a scalar or of a range: {from: 2, to: 8, times: 2} or {from: 2, to: 8, step: 2}.
  std::vector<std::string> values(const YAML::Node& node, const std::string& what) const;

 private:
  std::string path_;
  YAML::Node root_;
};

}  // namespace warptune
