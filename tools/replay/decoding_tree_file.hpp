// Files of recorded tree searches: one JSON object a line, each a tree of branches.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/text_file.hpp"
#include "synthetic/decoding_tree.hpp"

namespace trunkline::replay {

/// Reads lines of the form {"nodes": [[id, parent or -1, tokens, first iteration, last iteration], ...]}; ids count
/// from 0, tokens are last - first + 1, other keys are ignored, empty lines are skipped. \param name for messages,
/// `name:line: ...` \throws Error(kParse) naming line, node and value of the first fault; or when there is no tree at
/// all.
std::vector<DecodingTree> parse_decoding_trees(std::string_view text, const std::string& name,
                                               std::size_t limit = kAllLines);

/// parse_decoding_trees of a file. \throws Error(kIo) when it cannot be read.
std::vector<DecodingTree> load_decoding_trees(const std::string& path, std::size_t limit = kAllLines);

}  // namespace trunkline::replay
