# `cmake --install`: the program with its sweeps, pages and Python modules, and the headers that launch exported winners,
# with the CMake package `warptune` (target warptune::launch) and warptune.pc. `cpack` makes a .tar.gz and a .deb of the
# same files.
include(CMakePackageConfigHelpers)

install(TARGETS warptune RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# The CUDA Toolkit is where it was at the build; its libraries are no part of the package.
set_target_properties(warptune PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/warptune)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DATADIR}/warptune)
# `decode` runs it for text. It needs no extension, and packages that are no part of this one.
install(FILES python/src/warptune/__init__.py DESTINATION ${CMAKE_INSTALL_DATADIR}/warptune/python/warptune)
install(DIRECTORY python/src/warptune/text python/src/warptune/history python/src/warptune/bisect DESTINATION ${CMAKE_INSTALL_DATADIR}/warptune/python/warptune
        PATTERN __pycache__ EXCLUDE)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The headers do not depend on the architecture, nor do the files that describe them.
add_library(warptune_launch INTERFACE)
target_include_directories(warptune_launch INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(warptune_launch INTERFACE cxx_std_17)
target_link_libraries(warptune_launch INTERFACE CUDA::cuda_driver)
set_target_properties(warptune_launch PROPERTIES EXPORT_NAME launch)
install(DIRECTORY include/warptune DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS warptune_launch EXPORT warptune)
set(package ${CMAKE_INSTALL_DATADIR}/cmake/warptune)
install(EXPORT warptune NAMESPACE warptune:: FILE warptuneTargets.cmake DESTINATION ${package})
configure_package_config_file(cmake/warptuneConfig.cmake.in ${CMAKE_BINARY_DIR}/package/warptuneConfig.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/warptuneConfigVersion.cmake COMPATIBILITY SameMajorVersion
                                 ARCH_INDEPENDENT)
configure_file(cmake/warptune.pc.in ${CMAKE_BINARY_DIR}/package/warptune.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/package/warptuneConfig.cmake ${CMAKE_BINARY_DIR}/package/warptuneConfigVersion.cmake
        DESTINATION ${package})
install(FILES ${CMAKE_BINARY_DIR}/package/warptune.pc DESTINATION ${CMAKE_INSTALL_DATADIR}/pkgconfig)

set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_NAME warptune)
set(CPACK_PACKAGE_VENDOR warptune)
set(CPACK_PACKAGE_CONTACT "the warptune authors <warptune@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Benchmarks and autotunes the CUDA kernels of LLaMA inference")
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS python3)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_BINARY_DIR}/package/package_depends.cmake)
configure_file(cmake/package_depends.cmake.in ${CPACK_PROJECT_CONFIG_FILE} @ONLY)
include(CPack)
