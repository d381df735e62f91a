// `trunkline tune --tiles`: the tiles that a GPU's limits allow, beside those that PAT released.
#pragma once

#include <iosfwd>

#include "trunkline/machine.hpp"

namespace trunkline::cli {

/// Every tile with its numbers, then each difference from PAT's sets in words.
/// \throws Error as solve_tiles.
void print_tiles(std::ostream& out, const MachineProfile& profile);

}  // namespace trunkline::cli
