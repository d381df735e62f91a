include(CMakePackageConfigHelpers)

install(TARGETS trunkline EXPORT trunkline-targets)
if(TRUNKLINE_BUILD_C)
  install(TARGETS trunkline_c EXPORT trunkline-targets)
  # Relative to itself, as `cmake --install --prefix` may move it.
  set(pc_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  file(RELATIVE_PATH pc_libdir /${pc_folder} /${CMAKE_INSTALL_LIBDIR})
  file(RELATIVE_PATH pc_includedir /${pc_folder} /${CMAKE_INSTALL_INCLUDEDIR})
  configure_file(cmake/trunkline.pc.in ${PROJECT_BINARY_DIR}/trunkline.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/trunkline.pc DESTINATION ${pc_folder})
endif()
install(DIRECTORY include/trunkline DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT trunkline-targets NAMESPACE trunkline:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/trunkline)
configure_package_config_file(cmake/trunkline-config.cmake.in ${PROJECT_BINARY_DIR}/trunkline-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/trunkline)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/trunkline-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/trunkline-config.cmake ${PROJECT_BINARY_DIR}/trunkline-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/trunkline)
if(TRUNKLINE_BUILD_PROGRAM)
  install(TARGETS trunkline_program DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
