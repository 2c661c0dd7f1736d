// What launch.h launches, and what it refuses of its caller.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "tests/launch/exported_folder.h"

namespace warptune {
namespace {
using nlohmann::json;
using testing::error_of;
using testing::ExportedFolder;
using testing::read_json;

/// The launches of a call, as the driver saw them.
template <class Call>
std::vector<json> launches_of(const std::filesystem::path& folder, const Call& call) {
  const std::string log = (folder / "log").string();
  std::ofstream(log).close();
  ::setenv("WARPTUNE_FAKE_DRIVER_LOG", log.c_str(), 1);
  call();
  ::unsetenv("WARPTUNE_FAKE_DRIVER_LOG");
  std::vector<json> launches;
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);) launches.push_back(json::parse(line));
  return launches;
}

TEST(Launch, FormulasGiveTheGridOfAProblem) {
  const ExportedFolder exported;
  Folder folder(exported.path().string());
  const Plan norm = folder.load("rms_norm[tokens=5,hidden=64,dtype=bf16]"),
             gemm = folder.load("linear[tokens=4,in=64,dtype=bf16]");
  Args x = norm.args(), y = gemm.args();
  testing::set_required(x, 0);
  testing::set_required(y, 7);
  const auto launches = launches_of(exported.path(), [&] {
    norm.launch(x, nullptr);
    gemm.launch(y, nullptr);
  });
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0]["grid"], (json{3, 1, 1}));
  EXPECT_EQ(launches[0]["attributes"], 1);
  EXPECT_EQ(launches[1]["grid"], (json{100, 7, 1}));  // 132 SMs, at most 100 blocks; 1 + 2 * ceil(3 * 4 / 4)
  EXPECT_EQ(launches[1]["block"], (json{128, 2, 1}));
  EXPECT_EQ(gemm.workspace_bytes(), 1024u);
}

TEST(Launch, AKernelWithAListOfArgumentsGetsEachOfThem) {
  json document = read_json("valid.json");
  document["schema"] = 2;
  document["plans"][0]["stages"][0]["arguments"] =
      json::parse(R"([{"offset": 24, "size": 4}, {"offset": 0, "size": 8}])");
  const ExportedFolder exported(document.dump());
  Folder folder(exported.path().string());
  const Plan norm = folder.load("rms_norm[tokens=5,hidden=64,dtype=bf16]");
  Args args = norm.args();
  testing::set_required(args, 0);
  ::setenv("WARPTUNE_FAKE_DRIVER_BYTES", "4", 1);
  const auto launches = launches_of(exported.path(), [&] { norm.launch(args, nullptr); });
  ::unsetenv("WARPTUNE_FAKE_DRIVER_BYTES");
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0]["args"], "05000000");  // tokens
}

TEST(Launch, BlocksPerSmDoNotOverflow) {
  json document = read_json("valid.json");
  json& stage = document["plans"][1]["stages"][0];
  stage["max_blocks"] = 0;
  stage["grid"][0] = 2147483647;
  const ExportedFolder exported(document.dump());
  Folder folder(exported.path().string());
  EXPECT_NE(error_of([&] {
              folder.load("linear[tokens=4,in=64,dtype=bf16]");
            }).find("kernel 'gemm' gets 283467841404 blocks on this device"),
            std::string::npos);
}

TEST(Launch, DimsAreCheckedWhereTheyAreGiven) {
  json document = read_json("valid.json");
  json& factor = document["plans"][0]["stages"][0]["grid"][0];
  factor["plus"] = -3;  // 4 blocks for 8 tokens less 3, and none for 6
  const ExportedFolder exported(document.dump());
  Folder folder(exported.path().string());
  EXPECT_EQ(error_of([&] { folder.load("rms_norm[tokens=8,hidden=64,dtype=bf16]"); }), "");
  const std::string error = error_of([&] { folder.load("rms_norm[tokens=6,hidden=64,dtype=bf16]"); });
  EXPECT_NE(error.find("kernel 'rms': 'grid[0]' is 0 here; it must be from 1"), std::string::npos) << error;
  for (const char* tokens : {"99999999999999999999", " 5", "5x", "-1", "", "0"})
    EXPECT_NE(
        error_of([&] { folder.load(std::string("rms_norm[tokens=") + tokens + ",hidden=64,dtype=bf16]"); }),
        "")
        << tokens;
  for (const char* key : {"", "[", "]", "]a[", "[]", "rms_norm[]", "rms_norm[tokens]", "rms_norm[dtype=]"})
    EXPECT_NE(error_of([&] { folder.find(key); }), "") << key;
}

