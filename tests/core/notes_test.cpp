// What notes.md beside this file points to exists: every file, every test, and every code word in a file
// named beside it. Its numbers, and those of docs/features.md and results/published, agree with the records.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/files.h"
#include "tests/program.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::text_of;

/// The first groups of all matches of a pattern.
std::vector<std::string> all_of(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
    found.push_back((*it)[1]);
  return found;
}

/// The names of all tests, as Suite.Test.
const std::set<std::string>& tests() {
  static const std::set<std::string> names = [] {
    const std::regex test(R"(\bTEST(?:_F|_P)?\(\s*(\w+,\s*\w+)\))"), comma(R"(,\s*)");
    std::set<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(SOURCE_ROOT) / "tests"))
      if (entry.path().extension() == ".cpp")
        for (const std::string& name : all_of(text_of(entry.path()), test))
          found.insert(std::regex_replace(name, comma, "."));
    return found;
  }();
  return names;
}

/// A file of the tree, which is read once.
const std::string& source(const std::string& path) {
  static std::map<std::string, std::string> texts;
  const auto [it, is_new] = texts.try_emplace(path);
  if (is_new) it->second = text_of(fs::path(SOURCE_ROOT) / path);
  return it->second;
}

/// What a page points to, by kind, and what of it does not exist.
struct Checked {
  int files = 0, tests = 0, words = 0;
  std::vector<std::string> problems;
};

/// Checks the links and code words of a line or a cell of a table. Words that are neither a path nor a test
/// must occur in one of the files that the same cell names, if it names any.
void check_cell(const std::string& cell, Checked& checked) {
  static const std::regex code("`([^`]+)`"),
      path(R"([\w.-]+(/[\w.-]+)*\.(cpp|h|cuh?|csv|json|md|sh|py|yaml))"), test(R"([A-Z]\w*\.[A-Z]\w*)"),
      link(R"(\]\(([^):#]+)[^)]*\))");
  for (const std::string& target : all_of(cell, link))
    if (!fs::is_regular_file(fs::path(SOURCE_ROOT) / "tests/core" / target))
      checked.problems.push_back("no file tests/core/" + target);
  std::vector<std::string> files, words;
  for (const std::string& word : all_of(cell, code)) {
    if (std::regex_match(word, path)) {
      ++checked.files;
      if (fs::is_regular_file(fs::path(SOURCE_ROOT) / word))
        files.push_back(word);
      else
        checked.problems.push_back("no file " + word);
    } else if (std::regex_match(word, test)) {
      ++checked.tests;
      if (!tests().contains(word)) checked.problems.push_back("no test " + word);
    } else {
      words.push_back(word);
    }
  }
  if (files.empty()) return;
  for (const std::string& word : words) {
    ++checked.words;
    const auto has_word = [&](const std::string& file) {
      return source(file).find(word) != std::string::npos;
    };
    if (std::ranges::none_of(files, has_word))
      checked.problems.push_back("no '" + word + "' in the files of: " + cell);
  }
}

/// The cells of a line of a table.
std::vector<std::string> cells_of(const std::string& line) {
  static const std::regex cell(R"(\| +([^|]*?) +(?=\|))");
  return all_of(line, cell);
}

Checked check_page(const std::string& text) {
  Checked checked;
  std::istringstream lines(text);
  std::string line;
  for (int columns = 0; std::getline(lines, line);) {
    if (!line.starts_with("|")) {
      columns = 0;
      check_cell(line, checked);
      continue;
    }
    if (line.starts_with("|-")) continue;
    const std::vector<std::string> cells = cells_of(line);
    if (columns == 0) columns = static_cast<int>(std::ranges::count(line, '|')) - 1;
    if (static_cast<int>(cells.size()) != columns || std::ranges::count(cells, "") != 0)
      checked.problems.push_back("not " + std::to_string(columns) + " filled cells: " + line);
    for (const std::string& text_of_cell : cells) check_cell(text_of_cell, checked);
  }
  return checked;
}

TEST(NotesPage, PointsToWhatExists) {
  const Checked checked = check_page(text_of(fs::path(SOURCE_ROOT) / "tests/core/notes.md"));
  for (const std::string& problem : checked.problems) ADD_FAILURE() << problem;
  EXPECT_GT(checked.files, 200);
  EXPECT_GT(checked.tests, 150);
  EXPECT_GT(checked.words, 150);
}

TEST(NotesPage, AWrongPointerIsFound) {
  const Checked good = check_page(
      "`NotesPage.AWrongPointerIsFound` in `tests/core/notes_test.cpp`\n\n"
      "| where | test |\n|---|---|\n| `tests/core/notes_test.cpp`: `check_page` | none |\n");
  EXPECT_TRUE(good.problems.empty()) << good.problems[0];
  EXPECT_EQ(good.files, 2);
  EXPECT_EQ(good.tests, 1);
  EXPECT_EQ(good.words, 1);
  for (const char* wrong :
       {"`kernels/none.cu`", "[page](none.md)", "| `NotesPage.None` |", "`README.md`: `no_such_word`",
        "| where | test |\n|---|---|\n| one cell |", "| where | test |\n| a |  |"})
    EXPECT_EQ(check_page(wrong).problems.size(), 1u) << wrong;
}

