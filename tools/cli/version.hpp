// Version and commit of this binary.
#pragma once

namespace trunkline::cli {

const char* version();
/// The commit that was built, with "-dirty" when the tree had changes; "unknown" outside a git checkout.
const char* commit();

}  // namespace trunkline::cli
