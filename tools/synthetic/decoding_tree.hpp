// A recorded tree search, replayed step by step: which branches decode in an iteration, and over how many tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "synthetic/prefix_tree.hpp"

namespace trunkline {

/// N nodes, as branch and prune records leave them (DeFT, appendix A.5). A node decodes one token in each iteration
/// from its first to its last, or none where the last is the one before the first; its children branch off its end;
/// where it has none it is pruned, or done. A prompt's last iteration is 0: decoding begins with iteration 1.
struct DecodingTree {
  std::string name;                  ///< for reports
  std::vector<std::int32_t> parent;  ///< [N] -1 for a root, otherwise smaller than the node's own index
  std::vector<std::int32_t> first;   ///< [N] after the parent's last
  std::vector<std::int32_t> last;    ///< [N] >= first - 1

  std::int32_t size() const { return static_cast<std::int32_t>(parent.size()); }
  /// The last iteration in which any node decodes; 0 when none does.
  std::int32_t iterations() const;
};

/// \throws Error naming node and value where a parent does not come before its node, an iteration before the one it
/// must follow, or a path would be longer than 2^31 - 1 tokens.
void check_decoding_tree(const DecodingTree& tree);

/// A prompt with `branches` suffixes that decode side by side for `iterations` steps.
DecodingTree few_shot_tree(std::int32_t prompt, std::int32_t branches, std::int32_t iterations);

/// The steps of a decoding tree as prefix trees, in memory that is kept between steps.
class TreeReplay {
 public:
  /// \param tree outlives the replay. \throws Error as check_decoding_tree.
  explicit TreeReplay(const DecodingTree& tree);

  /// Iteration `i` >= 1: one request for each node that decodes, in the order of the nodes, over its path with this
  /// step's token; nodes that no such request needs are left out. Empty when no node decodes. The result is overwritten
  /// by the next call.
  const PrefixTree& at(std::int32_t iteration);

 private:
  void mark_needed(std::int32_t iteration);

  const DecodingTree* tree_;
  std::vector<std::int32_t> place_;  // [N] of a node in step_; kUnused or kNeeded until it has one
  PrefixTree step_;
};

/// A draft's token tree (Medusa, EAGLE, SpecInfer) over `past` tokens, as DeFT treats it: each of the t draft tokens is
/// a node of one token, in which one request ends. \param parent [t] -1 for the root, otherwise an earlier token.
PrefixTree token_tree(std::int32_t past, std::span<const std::int32_t> parent);

}  // namespace trunkline
