// Recorded tree searches (DeFT): {"nodes": [[id, parent or -1, tokens, first iteration, last iteration], ...]}. Node 0
// is the prompt.
#include "replay/decoding_tree_file.hpp"
#include "replay/formats/formats.hpp"

namespace trunkline::replay {
namespace {

void check_prompt(const DecodingTree& tree) {
  for (std::size_t node = 0; node < tree.parent.size(); ++node) {
    const bool prompt = node == 0;
    if (prompt ? tree.last[node] != 0 || tree.first[node] > 0 : tree.parent[node] < 0 || tree.first[node] < 1) {
      fail(ErrorCode::kParse, tree.name, ": nodes[", node, "] has parent ", tree.parent[node], " and iterations ",
           tree.first[node], " to ", tree.last[node],
           "; node 0 is the prompt, whose last iteration is 0, and the others branch off it from iteration 1 on");
    }
  }
}

}  // namespace

Trace read_reasoning(std::string_view text, const std::string& name, std::size_t limit) {
  Trace trace;
  trace.trees = parse_decoding_trees(text, name, limit);
  for (const DecodingTree& tree : trace.trees) check_prompt(tree);
  return trace;
}

}  // namespace trunkline::replay
