cmake_minimum_required(VERSION 3.22)
# Run at every build: writes ${output} with the checkout's commit, and touches it only when that has changed.
execute_process(COMMAND git describe --always --abbrev=12 --dirty --exclude=*
  WORKING_DIRECTORY ${source} OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT ${output} CONTENT "#define TRUNKLINE_COMMIT \"@commit@\"\n" @ONLY)
