#include "cli/openmp.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace warptune {

void wait_passively(int argc, char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  if (argc > 1 && std::string_view(argv[1]) == "profile") return;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (program.filename().string().starts_with("ld-")) return;  // started through the dynamic loader
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  ::execv(program.c_str(), argv);  // returns only if it fails; then threads spin
}

}  // namespace warptune
