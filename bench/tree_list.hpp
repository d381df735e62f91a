// The papers' synthetic trees.
#pragma once

#include <string>
#include <vector>

#include "synthetic/prefix_tree.hpp"

namespace trunkline {

/// The trees of a file of data/synthetic, in its order; a tree's name is its notation, "1,8,512/32,512,256".
std::vector<PrefixTree> load_tree_list(const std::string& path);

}  // namespace trunkline
