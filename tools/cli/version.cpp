#include "cli/version.hpp"

#include "trunkline_commit.hpp"  // written by cmake/write_commit.cmake

namespace trunkline::cli {

const char* version() {
  return TRUNKLINE_VERSION;
}
const char* commit() {
  return TRUNKLINE_COMMIT;
}

}  // namespace trunkline::cli
