# Writes OUTPUT: for each op two hashes of the C++ below ROOT that its variants without machine code are made of.
# Comments, white space, and declarations of ops and lists of variants do not count. Untouched where unchanged.
#   host     variants/<op> and variants/helpers, without what calls libraries
#   library  vendor.cpp and cudnn.cpp of the op and what they include of variants/, with the .cpp of each header
cmake_minimum_required(VERSION 3.25)

# The text of a file without what computes nothing.
function(read_code result file)
  file(READ ${ROOT}/${file} code)
  string(REGEX REPLACE "//[^\n]*" "" code "${code}")
  string(REGEX REPLACE "[ \t\r\n]+" " " code "${code}")
  string(REGEX REPLACE "(std::vector<Variant>|Op) [a-z0-9_]+\\([^()]*\\);" "" code "${code}")
  string(REGEX REPLACE " +" " " code "${code}")
  set(${result} "${code}" PARENT_SCOPE)
endfunction()

function(hash_of result)
  set(text "")
  foreach(file ${ARGN})
    read_code(code ${file})
    string(APPEND text "${file} ${code}\n")
  endforeach()
  string(SHA256 hash "${text}")
  set(${result} ${hash} PARENT_SCOPE)
endfunction()

# The files, what they include of variants/, directly or not, and the .cpp beside each included header.
function(included_by result)
  set(files ${ARGN})
  set(unread ${ARGN})
  while(unread)
    list(POP_FRONT unread file)
    file(STRINGS ${ROOT}/${file} includes REGEX "^[ \t]*#[ \t]*include[ \t]*\"variants/")
    foreach(include ${includes})
      string(REGEX REPLACE ".*\"variants/([^\"]+)\".*" "\\1" header "${include}")
      string(REGEX REPLACE "\\.h$" ".cpp" implementation "${header}")
      foreach(found ${header} ${implementation})
        if(EXISTS ${ROOT}/${found} AND NOT found IN_LIST files)
          list(APPEND files ${found})
          list(APPEND unread ${found})
        endif()
      endforeach()
    endforeach()
  endwhile()
  set(${result} ${files} PARENT_SCOPE)
endfunction()

file(GLOB ops RELATIVE ${ROOT} ${ROOT}/*/op.cpp)
list(SORT ops)
set(table "")
foreach(op_file ${ops})
  get_filename_component(op ${op_file} DIRECTORY)
  file(GLOB calls_library RELATIVE ${ROOT} ${ROOT}/${op}/vendor.cpp ${ROOT}/${op}/cudnn.cpp)
  file(GLOB host RELATIVE ${ROOT} ${ROOT}/${op}/*.cpp ${ROOT}/${op}/*.h ${ROOT}/helpers/*.h ${ROOT}/helpers/*.cpp)
  if(calls_library)
    list(REMOVE_ITEM host ${calls_library})
  endif()
  included_by(library ${calls_library})
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
