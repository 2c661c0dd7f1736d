# Compiles the sources of a target in batches (unity builds): much of the time of a source goes into the headers that it
# shares with the others of its module.

# What two sources of a batch both define in their anonymous namespaces: these are compiled by themselves.
set(compiled_alone
    harness/cli/decode.cpp
    harness/measure/launch_floor.cpp
    harness/measure/peaks.cpp
    harness/results/journal.cpp
    harness/search/surrogate.cpp
    harness/tune/dry_run.cpp
    harness/tune/profile.cpp
    harness/tune/worker_process.cpp
    tests/cli/regression_test.cpp
    tests/cli/report_test.cpp
    tests/llama/safetensors_test.cpp
    tests/measure/hostile_test.cpp
    variants/attention_decode/pipelined.cpp
    variants/vendor/batched_gemm.cpp)

# compile_together(TARGET [BY_FOLDER|BY_LETTER]): batches of 8 sources, or a batch per folder, or per first letter of the
# file. With the latter two, a new source changes no other batch.
function(compile_together target)
  if(NOT WARPTUNE_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
    if(path IN_LIST compiled_alone)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      continue()
    endif()
    if("BY_FOLDER" IN_LIST ARGN)
      cmake_path(GET path PARENT_PATH group)
      string(MAKE_C_IDENTIFIER ${group} group)
    elseif("BY_LETTER" IN_LIST ARGN)
      cmake_path(GET path FILENAME group)
      string(SUBSTRING ${group} 0 1 group)
    else()
      continue()
    endif()
    set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()
