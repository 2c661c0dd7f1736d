#include <gtest/gtest.h>

#include "harness/core/error.h"
#include "harness/core/input_file.h"

namespace warptune {
namespace {
using namespace std::string_literals;

TEST(FileName, LeadsNowhereAndHidesNothing) {
  for (const std::string& good : {"rmsnorm_h4096"s, "a"s, "a.b-c_d"s, "7"s, "_x"s, std::string(128, 'a')})
    EXPECT_EQ(fault_of_file_name(good), "") << good;
  for (const std::string& bad :
       {""s, "."s, ".."s, ".hidden"s, "a/b"s, "/a"s, "../x"s, "a\\b"s, "a b"s, "a\0b"s, "a\nb"s, "a\x1b[2J"s,
        "caf\xc3\xa9"s, "~"s, "a:b"s, "a*"s, std::string(129, 'a')})
    EXPECT_NE(fault_of_file_name(bad), "") << bad;
}

TEST(FileName, APathStaysBelowItsFolder) {
  EXPECT_EQ(path_below("out", "a/b.json"), "out/a/b.json");
  for (const std::string bad : {"/etc/passwd", "../x", "a/../../x", "a/./b", ".git/config", "a/"})
    EXPECT_THROW(path_below("out", bad), InputError) << bad;
  EXPECT_THROW(path_below("out", std::filesystem::path("solutions") / "/tmp/x"), InputError);
}

}  // namespace
}  // namespace warptune
