# `cmake --install` and find_package(tinyloop CONFIG), target tinyloop::tinyloop.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tinyloop)
install(TARGETS tinyloop EXPORT tinyloop_targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tinyloop DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT tinyloop_targets NAMESPACE tinyloop:: FILE tinyloop_targets.cmake
        DESTINATION ${package_folder})

# A static library leaves its own dependencies to the program that links it.
get_target_property(tinyloop_kind tinyloop TYPE)
set(TINYLOOP_STATIC OFF)
if(tinyloop_kind STREQUAL "STATIC_LIBRARY")
  set(TINYLOOP_STATIC ON)
endif()
configure_package_config_file(
    ${PROJECT_SOURCE_DIR}/cmake/tinyloop-config.cmake.in
    ${PROJECT_BINARY_DIR}/tinyloop-config.cmake
    INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tinyloop-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tinyloop-config.cmake
              ${PROJECT_BINARY_DIR}/tinyloop-config-version.cmake
        DESTINATION ${package_folder})
