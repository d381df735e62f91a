function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "exit code ${result}")
  endif()
endfunction()

file(REMOVE_RECURSE ${work})
run(${CMAKE_COMMAND} --install ${build} --prefix ${work}/prefix --config "${config}")
run(${CMAKE_COMMAND} -S ${example} -B ${work}/build -G Ninja -DCMAKE_CXX_COMPILER=${compiler}
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=${work}/prefix)
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/minimal)
run(${work}/prefix/bin/trunkline --version)
