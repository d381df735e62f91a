// Decode-batch files: one JSON object a line, each a batch of requests at one decode step.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_file.hpp"
#include "synthetic/prefix_tree.hpp"

namespace trunkline::cli {

struct DecodeBatch {
  std::string suite;   ///< the file's name without its ending, or "tree"
  std::string label;   ///< the line in the file, or the tree's notation
  std::string source;  ///< the line's "source" field: where the batch comes from; may be empty
  PrefixTree tree;
};

inline constexpr std::size_t kAllBatches = kAllLines;

/// Reads lines of the form {"nodes": [[parent or -1, tokens], ...], "requests": [end node, ...], "source": "..."};
/// parents come before their nodes, each node is used by some request, other keys are ignored, empty lines are skipped.
/// Optional "drafts": [[-1, parent, ...], ...] has for each request the draft tree on top of its path, as
/// PrefixTree::drafts, or an empty list.
/// \param name for messages, `name:line: ...`
/// \throws Error(kParse) naming line, field, index and value of the first fault; or when there is no batch at all.
std::vector<DecodeBatch> parse_decode_batches(std::string_view text, const std::string& name,
                                              std::size_t limit = kAllBatches);

/// parse_decode_batches of a file. \throws Error(kIo) when it cannot be read.
std::vector<DecodeBatch> load_decode_batches(const std::string& path, std::size_t limit = kAllBatches);

}  // namespace trunkline::cli
