# The package file for Spack, read without Spack.
find_program(WEFT_PYTHON python3)
if(WEFT_PYTHON)
  add_test(NAME unit.spack COMMAND ${WEFT_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/spack_package.py)
  set_tests_properties(unit.spack PROPERTIES LABELS unit TIMEOUT 60)
endif()
