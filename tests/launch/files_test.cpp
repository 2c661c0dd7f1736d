// Files of an exported folder that are no ordinary files.
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>

#include "tests/launch/exported_folder.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::error_of;
using testing::ExportedFolder;

std::string error_of_folder(const fs::path& path) {
  return error_of([&] { testing::launch_all(path); });
}

TEST(LaunchFiles, WhatIsNoRegularFileIsRefused) {
  const ExportedFolder folder;
  for (const char* name : {"warptune.json", "cubins/1.cubin"}) {
    const fs::path file = folder.path() / name, kept = folder.path() / "kept";
    fs::rename(file, kept);
    EXPECT_NE(error_of_folder(folder.path()).find("cannot be read: No such file"), std::string::npos);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    EXPECT_NE(error_of_folder(folder.path()).find("it is no regular file"), std::string::npos);
    fs::remove(file);
    fs::create_directory(file);
    EXPECT_NE(error_of_folder(folder.path()).find("it is no regular file"), std::string::npos);
    fs::remove(file);
    fs::rename(kept, file);
  }
  fs::rename(folder.path() / "warptune.json", folder.path() / "kept");
  fs::create_symlink("/dev/zero", folder.path() / "warptune.json");
  EXPECT_NE(error_of_folder(folder.path()).find("it is no regular file"), std::string::npos);
}

TEST(LaunchFiles, UnreasonablyLargeFilesAreRefused) {
  const ExportedFolder folder;
  fs::resize_file(folder.path() / "cubins" / "1.cubin", std::uintmax_t{1} << 40);
  EXPECT_NE(error_of_folder(folder.path()).find("it has 1099511627776 bytes, and the limit is 1073741824"),
            std::string::npos);
  fs::resize_file(folder.path() / "warptune.json", std::uintmax_t{65} << 20);
  EXPECT_NE(error_of_folder(folder.path()).find("it has 68157440 bytes, and the limit is 67108864"),
            std::string::npos);
}

TEST(LaunchFiles, LinksStayInsideOfTheFolder) {
  const ExportedFolder folder;
  const fs::path cubin = folder.path() / "cubins" / "1.cubin";
  fs::rename(cubin, folder.path() / "cubins" / "2.cubin");
  fs::create_symlink("2.cubin", cubin);
  EXPECT_EQ(error_of_folder(folder.path()), "");
  fs::remove(cubin);
  fs::create_symlink("/etc/passwd", cubin);
  EXPECT_NE(error_of_folder(folder.path()).find("1.cubin' is a link out of the folder"), std::string::npos);
  fs::remove_all(folder.path() / "cubins");
  fs::create_directory_symlink(folder.path().parent_path(), folder.path() / "cubins");
  std::ofstream(folder.path().parent_path() / "1.cubin") << "code";
  EXPECT_NE(error_of_folder(folder.path()).find("1.cubin' is a link out of the folder"), std::string::npos);
  fs::remove(folder.path().parent_path() / "1.cubin");
}

/// An ELF file of 64 bits with a section of 8 bytes and a program header of the same bytes.
std::string elf() {
  std::string file = std::string(
                         "\x7f"
                         "ELF\x02") +
                     std::string(59, '\0') + "sections";
  const auto put = [&](std::size_t at, auto value) { std::memcpy(file.data() + at, &value, sizeof value); };
  constexpr std::uint64_t kContent = 64, kSections = 72, kPrograms = kSections + 64;
  put(40, kSections), put(58, std::uint16_t{64}), put(60, std::uint16_t{1});
  put(32, kPrograms), put(54, std::uint16_t{56}), put(56, std::uint16_t{1});
  file += std::string(64 + 56, '\0');
  put(kSections + 24, kContent), put(kSections + 32, std::uint64_t{8});
  put(kPrograms + 8, kContent), put(kPrograms + 32, std::uint64_t{8});
  return file;
}

TEST(LaunchFiles, ACubinThatIsCutIsRefusedBeforeTheDriverReadsIt) {
  const ExportedFolder folder;
  const auto error_with = [&](const std::string& cubin) {
    std::ofstream(folder.path() / "cubins" / "1.cubin", std::ios::binary) << cubin;
    return error_of_folder(folder.path());
  };
  EXPECT_EQ(error_with(elf()), "");
  for (std::size_t bytes = 5; bytes < elf().size(); ++bytes)
    EXPECT_NE(error_with(elf().substr(0, bytes)).find("1.cubin': the file ends early"), std::string::npos)
        << bytes;
  for (const std::size_t number : {32u, 40u, 72u + 24, 72u + 32, 136u + 8, 136u + 32})
    for (const std::uint64_t value : {std::uint64_t{185}, ~std::uint64_t{0}, ~std::uint64_t{0} - 63}) {
      std::string cubin = elf();
      std::memcpy(cubin.data() + number, &value, sizeof value);
      EXPECT_NE(error_with(cubin).find("the file ends early"), std::string::npos) << number << " " << value;
    }
  std::string no_bits = elf();
  no_bits[72 + 4] = 8;       // takes no place in the file
  no_bits[72 + 32 + 4] = 1;  // and has 4 GB
  EXPECT_EQ(error_with(no_bits), "");
  std::string other_headers = elf();
  other_headers[58] = 40;
  EXPECT_NE(error_with(other_headers).find("the file is no cubin"), std::string::npos);
  EXPECT_NE(error_with(std::string("\x50\xed\x55\xba\0", 5)).find("the file is no cubin"), std::string::npos);
}

TEST(LaunchFiles, AFolderMayBeALinkAndRelative) {
  const ExportedFolder folder;
  const fs::path link = folder.path() / "link", here = fs::current_path();
  fs::create_directory_symlink(folder.path(), link);
  EXPECT_EQ(error_of_folder(link), "");
  fs::current_path(folder.path());
  EXPECT_EQ(error_of_folder("."), "");
  EXPECT_EQ(error_of_folder(""), "");
  fs::current_path(here);
}

}  // namespace
}  // namespace warptune
