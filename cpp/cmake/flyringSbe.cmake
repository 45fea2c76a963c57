# SPDX-License-Identifier: Apache-2.0
# flyring_sbe_generate(TARGET target SCHEMA schema.xml [OUTPUT folder])
#
# Generates the C++ codecs of an SBE schema with sbe-tool when `target` is built, and again when the schema or a file
# that it includes (XInclude) changes. `target`, and targets that link to it, include the codecs as
# <package>/<Message>.h. <package>/schema.hpp has the constant <package>::schema for Options::use and
# OpenOptions::schema. A dot in the package's name becomes `_` in the folder's name and `::` in the namespace. `folder`
# is the parent of the package's folder; by default it is in the build tree.
#
# Needs Java 17 and sbe-all.jar: FLYRING_SBE_JAR, or the release below, which Maven fetches into the build tree.

set_property(GLOBAL PROPERTY FLYRING_SBE_FOLDER ${CMAKE_CURRENT_LIST_DIR})
set(FLYRING_SBE_JAR "" CACHE FILEPATH "sbe-all.jar of sbe-tool; empty: Maven fetches it")

# _flyring_sbe_find(RESULT): sets FLYRING_SBE_JAVA and FLYRING_SBE_TOOL. Sets RESULT to a text that says what is
# missing, or to an empty string.
function(_flyring_sbe_find result)
  set(artifact uk.co.real-logic:sbe-all:1.38.1)
  set(${result} "" PARENT_SCOPE)
  find_package(Java 17 QUIET COMPONENTS Runtime)
  if(NOT Java_FOUND)
    set(${result} "Java 17 is needed to generate SBE codecs; install it, or set JAVA_HOME" PARENT_SCOPE)
    return()
  endif()
  set(FLYRING_SBE_JAVA ${Java_JAVA_EXECUTABLE} PARENT_SCOPE)
  if(FLYRING_SBE_JAR)
    set(FLYRING_SBE_TOOL ${FLYRING_SBE_JAR} PARENT_SCOPE)
    if(NOT EXISTS ${FLYRING_SBE_JAR})
      set(${result} "there is no ${FLYRING_SBE_JAR}, which FLYRING_SBE_JAR names" PARENT_SCOPE)
    endif()
    return()
  endif()
  set(jar ${CMAKE_BINARY_DIR}/flyring-sbe/sbe-all-1.38.1.jar)
  set(FLYRING_SBE_TOOL ${jar} PARENT_SCOPE)
  if(EXISTS ${jar})
    return()
  endif()
  find_program(FLYRING_MVN mvn)
  mark_as_advanced(FLYRING_MVN)
  set(why "there is no mvn")
  if(FLYRING_MVN)
    message(STATUS "Fetching ${artifact} with Maven")
    execute_process(COMMAND ${FLYRING_MVN} -B -q dependency:copy -Dartifact=${artifact}
                            -DoutputDirectory=${CMAKE_BINARY_DIR}/flyring-sbe
                    OUTPUT_VARIABLE why ERROR_VARIABLE why)
  endif()
  if(NOT EXISTS ${jar})
    set(${result} "sbe-tool is needed to generate SBE codecs, and Maven could not fetch ${artifact}: ${why}\nSet \
FLYRING_SBE_JAR to the file sbe-all-1.38.1.jar" PARENT_SCOPE)
  endif()
endfunction()

# _flyring_sbe_inputs(FILE RESULT): sets RESULT to the file and all files that it includes.
function(_flyring_sbe_inputs file result)
  set(inputs ${file})
  set(unread ${file})
  while(unread)
    list(GET unread 0 next)
    list(REMOVE_AT unread 0)
    get_filename_component(folder ${next} DIRECTORY)
    file(READ ${next} text)
    string(REGEX MATCHALL "<([A-Za-z0-9_.-]+:)?include[^>]*href[ \t\r\n]*=[ \t\r\n]*[\"'][^\"']+" includes "${text}")
    foreach(include IN LISTS includes)
      string(REGEX REPLACE ".*[\"']" "" href "${include}")
      get_filename_component(path ${href} ABSOLUTE BASE_DIR ${folder})
      if(EXISTS ${path} AND NOT path IN_LIST inputs)  # the generator reports missing files
        list(APPEND inputs ${path})
        list(APPEND unread ${path})
      endif()
    endforeach()
  endwhile()
  set(${result} ${inputs} PARENT_SCOPE)
endfunction()

function(flyring_sbe_generate)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "TARGET;SCHEMA;OUTPUT" "")
  if(NOT arg_TARGET OR NOT arg_SCHEMA OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "flyring_sbe_generate(TARGET target SCHEMA schema.xml [OUTPUT folder])")
  endif()
  if(NOT TARGET ${arg_TARGET})
    message(FATAL_ERROR "flyring_sbe_generate: there is no target ${arg_TARGET}; call it after add_executable or \
add_library")
  endif()
  _flyring_sbe_find(missing)
  if(missing)
    message(FATAL_ERROR "flyring_sbe_generate: ${missing}")
  endif()
  get_filename_component(schema ${arg_SCHEMA} ABSOLUTE)
  get_filename_component(name ${schema} NAME_WE)
  if(NOT EXISTS ${schema})
    message(FATAL_ERROR "flyring_sbe_generate: there is no ${schema}")
  endif()
  if(NOT arg_OUTPUT)
    set(arg_OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/flyring-sbe/${name})
  endif()
  get_filename_component(output ${arg_OUTPUT} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_BINARY_DIR})
  _flyring_sbe_inputs(${schema} inputs)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${inputs})

  file(READ ${schema} text)
  if(NOT text MATCHES "[ \t\r\n]package[ \t\r\n]*=[ \t\r\n]*[\"']([^\"']+)")
    message(FATAL_ERROR "flyring_sbe_generate: ${schema} has no attribute package")
  endif()
  string(REPLACE "." "_" package ${CMAKE_MATCH_1})
  set(made ${output}/${package}/schema.hpp)
  string(MD5 id "${schema} ${output}")
  string(SUBSTRING ${id} 0 8 id)
  set(generate flyring-sbe-${name}-${id})  # one target for each output, for all its users
  if(NOT TARGET ${generate})
    get_property(folder GLOBAL PROPERTY FLYRING_SBE_FOLDER)
    add_custom_command(
      OUTPUT ${made}
      COMMAND ${FLYRING_SBE_JAVA} -cp ${FLYRING_SBE_TOOL}
              ${folder}/FlyringSbe.java ${schema} ${output}
      DEPENDS ${inputs} ${folder}/FlyringSbe.java ${FLYRING_SBE_TOOL}
      COMMENT "Generating SBE codecs of ${name}"
      VERBATIM)
    add_custom_target(${generate} DEPENDS ${made})
  endif()
  add_dependencies(${arg_TARGET} ${generate})
  get_target_property(type ${arg_TARGET} TYPE)
  set(scope PUBLIC)
  if(type STREQUAL "INTERFACE_LIBRARY")
    set(scope INTERFACE)
  endif()
  target_include_directories(${arg_TARGET} SYSTEM ${scope} $<BUILD_INTERFACE:${output}>)
endfunction()
