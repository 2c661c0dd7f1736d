// The arrows of docs/architecture.md: a module includes only modules below it.
// The harness takes the table of ops as an argument, which cli/ passes down: it includes nothing of variants/
// and names no op. But harness/llama composes ops by name, harness/report knows the ops of a decode step, and
// harness/exchange translates the op types of other tools.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

/// Source files of folders of the tree, relative to its root.
std::vector<fs::path> sources(std::initializer_list<const char*> folders) {
  std::vector<fs::path> files;
  for (const char* folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(SOURCE_ROOT) / folder))
      if (entry.path().extension() == ".cpp" || entry.path().extension() == ".h")
        files.push_back(entry.path().lexically_relative(SOURCE_ROOT));
  return files;
}

/// `core` of harness/core/op.h, `variants` of variants/linear/op.cpp.
std::string module_of(const fs::path& file) {
  const auto folder = file.begin();
  return *folder == "harness" ? *std::next(folder) : *folder;
}

std::vector<std::string> lines_of(const fs::path& file) {
  std::ifstream in(SOURCE_ROOT / file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The modules that a module may include besides itself: those that the arrows of docs/architecture.md reach.
const std::map<std::string, std::set<std::string>>& arrows() {
  static const std::set<std::string> below_verify = {"device", "core"};
  const auto with = [](std::set<std::string> modules, std::initializer_list<std::string> more) {
    modules.insert(more);
    return modules;
  };
  static const auto below_measure = with(below_verify, {"verify"}),
                    below_results = with(below_measure, {"measure"}),
                    below_select = with(below_results, {"results"}),
                    below_tune = with(below_select, {"select", "llama", "search", "custom"});
  static const std::map<std::string, std::set<std::string>> map = {
      {"core", {}},
      {"text", {"core"}},
      {"variants", {"core"}},
      {"device", {"core"}},
      {"custom", below_verify},
      {"verify", below_verify},
      {"measure", below_measure},
      {"results", below_results},
      {"select", below_select},
      {"export", with(below_select, {"select"})},
      {"search", with(below_select, {"select"})},
      {"exchange", with(below_select, {"select", "search"})},
      {"llama", with(below_select, {"select"})},
      {"tune", below_tune},
      {"report", with(below_tune, {"tune"})},
      {"cli", with(below_tune, {"tune", "report", "text", "export", "exchange", "variants"})}};
  return map;
}

TEST(Direction, AModuleIncludesOnlyModulesBelowIt) {
  const std::regex include(R"re(#include "(?:harness/)?(\w+)/.*)re");
  for (const fs::path& file : sources({"harness", "variants", "cli"})) {
    const std::string module = module_of(file);
    ASSERT_TRUE(arrows().contains(module)) << module << ": add it here and to docs/architecture.md";
    for (const std::string& line : lines_of(file)) {
      std::smatch m;
      if (!std::regex_match(line, m, include) || m[1] == module || m[1] == "kernels") continue;
      EXPECT_TRUE(arrows().at(module).contains(m[1]))
          << file << ": " << line << "\npass what it needs as an argument (core/op_table.h)";
    }
  }
}

TEST(Direction, TheHarnessNamesNoOp) {
  std::string names;
  for (const OpEntry& entry : ops()) names += (names.empty() ? "" : "|") + entry.op.name;
  const std::regex comment(R"(\s*//.*)"), literal(R"("(?:[^"\\]|\\.)*")"), name("\\b(" + names + ")\\b"),
      example("`\\w+\\[\\w+=.*`");
  for (const fs::path& file : sources({"harness"})) {
    const std::string module = module_of(file);
    if (module == "llama" || module == "report" || module == "exchange") continue;
    for (const std::string& line : lines_of(file)) {
      const std::string code = std::regex_replace(line, comment, "");
      for (std::sregex_iterator it(code.begin(), code.end(), literal), end; it != end; ++it) {
        const std::string text = it->str();
        if (std::regex_search(text, example)) continue;  // the form of a key, in a help text
        EXPECT_FALSE(std::regex_search(text, name))
            << file << ": " << line
            << "\nmake it a fact of the op or the variant (core/op.h, core/variant.h)";
      }
    }
  }
}

/// The types that a file defines outside of its anonymous namespaces, with their namespaces.
std::set<std::string> shared_types_of(const fs::path& file) {
  const std::regex named(R"(namespace ([\w:]+) \{)"),
      definition(R"((?:struct|class|enum|enum class) (\w+)(?: final)?(?: : .*)? \{.*)");
  std::set<std::string> names;
  std::string space;
  bool anonymous = false;
  for (const std::string& line : lines_of(file)) {
    std::smatch m;
    if (line == "namespace {" || line == "}  // namespace")
      anonymous = line == "namespace {";
    else if (std::regex_match(line, m, named))
      space = m[1];
    else if (!anonymous && std::regex_match(line, m, definition))
      names.insert(space + "::" + m[1].str());
  }
  return names;
}

/// The linker takes one of two types of a name for both: a program of such types crashes.
TEST(Direction, NoTwoFilesDefineATypeOfOneName) {
  std::map<std::string, fs::path> where;
  for (const fs::path& file : sources({"harness", "variants", "cli"}))
    for (const std::string& name : shared_types_of(file)) {
      const auto [first, is_new] = where.try_emplace(name, file);
      EXPECT_TRUE(is_new) << name << " is in " << first->second << " and in " << file
                          << "\nrename one or put it into an anonymous namespace";
    }
  EXPECT_TRUE(where.contains("warptune::Space") && where.contains("warptune::Variant"));
}

}  // namespace
}  // namespace warptune
