# Embeds every file below kernels/ into a target, as a table of (name, text) for run-time compilation.
function(embed_kernels target)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/*.cu ${CMAKE_SOURCE_DIR}/kernels/*.cuh
       ${CMAKE_SOURCE_DIR}/kernels/*.h)
  set(output ${CMAKE_BINARY_DIR}/embedded_kernels.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_SOURCE_DIR}/kernels -DOUTPUT=${output} -P
            ${CMAKE_SOURCE_DIR}/cmake/write_embedded.cmake
    DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/write_embedded.cmake
    COMMENT "Embedding kernel sources"
    VERBATIM)
  # Alone, so that an edited kernel compiles nothing else.
  set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${output})
endfunction()
