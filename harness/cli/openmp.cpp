#include "cli/openmp.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace warptune {

void wait_passively(int argc, char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  if (argc > 1 && std::string_view(argv[1]) == "profile") return;
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  std::error_code error;
  ::execv(std::filesystem::read_symlink("/proc/self/exe", error).c_str(),
          argv);  // returns where it cannot: then they spin
}

}  // namespace warptune
