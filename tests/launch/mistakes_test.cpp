// A mistake in warptune.json is an Error that names the entry and the value.
#include "tests/launch/exported_folder.h"

namespace warptune {
namespace {
using nlohmann::json;
using testing::error_of;
using testing::ExportedFolder;
using testing::read_json;

/// valid.json with one value changed, added, or removed where the mistake has none.
json with_mistake(const json& mistake) {
  json document = read_json("valid.json");
  const json::json_pointer at("/" + mistake["at"].get<std::string>());
  if (mistake.contains("value"))
    document[at] = mistake["value"];
  else
    document = document.patch({{{"op", "remove"}, {"path", at.to_string()}}});
  return document;
}

TEST(LaunchMistakes, TheFolderThatIsChangedIsValid) {
  const ExportedFolder folder;
  EXPECT_EQ(error_of([&] { testing::launch_all(folder.path()); }), "");
}

TEST(LaunchMistakes, EachIsAnErrorThatNamesTheValue) {
  for (const json& mistake : read_json("mistakes.json")) {
    const ExportedFolder folder(with_mistake(mistake).dump());
    const std::string error = error_of([&] { testing::launch_all(folder.path()); });
    EXPECT_NE(error.find(mistake["says"]), std::string::npos) << mistake << "\n" << error;
    if (mistake["at"].get<std::string>().rfind("plans/1/", 0) == 0) {
      EXPECT_NE(error.find("linear[tokens=16"), std::string::npos) << error;
    }
  }
}

TEST(LaunchMistakes, TextThatIsNoJsonNamesTheByte) {
  const std::string valid = read_json("valid.json").dump();
  for (const auto& [text, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"", "no JSON at byte 0: expected a value"},
           {"\xef\xbb\xbf{}", "no JSON at byte 0: expected a value"},
           {valid + "}", "expected the end"},
           {valid.substr(0, valid.size() - 1), "expected '}'"},
           {std::string(100000, '['), "no JSON at byte 65: expected at most 64 levels"},
           {"{\"schema\": 1e999}", "expected a value"},
           {"{\"schema\": " + std::string(65, '1') + "}", "expected a number of at most 64 characters"},
           {"{\"schema\": 1-1}", "expected a value"},
           {"{\"sch\\u00zzma\": 1}", "expected four hexadecimal digits"},
           {"{\"sch\\", "expected an escape of JSON"},
           {"{\"sch\\u", "expected four hexadecimal digits"},
           {"{\"sch\\x\": 1}", "expected an escape of JSON"},
           {"{\"sch\nema\": 1}", "expected no control character in a text"},
           {"{\"sch\\nema\": 1}", "expected a key of printable ASCII characters"},
           {"{\"schema\": 1,}", "expected '\"'"},
           {"{\"schema", "expected '\"'"}}) {
    const ExportedFolder folder(text);
    const std::string error = error_of([&] { Folder(folder.path().string()); });
    EXPECT_NE(error.find(sentence), std::string::npos) << text.substr(0, 99) << "\n" << error;
  }
}

TEST(LaunchMistakes, EscapedNamesAreRead) {
  json document = read_json("valid.json");
  std::string text = document.dump();
  text.replace(text.find("vectorized"), 10, "\\u0076\\\"\\\\\\/");
  const ExportedFolder folder(text);
  EXPECT_EQ(Folder(folder.path().string()).entries()[0].variant, "v\"\\/");
}

TEST(LaunchMistakes, ReadingTakesTimeInProportionToTheSize) {
  json document = read_json("valid.json");
  document["left_out"] = std::vector<int>(300'000, 1);
  const ExportedFolder folder(document.dump());
  EXPECT_EQ(error_of([&] { Folder(folder.path().string()); }), "");
}

TEST(LaunchMistakes, MoreValuesThanAnyExportHasAreRefused) {
  std::string text = "[0";
  for (int i = 0; i < 4'000'000; ++i) text += ",0";
  const ExportedFolder folder(text);
  EXPECT_NE(error_of([&] { Folder(folder.path().string()); }).find("expected at most 4000000 values"),
            std::string::npos);
}

}  // namespace
}  // namespace warptune
