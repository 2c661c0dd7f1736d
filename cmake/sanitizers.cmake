# The compiler's instrumentation of the whole build: the presets asan, tsan and fuzz. A finding ends the program.
set(WARPTUNE_SANITIZE "" CACHE STRING "Sanitizers of the whole build: address,undefined or thread")
option(WARPTUNE_FUZZ "Build tests/fuzz with libFuzzer, which needs clang" OFF)
if(WARPTUNE_SANITIZE)
  add_compile_options(-fsanitize=${WARPTUNE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${WARPTUNE_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-Wno-maybe-uninitialized)  # warns of std::regex under sanitizers (GCC bug 105562)
  endif()
endif()
if(WARPTUNE_SANITIZE STREQUAL thread)
  add_compile_options(-Wno-unknown-pragmas)  # there is no OpenMP
endif()
if(WARPTUNE_FUZZ)
  # The counters of edges guide the mutations. The standard library of GCC 12 calls what C++17 deprecates.
  add_compile_options(-fsanitize=fuzzer-no-link -Wno-deprecated-declarations)
endif()
