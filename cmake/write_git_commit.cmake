# Writes OUTPUT: the commit that SOURCE_DIR is at, with -dirty where the program's sources differ from it, and
# empty where it is not a checkout. Untouched where unchanged.
execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "")
else()
  execute_process(COMMAND git -C ${SOURCE_DIR} status --porcelain -- CMakeLists.txt cmake cli harness include
                          kernels variants OUTPUT_VARIABLE changes ERROR_QUIET)
  if(changes)
    string(APPEND commit "-dirty")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#pragma once\ninline constexpr const char* kGitCommit = \"${commit}\";\n")
