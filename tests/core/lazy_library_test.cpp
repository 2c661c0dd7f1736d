#include "harness/core/lazy_library.h"

#include <gtest/gtest.h>

namespace warptune {
namespace {

TEST(LazyLibrary, HasItsFunctions) {
  const auto cosine = reinterpret_cast<double (*)(double)>(library_function("libm.so.6", "cos"));
  EXPECT_EQ(cosine(0), 1);
}

TEST(LazyLibrary, SaysWhatIsMissing) {
  const auto refusal = [](const char* library, const char* function) -> std::string {
    try {
      library_function(library, function);
    } catch (const LibraryError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_TRUE(refusal("libnone.so.1", "cos").starts_with("'libnone.so.1' cannot be loaded: libnone.so.1: "));
  EXPECT_NE(refusal("libm.so.6", "no_such_function").find("no_such_function"), std::string::npos);
}

}  // namespace
}  // namespace warptune
