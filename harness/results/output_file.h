#pragma once
// The rule for every file that a command writes as a whole. Of the files that exist
//   - an input of the command is never replaced: by no spelling of its name and through no link,
//   - results and sources of the user (a CSV, a wisdom, YAML, weights) give way to no file of another kind,
//   - an earlier output of the same kind is replaced,
//   - any other file is replaced with --force only.
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace warptune {

/// What a command writes.
struct OutputKind {
  std::string name;  // in a sentence: "a report page"
  /// Whether a text is an earlier output of the command, which it replaces without asking.
  std::function<bool(std::string_view)> is_earlier;
};
/// Texts with one of these beginnings are earlier outputs.
OutputKind kind_that_begins(std::string name, std::vector<std::string> beginnings);

/// Throws InputError where the output is one of the inputs (by device and inode), or is an existing file
/// below an input that is a folder.
void expect_no_input(const std::filesystem::path& output, const std::vector<std::filesystem::path>& inputs);

/// A file that a command writes as a whole.
class OutputFile {
 public:
  /// Applies the rule, and checks that the file can be written; writes nothing. Commands that write at
  /// their end construct it before the work. A device or a pipe is no file of the user's. Throws InputError.
  OutputFile(std::filesystem::path path, OutputKind kind, std::vector<std::filesystem::path> inputs,
             bool force);
  const std::filesystem::path& path() const { return path_; }
  /// Applies the rule again, since the work may have taken long, and replaces the file (replace_file()).
  /// Throws InputError.
  void write(std::string_view text) const;

 private:
  void expect_replaceable() const;
  std::filesystem::path path_;
  OutputKind kind_;
  std::vector<std::filesystem::path> inputs_;
  bool force_;
};

}  // namespace warptune
