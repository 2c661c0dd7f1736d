#include "harness/results/journal.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "harness/core/error.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;

/// The inputs of a row that its key covers, and its run.
CsvRow row_of(const std::string& run) {
  return {{"run_id", run},  {"device", "d"},  {"arch", "a"},   {"driver", "1"},   {"toolkit", "13"},
          {"problem", "p"}, {"variant", "v"}, {"config", "c"}, {"cache", "cold"}, {"code_hash", "k"}};
}

class JournalFile : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(path_.parent_path()); }
  void write(const std::string& text) const {
    fs::create_directories(path_.parent_path());
    std::ofstream(path_) << text;
  }
  static std::string text_of(const fs::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
  /// The error of opening the journal for writing.
  std::string error() const {
    try {
      const Journal journal(path_);
    } catch (const InputError& e) {
      return e.what();
    }
    return "no error";
  }
  const fs::path path_ = fs::path(::testing::TempDir()) / "journal" / "deep" / "s.journal";
};

TEST_F(JournalFile, HoldsTheStampsOfEachRun) {
  {
    Journal journal(path_);
    EXPECT_TRUE(journal.runs().empty());
    journal.add("r1", {{stamp_name("p", "cold", "v"), "hash options"}});
    journal.add("r2", {});
    EXPECT_EQ(journal.runs().size(), 2u);
  }
  EXPECT_EQ(text_of(path_),
            "{\"run_id\":\"r1\",\"stamps\":{\"p cold v\":\"hash options\"}}\n"
            "{\"run_id\":\"r2\",\"stamps\":{}}\n");
  const Journal again(path_);
  const auto runs = again.runs();
  EXPECT_EQ(runs, Journal::read(path_).runs());
  EXPECT_EQ(runs.at("r1").at("p cold v"), "hash options");
}

