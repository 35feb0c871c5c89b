# What `cmake --install` puts below its prefix.
include(GNUInstallDirs)
install(TARGETS weft RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY inputs jobs DESTINATION ${CMAKE_INSTALL_DATADIR}/weft USE_SOURCE_PERMISSIONS)
install(FILES LICENSE NOTICE.md README.md CHANGELOG.md CITATION.cff DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/weft)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/weft)
install(FILES cmake/weft.modulefile DESTINATION ${CMAKE_INSTALL_DATADIR}/modulefiles/weft RENAME ${PROJECT_VERSION})
# The manual page and bash's completion are the program's own (src/cli/manual.cpp). One that is built for another
# processor, or for a driver that is not here, is installed without them.
install(CODE "
  foreach(page \"manual;weft.1\" \"completion;weft.bash\")
    list(GET page 0 command)
    list(GET page 1 file)
    set(file \"${PROJECT_BINARY_DIR}/\${file}\")
    execute_process(COMMAND \"$<TARGET_FILE:weft>\" \${command} OUTPUT_FILE \"\${file}\" ERROR_VARIABLE said RESULT_VARIABLE failed)
    if(failed)
      file(REMOVE \"\${file}\")
      message(WARNING \"no page by weft \${command}, because the program does not run here: \${said}\")
    endif()
  endforeach()")
install(FILES "${PROJECT_BINARY_DIR}/weft.1" DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
install(FILES "${PROJECT_BINARY_DIR}/weft.bash" DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME weft OPTIONAL)
