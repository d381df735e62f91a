function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "exit code ${result}")
  endif()
endfunction()

file(REMOVE_RECURSE ${work})
run(${CMAKE_COMMAND} --install ${build} --prefix ${work}/prefix --config "${config}")
function(run_example name compiler_option program)
  run(${CMAKE_COMMAND} -S ${examples}/${name} -B ${work}/${name} -G Ninja ${compiler_option}
      -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=${work}/prefix)
  run(${CMAKE_COMMAND} --build ${work}/${name})
  run(${work}/${name}/${program})
endfunction()

run_example(minimal -DCMAKE_CXX_COMPILER=${compiler} minimal)
run(${work}/prefix/bin/trunkline --version)

if(c_interface)
  run_example(c -DCMAKE_C_COMPILER=${c_compiler} c_example)
  # The same without CMake, where pkg-config is there.
  find_program(pkg_config pkg-config)
  if(pkg_config)
    file(GLOB_RECURSE pc ${work}/prefix/trunkline.pc)
    cmake_path(GET pc PARENT_PATH pc_folder)
    cmake_path(GET pc_folder PARENT_PATH libraries)
    execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${pc_folder} ${pkg_config} --cflags --libs trunkline
                    OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    separate_arguments(flags)
    run(${c_compiler} -std=c11 ${examples}/c/main.c ${flags} -lm -Wl,-rpath,${libraries} -o ${work}/by_pkg_config)
    run(${work}/by_pkg_config)
  endif()
endif()
