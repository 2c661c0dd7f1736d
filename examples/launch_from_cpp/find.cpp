// find FOLDER KEY..: prints the plan that serves each problem. Needs no GPU.
#include <warptune/launch.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: find FOLDER KEY..\n");
    return 2;
  }
  try {
    const warptune::Folder folder(argv[1]);
    for (int i = 2; i < argc; ++i) {
      const warptune::Entry& entry = folder.find(argv[i]);
      std::printf("%s: %s for %s\n", argv[i], entry.variant.c_str(), entry.covered().c_str());
    }
    return 0;
  } catch (const warptune::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
