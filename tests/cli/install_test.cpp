// The installed files serve other programs: a consumer finds the package, compiles and links.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "harness/device/device.h"
#include "tests/program.h"

namespace warptune {
namespace {
namespace fs = std::filesystem;
using testing::Ended;
using testing::fresh_folder;
using testing::run_shell;

/// The install prefix; made once.
const fs::path& prefix() {
  static const fs::path folder = [] {
    const fs::path made = fresh_folder("install_prefix");
    const Ended ended = run_shell(std::string("cmake --install " BUILD_FOLDER " --prefix ") + made.string());
    EXPECT_EQ(ended.code, 0) << ended.text;
    return made;
  }();
  return folder;
}

TEST(Install, TheProgramHeaderSweepsAndPagesAreThere) {
  for (const char* file :
       {"bin/warptune", "include/warptune/launch.h", "share/warptune/configs/quick.yaml",
        "share/doc/warptune/export.md", "share/warptune/examples/launch_from_cpp/launch.cpp",
        "share/warptune/python/warptune/__init__.py", "share/warptune/python/warptune/text/__main__.py",
        "share/warptune/python/warptune/text/requirements.txt", "share/cmake/warptune/warptuneConfig.cmake",
        "share/pkgconfig/warptune.pc"})
    EXPECT_TRUE(fs::exists(prefix() / file)) << file;
  const Ended version = run_shell((prefix() / "bin" / "warptune").string() + " --version");
  EXPECT_EQ(version.text, run_shell("{} --version").text);
  EXPECT_EQ(version.text.rfind("warptune " PROJECT_VERSION " ", 0), 0u) << version.text;
}

TEST(Install, PkgConfigKnowsTheHeader) {
  if (run_shell("pkg-config --version").code != 0) GTEST_SKIP() << "no pkg-config here";
  const Ended flags = run_shell("PKG_CONFIG_PATH=" + (prefix() / "share" / "pkgconfig").string() +
                                " pkg-config --cflags --libs warptune");
  EXPECT_EQ(flags.code, 0) << flags.text;
  EXPECT_NE(flags.text.find("/include"), std::string::npos) << flags.text;
  EXPECT_NE(flags.text.find("-lcuda"), std::string::npos) << flags.text;
}

#if WARPTUNE_HAS_CUDA
/// The folder of the consumer's programs, which are built once; they include -Wall -Wextra -Werror.
const fs::path& consumer() {
  static const fs::path folder = [] {
    const fs::path made = fresh_folder("install_consumer");
    const fs::path source = prefix() / "share" / "warptune" / "examples" / "launch_from_cpp";
    const Ended ended =
        run_shell("(cmake -S " + source.string() + " -B " + made.string() +
                  " -DCMAKE_PREFIX_PATH=" + prefix().string() + " && cmake --build " + made.string() + ")");
    EXPECT_EQ(ended.code, 0) << ended.text;
    return made;
  }();
  return folder;
}

/// Winners of the problems that match, exported once per architecture.
fs::path winners_for(const std::string& arch,
                     const std::string& problems =
                         "^(rms_norm\\[tokens=(1|8|64),hidden=4096|linear\\[tokens=(1|16),in=4096,out=4096,"
                         "bias=no),dtype=bf16") {
  const fs::path out = fresh_folder("install_winners_" + arch) / "winners";
  const Ended ended = run_shell("{} export --wisdom " SOURCE_ROOT "/results/h200/wisdom.json --problem '" +
                                problems + "' --arch " + arch + " -o " + out.string());
  EXPECT_EQ(ended.code, 0) << ended.text;
  return out;
}

/// Compilers differ in what of C++20 they accept as C++17.
TEST(Install, TheHeaderIsCpp17ForClangToo) {
  if (run_shell("clang++ --version").code != 0) GTEST_SKIP() << "no clang++ here";
  const Ended ended =
      run_shell("clang++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I " +
                (prefix() / "include").string() +
                " -isystem " CUDA_INCLUDE " " SOURCE_ROOT "/examples/launch_from_cpp/launch.cpp");
  EXPECT_EQ(ended.code, 0) << ended.text;
}

/// Runs the consumer's `find` with the toolkit's stub in place of the driver, which it does not call.
Ended find(const fs::path& winners, const std::string& keys) {
  const fs::path stubs = fresh_folder("install_stubs");
  fs::create_symlink(CUDA_DRIVER_LIBRARY, stubs / "libcuda.so.1");
  return run_shell("LD_LIBRARY_PATH=" + stubs.string() + " " + (consumer() / "find").string() + " " +
                   winners.string() + " " + keys);
}

TEST(Install, AConsumerFindsThePlansOfProblems) {
  const fs::path winners = winners_for("sm_90a");
  const Ended found = find(winners,
                           "'rms_norm[tokens=5,hidden=4096,dtype=bf16]' "
                           "'linear[tokens=1,in=4096,out=4096,dtype=bf16]'");
  EXPECT_EQ(found.code, 0) << found.text;
  EXPECT_NE(found.text.find("rms_norm[tokens=2..8,hidden=4096,dtype=bf16]"), std::string::npos) << found.text;
  EXPECT_NE(found.text.find("linear[tokens=1,"), std::string::npos) << found.text;
}

TEST(Install, AProblemThatNoPlanServesIsAnErrorThatNamesTheNearest) {
  const fs::path winners = winners_for("sm_90a");
  for (const auto& [key, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"rms_norm[tokens=65,hidden=4096,dtype=bf16]",
            "the nearest are rms_norm[tokens=9..64,hidden=4096,dtype=bf16]"},
           {"rms_norm[tokens=8,hidden=512,dtype=bf16]", "no exported plan serves rms_norm"},
           {"rms_norm[tokens=8,dtype=bf16]", "rms_norm needs the dim 'hidden'"},
           {"rms_norm[tokens=8,hidden=4096,x=1,dtype=bf16]", "rms_norm has no dim 'x'"},
           {"rms_norm[tokens=many,hidden=4096,dtype=bf16]", "must be an integer"},
           {"softmax[x=1,dtype=bf16]", "it has linear, rms_norm"},
           {"rms_norm", "is not of the form"}}) {
    const Ended ended = find(winners, "'" + key + "'");
    EXPECT_EQ(ended.code, 1) << key;
    EXPECT_NE(ended.text.find(sentence), std::string::npos) << ended.text;
  }
  std::ofstream(winners / "warptune.json") << "{\"schema\": 3, \"plans\": [";
  EXPECT_NE(find(winners, "x").text.find("no JSON at byte"), std::string::npos);
  std::ofstream(winners / "warptune.json") << "{\"schema\": 4}";
  EXPECT_NE(find(winners, "x").text.find("has schema 4; this header reads 1 to 3"), std::string::npos);
  EXPECT_NE(find("/no/such", "x").text.find("cannot be read"), std::string::npos);
}

TEST(GpuInstall, AConsumerLaunchesTheWinners) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const OwnedDevice device = open_device("cuda:0");
  const std::string arch = device->facts().arch;
  const fs::path winners = winners_for(arch);
  for (const char* tokens : {"1", "16"}) {  // 16 tokens: a kernel with tensor maps on sm_90a
    const Ended ended = run_shell((consumer() / "launch").string() + " " + winners.string() + " " + tokens);
    EXPECT_EQ(ended.code, 0) << ended.text;
  }
  const fs::path attention = winners_for(
      arch, "^attention_decode\\[batch=1,q_heads=32,kv_heads=8,head_dim=128,context=(512|4096),uneven=no");
  for (const char* context : {"512", "4000"}) {
    const Ended ended =
        run_shell((consumer() / "attend").string() + " " + attention.string() + " " + context);
    EXPECT_EQ(ended.code, 0) << ended.text;
  }
}
#endif

}  // namespace
}  // namespace warptune
