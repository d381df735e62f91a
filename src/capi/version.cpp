#include "trunkline/trunkline.h"
#include "trunkline_commit.hpp"  // written by cmake/write_commit.cmake

int32_t trunkline_abi_version() {
  return TRUNKLINE_ABI_VERSION;
}
const char* trunkline_version() {
  return TRUNKLINE_VERSION;
}
const char* trunkline_commit() {
  return TRUNKLINE_COMMIT;
}
