# SPDX-License-Identifier: Apache-2.0
# cmake -DHOW=package|fetch -DSOURCE=<cpp folder> -DBUILD=<build folder of Flyring> -DWORK=<scratch folder>
#       -DCXX=<compiler> -P run.cmake: builds and runs the consumer the way a user does.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGV} ended with ${status}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
set(arguments -DFLYRING_HOW=${HOW} -DCMAKE_CXX_COMPILER=${CXX})
if(HOW STREQUAL "package")
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
  list(APPEND arguments -DCMAKE_PREFIX_PATH=${WORK}/prefix)
else()
  list(APPEND arguments -DFLYRING_SOURCE=${SOURCE})
endif()
run(${CMAKE_COMMAND} -S ${SOURCE}/test/consumer -B ${WORK}/build ${arguments})
run(${CMAKE_COMMAND} --build ${WORK}/build)
file(MAKE_DIRECTORY ${WORK}/channels)
file(CHMOD ${WORK}/channels PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
run(${CMAKE_COMMAND} -E env FLYRING_DIR=${WORK}/channels ${WORK}/build/consumer)
