#include "harness/llama/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "harness/core/error.h"
#include "harness/llama/checkpoint.h"

namespace warptune {
namespace {

namespace fs = std::filesystem;

class Safetensors : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("warptune_safetensors_" + std::to_string(::getpid()) + "_" +
                                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& bytes, const std::string& name = "model.safetensors") {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  static std::string file_of(const std::string& header, std::size_t data_bytes) {
    const std::uint64_t length = header.size();
    std::string text(8, '\0');
    std::memcpy(text.data(), &length, 8);
    return text + header + std::string(data_bytes, 'd');
  }
  void expect_error(const std::string& bytes, const std::string& part) {
    try {
      SafetensorsFile file(write(bytes));
      FAIL() << "no error that says '" << part << "'";
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    }
  }
  fs::path folder_;
};

const char* const kTwo =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}})";

TEST_F(Safetensors, ReadsTensors) {
  const SafetensorsFile file(write(file_of(kTwo, 32)));
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors().at("a").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file.tensors().at("b").data.size(), 8u);
}

TEST_F(Safetensors, EveryMalformedFileIsOneSentence) {
  expect_error("", "truncated");
  expect_error("abc", "truncated");
  expect_error(std::string(8, '\xff'), "not a safetensors file");
  expect_error(file_of(kTwo, 32).substr(0, 40), "truncated");
  expect_error(file_of(kTwo, 31), "truncated");
  expect_error("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
               "model.safetensors: this is a Git LFS pointer; 'git lfs pull' fetches the file itself");
  expect_error("<!DOCTYPE html><html>", "this is HTML or XML");
  expect_error(file_of("{", 0), "the header: line 1, column 2: this is not JSON");
  expect_error(file_of("[]", 0), "not a JSON object");
  const auto one = [](const std::string& entry) { return file_of("{\"a\":" + entry + "}", 32); };
  expect_error(one("3"), "no dtype");
  expect_error(one(R"({"dtype":"F7","shape":[1],"data_offsets":[0,4]})"), "unknown dtype");
  expect_error(one(R"({"dtype":"F32","data_offsets":[0,4]})"), "no shape");
  expect_error(one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"), "impossible shape");
  expect_error(one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]})"),
               "impossible shape");
  expect_error(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4]})"), "no data_offsets");
  expect_error(one(R"({"dtype":"F32","shape":[1],"data_offsets":[8,4]})"), "no data_offsets");
  expect_error(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]})"),
               "no data_offsets");
  expect_error(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"), "needs 8");
  expect_error(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                       R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                       32),
               "overlap");
}

TEST_F(Safetensors, AHeaderMayNotReachBeyondTheFile) {
  const std::string header = kTwo;
  const auto claims = [&](std::uint64_t length) {
    std::string bytes = file_of(header, 0);
    std::memcpy(bytes.data(), &length, sizeof length);
    return bytes;
  };
  for (std::uint64_t more = 1; more <= 9; ++more)  // the 8 bytes before the header are not part of it
    expect_error(claims(header.size() + more), "the header has " + std::to_string(header.size() + more) +
                                                   " bytes, the file only " + std::to_string(header.size()));
}

TEST_F(Safetensors, NoTruncatedOrFlippedByteCrashes) {
  const std::string good = file_of(kTwo, 32);
  for (std::size_t n = 0; n < good.size(); ++n)
    EXPECT_THROW(SafetensorsFile(write(good.substr(0, n))), InputError) << n;
  std::mt19937 random(1);
  int rejected = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = good;
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      SafetensorsFile file(write(bytes));
      for (const auto& [name, tensor] : file.tensors())
        for (const std::byte b : tensor.data) rejected += static_cast<int>(b) & 0;
    } catch (const InputError&) {
      ++rejected;
    }
  }
  EXPECT_GT(rejected, 100);
}

TEST_F(Safetensors, CheckpointReadsShards) {
  write(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8), "one.safetensors");
  write(file_of(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4), "two.safetensors");
  write(R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})", "model.safetensors.index.json");
  const Checkpoint checkpoint(folder_);
  EXPECT_TRUE(checkpoint.has("a"));
  EXPECT_EQ(checkpoint.tensor("b", {1}).data.size(), 4u);
  EXPECT_THROW(checkpoint.tensor("c", {1}), InputError);
  EXPECT_THROW(checkpoint.tensor("a", {3}), InputError);
}

/// Shards of one tensor each, "a" of two elements and "b" of one; shard `other` holds an older "a".
class Overlay : public Safetensors {
 protected:
  void SetUp() override {
    Safetensors::SetUp();
    write(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8), "one.safetensors");
    write(file_of(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},)"
                  R"("b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})",
                  16),
          "other.safetensors");
    write(R"({"weight_map":{"a":"one.safetensors","b":"other.safetensors"}})",
          "model.safetensors.index.json");
  }
};

TEST_F(Overlay, TheIndexDecidesWhichShardHoldsATensor) {
  const Checkpoint checkpoint(folder_);
  EXPECT_EQ(checkpoint.tensor("a", {2}).data.size(), 8u);
  EXPECT_EQ(checkpoint.tensor("b", {1}).data.size(), 4u);
  EXPECT_EQ(checkpoint.note(), "");
}

TEST_F(Overlay, AStrayFileBesideShardsIsANote) {
  write(file_of(R"({"a":{"dtype":"F32","shape":[5],"data_offsets":[0,20]}})", 20));
  const Checkpoint checkpoint(folder_);
  EXPECT_EQ(checkpoint.tensor("a", {2}).data.size(), 8u);
  EXPECT_EQ(checkpoint.note(), (folder_ / "model.safetensors").string() +
                                   " is not read: model.safetensors.index.json names other files");
}

TEST_F(Overlay, WithoutAnyShardTheSingleFileIsRead) {
  write(file_of(R"({"a":{"dtype":"F32","shape":[5],"data_offsets":[0,20]}})", 20));
  fs::remove(folder_ / "one.safetensors");
  EXPECT_THROW(Checkpoint{folder_}, InputError) << "one of two shards";
  fs::remove(folder_ / "other.safetensors");
  const Checkpoint checkpoint(folder_);
  EXPECT_EQ(checkpoint.tensor("a", {5}).data.size(), 20u);
  EXPECT_NE(checkpoint.note().find("are absent"), std::string::npos) << checkpoint.note();
}

TEST_F(Overlay, ATensorThatItsShardDoesNotHoldIsNamed) {
  write(R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors"}})", "model.safetensors.index.json");
  try {
    Checkpoint checkpoint(folder_);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_EQ(e.what(), (folder_ / "model.safetensors.index.json").string() +
                            ": tensor 'b' is not in 'one.safetensors'");
  }
}

TEST_F(Safetensors, WrongCheckpointFoldersAreOneSentence) {
  EXPECT_THROW(Checkpoint{folder_}, InputError);
  for (const char* index : {"", "[]", "{}", R"({"weight_map":3})", R"({"weight_map":{"a":3}})",
                            R"({"weight_map":{"a":"../x"}})", R"({"weight_map":{"a":"absent"}})"}) {
    write(index, "model.safetensors.index.json");
    EXPECT_THROW(Checkpoint{folder_}, InputError) << index;
  }
}

TEST_F(Safetensors, AShardIsAFileOfItsFolder) {
  fs::create_directory(folder_ / "sub");
  write(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8), "sub/one.safetensors");
  write(R"({"weight_map":{"a":"sub/one.safetensors"}})", "model.safetensors.index.json");
  EXPECT_THROW(Checkpoint{folder_}, InputError);
}

}  // namespace
}  // namespace warptune
