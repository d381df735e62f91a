// The policies as the program shows them, from the library's table.
#pragma once

#include <string>
#include <vector>

#include "trunkline/plan.hpp"

namespace trunkline::cli {

/// The policies that pack, in the table's order: all but `auto`, which chooses among them.
std::vector<Policy> packing_policies();

/// Every policy's name, for help texts: "flat, node, profit, auto".
std::string policy_names();

}  // namespace trunkline::cli