/// The numbers of a page that nothing records: beside the wisdom, which changes with every sweep, any decimal
/// or percentage; beside docs/features.md one that is not in it.
std::vector<std::string> stale_numbers(const std::string& page) {
  static const std::regex number(R"((?:^|[^\w.])([+-]?\d+\.\d+|[+-]?\d+(?:\.\d+)? %))");
  std::vector<std::string> stale;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("|")) continue;
    for (const std::string& cell : cells_of(line))
      for (const std::string& found : all_of(cell, number))
        if (cell.find("`results/h200/wisdom.json`") != std::string::npos ||
            (cell.find("`docs/features.md`") != std::string::npos &&
             source("docs/features.md").find(found) == std::string::npos))
          stale.push_back(found + " in: " + cell);
  }
  return stale;
}

TEST(NotesPage, NumbersAreThoseOfTheRecords) {
  for (const std::string& wrong : stale_numbers(source("tests/core/notes.md"))) ADD_FAILURE() << wrong;
}

TEST(NotesPage, AStaleNumberIsFound) {
  EXPECT_EQ(stale_numbers("| a | `docs/features.md`: +72.8 % | 12.5 |\n"), std::vector<std::string>{});
  for (const char* wrong : {"| a | `docs/features.md`: +71.8 % |", "| `results/h200/wisdom.json`: 13 % |",
                            "| 2.06 times: `results/h200/wisdom.json` |"})
    EXPECT_EQ(stale_numbers(wrong).size(), 1u) << wrong;
}

/// The page's tables have rows as scripts/features.py prints them: feature, us, cost, share of the floor,
/// variant.
TEST(FeaturesPage, TablesAreThoseOfTheRecords) {
  const auto printed = testing::run_shell("python3 " SOURCE_ROOT "/scripts/features.py " SOURCE_ROOT
                                          "/results/h200/evidence/features.csv");
  ASSERT_EQ(printed.code, 0) << printed.text;
  std::set<std::vector<std::string>> recorded;
  static const std::regex cell(R"(\| *([^|]*?) *(?=\|))");
  std::istringstream rows(printed.text);
  for (std::string row; std::getline(rows, row);)
    if (const auto cells = all_of(row, cell); cells.size() == 7)
      recorded.insert({cells[1], cells[2], cells[4]});
  std::size_t checked = 0;
  std::istringstream lines(source("docs/features.md"));
  for (std::string line; std::getline(lines, line);) {
    const auto cells = all_of(line, cell);
    if (cells.size() != 5 || !std::regex_match(cells[1], std::regex("[0-9.]+"))) continue;
    ++checked;
    EXPECT_TRUE(recorded.contains({cells[0], cells[1], cells[2]})) << line;
  }
  EXPECT_GT(checked, 50u);
}

/// The page's tables, those of scripts/compare_published.py.
TEST(PublishedPage, TheTablesAreThoseOfTheRecords) {
  for (const auto& [records, lines] :
       {std::pair("wisdom.json", 15), std::pair("evidence/published_cool.csv", 10)}) {
    const auto printed = testing::run_shell(
        std::string("python3 " SOURCE_ROOT "/scripts/compare_published.py " SOURCE_ROOT "/results/h200/") +
        records + " h200_sxm");
    ASSERT_EQ(printed.code, 0) << printed.text;
    const std::string table = printed.text.substr(0, printed.text.find("\n\n"));
    EXPECT_GT(std::ranges::count(table, '\n'), lines);
    EXPECT_NE(source("results/published/README.md").find(table), std::string::npos) << table;
  }
}

TEST(PublishedPage, WhatIsNoResultIsOneSentence) {
  const std::string script = "python3 " SOURCE_ROOT "/scripts/compare_published.py ";
  for (const std::string& command :
       {script + SOURCE_ROOT "/README.md h200_sxm", script + SOURCE_ROOT " h200_sxm",
        // A field of 200 KB, and brackets that Python does not nest.
        "f=$(mktemp --suffix=.csv) && head -c 200000 /dev/zero | tr '\\0' a > $f && " + script +
            "$f h200_sxm; code=$?; rm $f; exit $code",
        "f=$(mktemp --suffix=.json) && head -c 200000 /dev/zero | tr '\\0' [ > $f && " + script +
            "$f h200_sxm; code=$?; rm $f; exit $code"}) {
    const auto printed = testing::run_shell("exec 2>&1; " + command);
    EXPECT_EQ(printed.code, 2) << command;
    EXPECT_TRUE(printed.text.starts_with("compare_published: ")) << printed.text;
    EXPECT_EQ(std::ranges::count(printed.text, '\n'), 1) << printed.text;
  }
}

}  // namespace
}  // namespace warptune
