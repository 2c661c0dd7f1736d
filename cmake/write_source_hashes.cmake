# Writes OUTPUT: for each op a hash of the C++ that its variants are made of, variants/<op> with variants/helpers, and
# with variants/vendor where it includes that. Untouched where unchanged.
cmake_minimum_required(VERSION 3.25)

function(hash_of result)
  set(text "")
  foreach(folder ${ARGN})
    file(GLOB files RELATIVE ${ROOT} ${ROOT}/${folder}/*.cpp ${ROOT}/${folder}/*.h)
    list(SORT files)
    foreach(file ${files})
      file(SHA256 ${ROOT}/${file} hash)
      string(APPEND text "${file} ${hash}\n")
    endforeach()
  endforeach()
  string(SHA256 hash "${text}")
  set(${result} ${hash} PARENT_SCOPE)
endfunction()

file(GLOB ops RELATIVE ${ROOT} ${ROOT}/*/op.cpp)
list(SORT ops)
set(table "")
foreach(file ${ops})
  get_filename_component(op ${file} DIRECTORY)
  set(folders ${op} helpers)
  file(GLOB libraries ${ROOT}/${op}/vendor.cpp ${ROOT}/${op}/cudnn.cpp)
  foreach(source ${libraries})
    file(STRINGS ${source} shared REGEX "#include \"variants/vendor/")
    if(shared)
      list(APPEND folders vendor)
      break()
    endif()
  endforeach()
  hash_of(hash ${folders})
  string(APPEND table "    {\"${op}\", \"${hash}\"},\n")
endforeach()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT "#pragma once
#include <string_view>
#include <utility>

inline constexpr std::pair<std::string_view, std::string_view> kVariantSources[] = {
@table@};
")
