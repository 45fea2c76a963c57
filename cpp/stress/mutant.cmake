# SPDX-License-Identifier: Apache-2.0
# Mutants: a program built from a copy of the headers in which one sed expression has changed something. A test that
# cannot tell a mutant from the right program proves nothing.

get_filename_component(FLYRING_INCLUDE ${CMAKE_CURRENT_LIST_DIR}/../include ABSOLUTE)

# flyring_mutant(TARGET HEADER SED-EXPRESSION SOURCE...): the build fails if the expression changes nothing in HEADER. In an
# expression, a dot stands for a semicolon: CMake would split there.
function(flyring_mutant target header expression)
  set(copy ${CMAKE_CURRENT_BINARY_DIR}/mutants/${target})
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${FLYRING_INCLUDE}/flyring/*.hpp)
  add_custom_command(
    OUTPUT ${copy}/made
    COMMAND ${CMAKE_COMMAND} -E remove_directory ${copy}
    COMMAND ${CMAKE_COMMAND} -E copy_directory ${FLYRING_INCLUDE} ${copy}
    COMMAND sed -i -E "${expression}" ${copy}/flyring/${header}
    COMMAND sh -c "! cmp -s '${copy}/flyring/${header}' '${FLYRING_INCLUDE}/flyring/${header}'"
            || sh -c "echo 'the mutant ${target} changes nothing in ${header}' >&2; false"
    COMMAND ${CMAKE_COMMAND} -E touch ${copy}/made
    DEPENDS ${headers}
    VERBATIM)
  add_executable(${target} ${ARGN} ${copy}/made)
  target_include_directories(${target} BEFORE PRIVATE ${copy})
endfunction()
