# Target trunkline_commit: writes ${trunkline_commit_folder}/trunkline_commit.hpp, the commit that a binary is built from,
# for its version.
set(trunkline_commit_folder ${CMAKE_CURRENT_BINARY_DIR}/commit)
add_custom_target(trunkline_commit
  COMMAND ${CMAKE_COMMAND} -Dsource=${PROJECT_SOURCE_DIR} -Doutput=${trunkline_commit_folder}/trunkline_commit.hpp
          -P ${CMAKE_CURRENT_LIST_DIR}/write_commit.cmake
  BYPRODUCTS ${trunkline_commit_folder}/trunkline_commit.hpp)