TEST(LaunchArgs, HoldTheDefaultsOfThePlan) {
  const ExportedFolder exported;
  Folder folder(exported.path().string());
  const Args args = folder.load("linear[tokens=4,in=64,dtype=bf16]").args();
  EXPECT_EQ(args.whole("count"), 9007199254740993);  // 2^53 + 1 is no double
  EXPECT_EQ(args.whole("flags"), -1);
  double scale = 0;
  std::memcpy(&scale, static_cast<const char*>(args.data()) + 32, sizeof scale);
  EXPECT_EQ(scale, 1);
  EXPECT_EQ(folder.load("rms_norm[tokens=4,hidden=64,dtype=bf16]").args().whole("tokens"), 4);
}

TEST(LaunchArgs, RefuseWhatDoesNotFit) {
  const ExportedFolder exported;
  Folder folder(exported.path().string());
  Args norm = folder.load("rms_norm[tokens=4,hidden=64,dtype=bf16]").args(),
       gemm = folder.load("linear[tokens=4,in=64,dtype=bf16]").args();
  constexpr auto kWide = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(error_of([&] { gemm.set("flags", kWide); }),
            "'flags' has 32 bits; 18446744073709551615 does not fit");
  EXPECT_EQ(error_of([&] { gemm.set("flags", std::int64_t{1} << 32); }),
            "'flags' has 32 bits; 4294967296 does not fit");
  EXPECT_EQ(error_of([&] { norm.set("eps", 1e300); }).find("'eps' has 32 bits"), 0u);
  EXPECT_EQ(error_of([&] { norm.set("eps", 3.4028235e38); }), "") << "rounds to the largest float";
  EXPECT_EQ(error_of([&] { norm.set("eps", -INFINITY).set("eps", NAN); }), "");
  EXPECT_EQ(error_of([&] { norm.set("tokens", 1.5); }), "'tokens' is no real number");
  EXPECT_EQ(error_of([&] { norm.set("tokens", nullptr); }), "'tokens' is a number, not a pointer");
  EXPECT_EQ(error_of([&] { norm.set_at(5, 0); }), "the args have 5 members, and none of index 5");
  EXPECT_NE(error_of([&] { norm.set_tensor("", &norm); }), "");
}

TEST(LaunchArgs, BelongToTheirPlan) {
  const ExportedFolder exported;
  Folder folder(exported.path().string());
  const Plan norm = folder.load("rms_norm[tokens=4,hidden=64,dtype=bf16]"),
             gemm = folder.load("linear[tokens=4,in=64,dtype=bf16]");
  Args args = norm.args();
  testing::set_required(args, 1);
  EXPECT_EQ(error_of([&] { gemm.launch(args, nullptr); }),
            "linear[tokens=16,in=64,bias=no,dtype=bf16]: the args are those of another plan");
  EXPECT_NE(error_of([&] { gemm.launch(gemm.args(), nullptr); }).find("'weight' of the args is not set"),
            std::string::npos);
}

TEST(LaunchArgs, OfATensorMapAreCheckedAtTheLaunch) {
  const ExportedFolder exported;
  Folder folder(exported.path().string());
  const Plan gemm = folder.load("linear[tokens=4,in=64,dtype=bf16]");
  Args args = gemm.args();
  for (const std::int64_t rows :
       {std::int64_t{0}, std::int64_t{-5}, std::numeric_limits<std::int64_t>::min(), std::int64_t{1} << 33}) {
    testing::set_required(args, rows);
    EXPECT_NE(error_of([&] { gemm.launch(args, nullptr); }).find("the tensor map of 'weight': 'dims[1]' is"),
              std::string::npos)
        << rows;
  }
}

}  // namespace
}  // namespace warptune
