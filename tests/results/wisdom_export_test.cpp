#include "harness/results/wisdom_export.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace warptune {
namespace {

namespace fs = std::filesystem;

Wisdom two_winners() {
  Wisdom wisdom({"NVIDIA \"H200\"", "sm_90a", "580", "13.0", "abc"});
  Config config{{"block", 256}, {"shift", -2}};
  config.set("store", 1, "stream");
  const Problem norm{"rms_norm", {{"tokens", 1}, {"hidden", 4096}}, DType::bf16};
  wisdom.put({norm, "vectorized", config, 1.25, "82f6", "run", "t.csv"});
  wisdom.put({norm, "warp_per_row", {}, 2.5, "82f7", "run", "t.csv", {"A100", "sm_80", "570", "12.8", ""}});
  wisdom.put({{"argmax", {{"batch", 1}}, DType::fp16}, "naive", {}, 3, "", "", ""});
  return wisdom;
}

TEST(WisdomExport, AnotherProgramIncludesTheHeader) {
  if (std::system("g++ --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no g++ here";
  const fs::path folder = fs::path(::testing::TempDir()) / "wisdom_export";
  fs::create_directories(folder);
  std::ofstream(folder / "warptune_wisdom.h") << to_header(two_winners());
  std::ofstream(folder / "empty.h") << to_header(Wisdom());
  std::ofstream(folder / "engine.cpp") << R"(
#include "warptune_wisdom.h"
namespace w = warptune_wisdom;
constexpr auto* norm = w::find("rms_norm[tokens=1,hidden=4096,dtype=bf16]", "NVIDIA \"H200\"");
static_assert(norm->variant == "vectorized" && norm->time_us == 1.25 && norm->arch == "sm_90a");
static_assert(w::value(*norm, "block", 1) == 256 && w::value(*norm, "shift", 1) == -2);
static_assert(w::text(*norm, "store") == "stream" && w::value(*norm, "store", 7) == 7);
static_assert(w::value(*norm, "vec", 8) == 8);
static_assert(w::find("rms_norm[tokens=1,hidden=4096,dtype=bf16]", "A100")->variant == "warp_per_row");
static_assert(w::find("argmax[batch=1,dtype=fp16]")->variant == "naive");
static_assert(!w::find("nothing[]") && !w::find("rms_norm[tokens=1,hidden=4096,dtype=bf16]", "H100"));
int main(int argc, char** argv) { return argc > 1 && w::find(argv[1]) ? 0 : 1; }
)";
  std::ofstream(folder / "none.cpp")
      << "#include \"empty.h\"\nint main() { return warptune_wisdom::find(\"x\") ? 1 : 0; }\n";
  const auto run = [&](const std::string& command) {
    return std::system(("cd '" + folder.string() + "' && " + command).c_str());
  };
  ASSERT_EQ(run("g++ -std=c++17 -Wall -Wextra -Werror -pedantic engine.cpp -o engine"), 0);
  EXPECT_EQ(run("./engine 'argmax[batch=1,dtype=fp16]'"), 0);
  EXPECT_NE(run("./engine 'argmax[batch=2,dtype=fp16]'"), 0);
  EXPECT_EQ(run("g++ -std=c++17 -Wall -Wextra -Werror -pedantic none.cpp -o none && ./none"), 0);
}

}  // namespace
}  // namespace warptune
