#include "harness/results/output_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "harness/core/error.h"
#include "tests/files.h"
#include "tests/program.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::fresh_folder;
using testing::text_of;

const OutputKind kPage = kind_that_begins("a page", {"<page>", "<PAGE>"});

/// The sentence of a refusal, or empty.
std::string refusal(const fs::path& path, const std::vector<fs::path>& inputs, bool force) try {
  const OutputFile file(path, kPage, inputs, force);
  return {};
} catch (const InputError& e) {
  return e.what();
}

class OutputRule : public ::testing::Test {
 protected:
  fs::path file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  const fs::path folder_ = fresh_folder("output_rule");
};

TEST_F(OutputRule, NewEmptyAndEarlierFilesAreReplaced) {
  for (const fs::path& path :
       {folder_ / "new", file("empty", ""), file("page", "<page> 1"), file("old", "<PAGE> 2")}) {
    const OutputFile output(path, kPage, {}, false);
    output.write("<page> new");
    EXPECT_EQ(text_of(path), "<page> new");
  }
}

TEST_F(OutputRule, OtherFilesNeedForceAndResultsAreNeverReplaced) {
  const fs::path notes = file("notes", "mine");
  EXPECT_NE(refusal(notes, {}, false).find("--force"), std::string::npos);
  EXPECT_EQ(refusal(notes, {}, true), "");
  for (const auto& [name, text] :
       std::vector<std::pair<std::string, std::string>>{{"a.csv", "x"},
                                                        {"a.yaml", "x"},
                                                        {"a.yml", "x"},
                                                        {"a.journal", "x"},
                                                        {"a.safetensors", "x"},
                                                        {"a.cu", "x"},
                                                        {"device.json", "x"},
                                                        {"rows", "run_id,time_us\n"},
                                                        {"w", "{\"schema\": 2, \"winners\": []}"}})
    for (const bool force : {false, true}) {
      const std::string sentence = refusal(file(name, text), {}, force);
      EXPECT_NE(sentence.find("remove it first"), std::string::npos) << name << ": " << sentence;
      EXPECT_EQ(text_of(folder_ / name), text);
    }
  EXPECT_EQ(refusal(file("page.csv", "<page>"), {}, false), "") << "an earlier page, whatever its name";
}

TEST_F(OutputRule, AnInputIsNeverReplaced) {
  const fs::path input = file("page", "<page> 1");
  fs::create_symlink("page", folder_ / "link");
  fs::create_hard_link(input, folder_ / "hard");
  fs::create_directory(folder_ / "below");
  for (const fs::path& same : {input, folder_ / "link", folder_ / "hard", folder_ / "below" / ".." / "page"})
    for (const bool force : {false, true})
      EXPECT_NE(refusal(same, {folder_ / "none", input}, force).find("is an input"), std::string::npos)
          << same;
  EXPECT_EQ(refusal(folder_ / "page", {}, false), "");
}

TEST_F(OutputRule, AFolderOfInputsKeepsItsFiles) {
  const fs::path notes = file("notes", "mine"), outside = fresh_folder("output_rule_outside") / "notes";
  std::ofstream(outside) << "mine";
  EXPECT_EQ(refusal(file("page", "<page> 1"), {folder_}, false), "") << "an earlier page";
  EXPECT_NE(refusal(notes, {folder_}, true).find("is an input"), std::string::npos);
  EXPECT_EQ(refusal(outside, {folder_}, true), "");
  EXPECT_THROW(expect_no_input(notes, {folder_}), InputError);
  EXPECT_THROW(expect_no_input(notes, {notes}), InputError);
  EXPECT_NO_THROW(expect_no_input(outside, {folder_, notes}));
  EXPECT_NO_THROW(expect_no_input(folder_ / "new", {folder_}));
}

TEST_F(OutputRule, AFileThatAppearsDuringTheWorkIsKept) {
  const OutputFile output(folder_ / "late", kPage, {}, false);
  file("late", "mine");
  EXPECT_THROW(output.write("<page>"), InputError);
  EXPECT_EQ(text_of(folder_ / "late"), "mine");
}

TEST_F(OutputRule, FoldersAreRefusedAndLinksStay) {
  EXPECT_NE(refusal(folder_, {}, true).find("is a folder"), std::string::npos);
  fs::create_symlink("target", folder_ / "link");
  OutputFile(folder_ / "link", kPage, {}, false).write("<page>");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(text_of(folder_ / "target"), "<page>");
}

}  // namespace
}  // namespace warptune
