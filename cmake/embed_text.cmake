# Embeds a text file into a target as `extern const char SYMBOL[]` of namespace warptune.
function(embed_text target file symbol)
  set(output ${CMAKE_BINARY_DIR}/embedded_${symbol}.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${file} -DOUTPUT=${output} -DSYMBOL=${symbol} -P
            ${CMAKE_SOURCE_DIR}/cmake/write_text.cmake
    DEPENDS ${file} ${CMAKE_SOURCE_DIR}/cmake/write_text.cmake
    COMMENT "Embedding ${symbol}"
    VERBATIM)
  set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${output})
endfunction()
