// The commands, sweeps and variables in the documents are valid.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "harness/core/error.h"
#include "harness/core/facts.h"
#include "harness/tune/schedule.h"
#include "tests/files.h"
#include "variants/table.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::text_of;

std::vector<fs::path> files_of(const fs::path& folder, const std::string& extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().extension() == extension) files.push_back(entry.path());
  return files;
}

std::vector<fs::path> documents() {
  auto files = files_of(fs::path(SOURCE_ROOT) / "docs", ".md");
  files.push_back(fs::path(SOURCE_ROOT) / "README.md");
  return files;
}

struct Example {
  std::string where, arguments;
};

/// The command lines in code blocks that begin with the program, up to a pipe, a redirection or `#`.
std::vector<Example> examples(const fs::path& file) {
  std::vector<Example> found;
  std::ifstream in(file);
  bool inside = false;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.starts_with("```")) inside = !inside;
    const int first = number;
    for (std::string more; line.ends_with('\\') && std::getline(in, more); ++number)
      line = line.substr(0, line.size() - 1) + more;
    static const std::regex command(R"(^(?:\$ )?(?:build/)?warptune ([^|>#&]*).*)");
    std::smatch match;
    if (inside && std::regex_match(line, match, command))
      found.push_back({file.string() + ":" + std::to_string(first), match[1]});
  }
  return found;
}

/// All commands; parsing stops before a command runs.
class Commands {
 public:
  Commands() {
    app.require_subcommand(1);
    add_commands(app, exit_code_);
    stop(app);
  }
  /// The error in these arguments, or empty.
  std::string wrong(const std::string& arguments) {
    try {
      app.parse(arguments);
      return "no command";
    } catch (const Parsed& parsed) {
      return parsed.left_over.empty() || parsed.takes_more ? "" : "unknown: " + parsed.left_over[0];
    } catch (const CLI::ParseError& e) {
      return e.what();
    }
  }
  CLI::App app;

 private:
  struct Parsed {
    std::vector<std::string> left_over;
    bool takes_more;
  };
  void stop(CLI::App& parent) {
    for (CLI::App* command : parent.get_subcommands({})) {
      stop(*command);
      if (command->get_subcommands({}).empty())
        command->parse_complete_callback([command] {
          throw Parsed{command->remaining(), command->get_allow_extras()};
        });
    }
  }
  int exit_code_ = 0;
};

TEST(Docs, EveryCommandHasASectionWithAnExample) {
  const fs::path page = fs::path(SOURCE_ROOT) / "docs" / "cli.md";
  std::set<std::string> sections, shown;
  std::istringstream lines(text_of(page));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("## ")) continue;
    static const std::regex word("[a-z0-9-]+");
    for (std::sregex_iterator it(line.begin(), line.end(), word), end; it != end; ++it)
      sections.insert(it->str());
  }
  for (const Example& example : examples(page))
    shown.insert(example.arguments.substr(0, example.arguments.find(' ')));
  const Commands commands;
  for (const CLI::App* command :
       commands.app.get_subcommands([](const CLI::App* c) { return !c->get_group().empty(); })) {
    EXPECT_TRUE(sections.contains(command->get_name())) << command->get_name() << " has no section";
    EXPECT_TRUE(shown.contains(command->get_name())) << command->get_name() << " has no example";
  }
}

TEST(Docs, TheExamplesParse) {
  int count = 0;
  for (const fs::path& file : documents())
    for (const Example& example : examples(file)) {
      EXPECT_EQ(Commands().wrong(example.arguments), "") << example.where << ": " << example.arguments;
      ++count;
    }
  EXPECT_GT(count, 20);
  EXPECT_NE(Commands().wrong("decode --no-such-option"), "");
  EXPECT_NE(Commands().wrong("inspect configs/quick.yaml"), "") << "--arch is needed";
}

TEST(Docs, TheSweepsOfDocumentsAndScriptsLoad) {
  const std::regex fenced("(?:^|\n)```yaml\n([^`]*)```"), here("<< ?'?YAML'?\n([^]*?)\nYAML\n");
  int count = 0;
  const fs::path folder = testing::fresh_folder("docs_sweeps");
  fs::copy_file(fs::path(TEST_DATA) / "gguf/llama_q4_k/model.gguf", folder / "model-q4_k_m.gguf");
  const auto load_all = [&](const fs::path& file, const std::regex& pattern) {
    const std::string text = text_of(file);
    for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it, ++count) {
      const fs::path sweep = folder / (file.stem().string() + ".yaml");
      std::ofstream(sweep) << (*it)[1] << '\n';
      try {
        const Sweep loaded = load_sweep(ops(), sweep);
        const DeviceFacts facts =
            loaded.device == "host" ? DeviceFacts{.name = "host", .sms = 2} : known_device("sm_90a");
        EXPECT_FALSE(make_schedule(loaded, facts).empty()) << file;
      } catch (const InputError& e) {
        ADD_FAILURE() << file << ": " << e.what();
      }
    }
  };
  for (const fs::path& file : documents()) load_all(file, fenced);
  for (const fs::path& file : files_of(fs::path(SOURCE_ROOT) / "scripts", ".sh")) load_all(file, here);
  EXPECT_GE(count, 2);
}

TEST(Docs, EveryEnvironmentVariableIsExplained) {
  const std::string page = text_of(fs::path(SOURCE_ROOT) / "docs" / "cli.md");
  const std::regex read("getenv\\(\"([A-Z_]+)\"\\)");
  for (const char* folder : {"harness", "variants", "cli"})
    for (const fs::path& file : files_of(fs::path(SOURCE_ROOT) / folder, ".cpp")) {
      const std::string text = text_of(file);
      for (std::sregex_iterator it(text.begin(), text.end(), read), end; it != end; ++it)
        EXPECT_NE(page.find((*it)[1].str()), std::string::npos) << file << " reads " << (*it)[1];
    }
}

}  // namespace
}  // namespace warptune
