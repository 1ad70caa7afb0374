# `cmake --install` and find_package(tinyloop CONFIG), target tinyloop::tinyloop.
include(CMakePackageConfigHelpers)

install(TARGETS tinyloop EXPORT tinyloop_targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tinyloop DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT tinyloop_targets NAMESPACE tinyloop:: FILE tinyloop_targets.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tinyloop)

configure_package_config_file(
    ${PROJECT_SOURCE_DIR}/cmake/tinyloop-config.cmake.in
    ${PROJECT_BINARY_DIR}/tinyloop-config.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tinyloop)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tinyloop-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tinyloop-config.cmake
              ${PROJECT_BINARY_DIR}/tinyloop-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tinyloop)
