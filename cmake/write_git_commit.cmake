# Writes OUTPUT: the commit that SOURCE_DIR is at, empty where it is not a checkout. Untouched where unchanged.
execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#pragma once\ninline constexpr const char* kGitCommit = \"${commit}\";\n")
