// Files of draft trees, in the form in which Medusa, EAGLE and DeFT publish theirs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trunkline::cli {

/// One tree of a file {"name": [[0], [0, 0], [1], ...], ...} or {"name": {"tree": [...]}, ...}. Each list is a draft,
/// by the ranks of the children on its path from the root; the root, the token that was accepted last, is implied. So t
/// is one more than the lists. Drafts are numbered by depth, then by ranks, as Medusa does.
/// \param file for messages, `file: ...`
/// \return [t] the parents of Batch::query_parents
/// \throws Error(kParse) naming tree, index and value of the first fault.
std::vector<std::int32_t> parse_draft_tree(std::string_view text, const std::string& file, const std::string& name);

/// parse_draft_tree of "FILE:NAME". \throws Error(kIo) when the file cannot be read.
std::vector<std::int32_t> load_draft_tree(const std::string& file_and_name);

}  // namespace trunkline::cli
