# Writes OUTPUT: for each op two hashes of the C++ below ROOT that its variants without machine code are made of. Comments
# and white space do not count. Untouched where unchanged.
#   host     variants/<op> and variants/helpers, without what calls libraries
#   library  what calls libraries: vendor.cpp and cudnn.cpp of the op, variants/vendor
cmake_minimum_required(VERSION 3.25)

function(hash_of result)
  set(text "")
  foreach(file ${ARGN})
    file(READ ${ROOT}/${file} code)
    string(REGEX REPLACE "//[^\n]*" "" code "${code}")
    string(REGEX REPLACE "[ \t\r\n]+" " " code "${code}")
    string(APPEND text "${file} ${code}\n")
  endforeach()
  string(SHA256 hash "${text}")
  set(${result} ${hash} PARENT_SCOPE)
endfunction()

file(GLOB ops RELATIVE ${ROOT} ${ROOT}/*/op.cpp)
list(SORT ops)
set(table "")
foreach(op_file ${ops})
  get_filename_component(op ${op_file} DIRECTORY)
  file(GLOB library RELATIVE ${ROOT} ${ROOT}/${op}/vendor.cpp ${ROOT}/${op}/cudnn.cpp ${ROOT}/vendor/*)
  file(GLOB host RELATIVE ${ROOT} ${ROOT}/${op}/*.cpp ${ROOT}/${op}/*.h ${ROOT}/helpers/*.h ${ROOT}/helpers/*.cpp)
  if(library)
    list(REMOVE_ITEM host ${library})
  endif()
  list(SORT host)
  list(SORT library)
  hash_of(host_hash ${host})
  hash_of(library_hash ${library})
  string(APPEND table "    {\"${op}\", \"${host_hash}\", \"${library_hash}\"},\n")
endforeach()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT "#pragma once
#include <string_view>

namespace warptune {

struct VariantSources {
  std::string_view op, host, library;
};
inline constexpr VariantSources kVariantSources[] = {
@table@};

}  // namespace warptune
")