TEST_F(JournalFile, ReadingMakesNoFile) {
  EXPECT_TRUE(Journal::read(path_).runs().empty());
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(JournalFile, GivesARowItsKeys) {
  write("{\"run_id\":\"r1\",\"stamps\":{\"p cold v\":\"hash options\"}}\n");
  const Journal journal = Journal::read(path_);
  const CsvRow row = row_of("r1");
  EXPECT_EQ(journal.key(row), key_of(row, "hash options"));
  EXPECT_EQ(journal.code_key(row), key_of(row, "code k options"));
  EXPECT_EQ(journal.key(row_of("r2")), std::nullopt);
  EXPECT_EQ(journal.code_key(row_of("r2")), std::nullopt);
  for (const char* column : {"problem", "cache", "variant"}) {
    CsvRow other = row;
    other[column] = "other";
    EXPECT_EQ(journal.key(other), std::nullopt) << column;
  }
  CsvRow unknown_code = row;
  unknown_code["code_hash"] = "";
  EXPECT_EQ(journal.code_key(unknown_code), std::nullopt);
}

TEST(Journal, StampsAndKeysAreHashesOfTheirParts) {
  const std::string stamp = stamp_of("source", {});
  EXPECT_TRUE(stamp.starts_with("source "));
  EXPECT_EQ(stamp.size(), 7u + 16) << "a hash of 64 bits";
  EXPECT_EQ(key_of(row_of("r1"), stamp).size(), 16u);
  EXPECT_EQ(key_of(row_of("r1"), stamp), key_of(row_of("r2"), stamp));
  EXPECT_EQ(code_stamp("hash options", "k"), "code k options");
  EXPECT_EQ(code_stamp("hash", "k"), "code k");
}

/// Rows of earlier runs are found by their keys. A new kMeasuringVersion changes the stamps: all is measured
/// again.
TEST(Journal, KeysOfEarlierRunsStay) {
  EXPECT_EQ(key_of(row_of("r1"), "hash options"), "c9a0a111be9bbe44");
  EXPECT_EQ(stamp_of("source", {.max_rel_ci = 0.25, .min_samples = 7, .max_time = 3, .seed = 5}),
            "source cec883b330538eac");
}

TEST_F(JournalFile, SkipsLinesOfAnotherForm) {
  write(
      "{\"run_id\":\"r1\"}\n{\"stamps\":{}}\n[1]\n7\n{\"run_id\":1,\"stamps\":{}}\n"
      "{\"run_id\":\"r2\",\"stamps\":{\"a\":1}}\n{\"run_id\":\"r3\",\"stamps\":{\"a\":\"b\"}}\n");
  const Journal journal = Journal::read(path_);
  ASSERT_TRUE(journal.runs().contains("r3"));
  EXPECT_EQ(journal.runs().at("r3"), (Stamps{{"a", "b"}}));
  EXPECT_FALSE(journal.runs().contains("r1"));
}

TEST_F(JournalFile, AnIncompleteLineMovesBesideIt) {
  const std::string line = "{\"run_id\":\"r1\",\"stamps\":{}}\n", long_rest = "{\"run_id\":\"r2\",\"sta";
  for (const std::string& rest : {std::string("{\"run"), long_rest}) {
    SetUp();
    write(line + rest);
    EXPECT_EQ(Journal::read(path_).runs().size(), 1u);
    EXPECT_EQ(text_of(path_), line + rest) << "reading changes nothing";
    EXPECT_EQ(error(), "no error");
    EXPECT_EQ(text_of(path_), line);
    EXPECT_EQ(text_of(path_.string() + ".cut"), rest + "\n");
  }
  EXPECT_EQ(error(), "no error");
  EXPECT_EQ(text_of(path_.string() + ".cut"), long_rest + "\n") << "it is cut once";
}

TEST_F(JournalFile, AnotherFileStaysAsItIs) {
  for (const std::string text :
       {"some notes", "{\"run_id\":\"r1\",\"stamps\":{}}\nsome notes", "{\"runs\""}) {
    write(text);
    EXPECT_EQ(
        error(),
        "'" + path_.string() +
            "' is no journal of a sweep: its last line is of another form; move the file away or choose "
            "another output folder");
    EXPECT_EQ(text_of(path_), text);
    EXPECT_FALSE(fs::exists(path_.string() + ".cut"));
  }
}

TEST_F(JournalFile, OneWriterAtATime) {
  {
    Journal first(path_);
    const Journal held = std::move(first);
    EXPECT_EQ(error(), "another program is writing '" + path_.string() +
                           "'; wait for it or choose another output folder");
    EXPECT_EQ(Journal::read(path_).runs().size(), 0u) << "reading needs no lock";
  }
  EXPECT_EQ(error(), "no error");
}

TEST_F(JournalFile, ADeletedFileIsWrittenAnew) {
  Journal journal(path_);
  journal.add("r1", {});
  EXPECT_EQ(journal.rescue(), "");
  fs::remove(path_);
  EXPECT_NE(journal.rescue(), "");
  EXPECT_EQ(Journal::read(path_).runs().size(), 1u);
}

TEST_F(JournalFile, AFolderInItsPlaceIsAnError) {
  fs::create_directories(path_);
  EXPECT_THROW(Journal{path_}, std::runtime_error);
}

TEST(Journal, FirstRowsAreAConfigurationsOwn) {
  const CsvRow row = {{"problem", "rms_norm[tokens=1]"}, {"cache", "cold"}, {"detail", ""}};
  const auto with = [&](const std::string& column, const std::string& value) {
    CsvRow other = row;
    other[column] = value;
    return is_first_row(other);
  };
  EXPECT_TRUE(is_first_row(row));
  EXPECT_TRUE(with("cache", "hot"));
  EXPECT_FALSE(with("cache", "isolated"));
  EXPECT_FALSE(with("cache", "step"));
  EXPECT_FALSE(with("problem", "launch[nodes=1]"));
  EXPECT_FALSE(with("sampling", "finalist"));
  EXPECT_FALSE(with("sampling", "other_cache"));
}

}  // namespace
}  // namespace warptune
