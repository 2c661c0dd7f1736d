// A temporary folder per test process, removed at its end, so that parallel tests, also of several checkouts,
// do not write to the same files. The cache of the host is small, so that flushing it takes a millisecond.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

class OwnFolder {
 public:
  OwnFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "warptune-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) return;
    path_ = name;
    ::setenv("WARPTUNE_HOST_CACHE_MIB", "8", 0);
    ::setenv("TEST_TMPDIR", (name + '/').c_str(), 1);  // what testing::TempDir() returns
  }
  ~OwnFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;

 private:
  std::filesystem::path path_;
};

const OwnFolder own_folder;

}  // namespace
