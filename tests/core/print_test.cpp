// Everything that commands print goes through print(), which makes texts of files printable.
#include "harness/core/print.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <system_error>

#include "harness/core/text_table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

template <class Body>
std::string printed(const Body& body) {
  std::FILE* file = std::tmpfile();
  body(file);
  std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

const std::string kHostile = std::string("a\x1b[31mb\nc\r\td\0e\x7f\xc2\x9b", 17) + "f\xff größer";

TEST(Print, TextsBecomePrintable) {
  const std::string shown = "a\\x1b[31mb\\nc\\x0d\\td\\x00e\\x7f\\xc2\\x9bf\\xff größer";
  EXPECT_EQ(printed([](std::FILE* f) { print(f, "{}\n", kHostile); }), shown + "\n");
  EXPECT_EQ(printed([](std::FILE* f) { print(f, "{}", std::string_view(kHostile)); }), shown);
  EXPECT_EQ(printed([](std::FILE* f) { print(f, "{}", "a\tb"); }), "a\\tb");
  EXPECT_EQ(printed([](std::FILE* f) { print(f, "{:>4}|{:<4}|{:.1f}|{}\n", "\n", "x", 1.25, 7u); }),
            "  \\n|x   |1.2|7\n");
  EXPECT_EQ(printed([](std::FILE* f) { print(f, "only a format\n"); }), "only a format\n");
}

TEST(Print, LinesKeepTheirNewlinesAndTabs) {
  EXPECT_EQ(printed([](std::FILE* f) { print(f, "{}", Lines{kHostile}); }),
            "a\\x1b[31mb\nc\\x0d\td\\x00e\\x7f\\xc2\\x9bf\\xff größer");
  for (const char* text : {"", "\n", "a\n", "\n\na\tb\n\n", "no end"}) EXPECT_EQ(printable_lines(text), text);
}

TEST(Print, AFileStaysAsItIs) {
  EXPECT_EQ(printed([](std::FILE* f) { print(f, "{}", AsIs{kHostile}); }), kHostile);
}

TEST(Print, TheCellsOfATableArePrintable) {
  TextTable table({text_column("name"), {"us"}});
  table.add({kHostile, "\x1b[2J"}, "detail\x1b\n");
  const std::string text = printed([&](std::FILE* f) { print(f, table); });
  for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= ' ') << int(c);
  EXPECT_NE(text.find("detail\\x1b\\n\n"), std::string::npos) << text;
  EXPECT_EQ(std::ranges::count(text, '\n'), 3);
}

TEST(Print, AFullDiskIsAnError) {
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  std::setvbuf(full, nullptr, _IONBF, 0);
  EXPECT_THROW(print(full, "{}", "text"), std::system_error);
  std::fclose(full);
}

/// The lines of the harness and of the commands that write to a stream of C or C++ without print().
TEST(Print, NothingGoesAroundIt) {
  const std::regex direct(
      R"(fmt::print\(|\b(std::)?(printf|puts|putchar|fputs|fwrite|vprintf)\(|std::cout\b)");
  const std::set<std::string> writers = {"print.cpp",              // the printers
                                         "progress.cpp",           // draws a bar
                                         "standard_streams.cpp"};  // flushes
  std::size_t seen = 0;
  for (const char* folder : {"harness", "cli"})
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(SOURCE_ROOT) / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".cpp" && extension != ".h") continue;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        if (!std::regex_search(line, direct)) continue;
        ++seen;
        EXPECT_TRUE(writers.contains(entry.path().filename()))
            << entry.path() << ": " << line << "\nuse print() (core/print.h) or print_error() (core/print.h)";
      }
    }
  EXPECT_GT(seen, 0u) << "this test would not see one";
}

}  // namespace
}  // namespace warptune
