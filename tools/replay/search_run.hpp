// One recorded search while it decodes: its branch and prune records as events of a batch.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/sequence_batch.hpp"
#include "synthetic/decoding_tree.hpp"

namespace trunkline::replay {

/// Branches decode side by side, one token in each iteration. A child begins as a fork of its parent where that decoded
/// in the iteration before; else the parent's pages have been kept for it: the first child joins with them, and its
/// siblings fork from that. Iterations in which no branch decodes are skipped.
class SearchRun {
 public:
  /// \param tree outlives the run; node 0 is the prompt, which ends with iteration 0
  explicit SearchRun(const DecodingTree& tree);

  Sequence& prompt() { return nodes_.front(); }
  std::int32_t prompt_tokens() const { return tree_->last[0] - tree_->first[0] + 1; }
  /// Branches that are live at once, at most.
  std::int32_t width() const { return width_; }
  /// Pages that all branches take together, at most, over the whole search.
  std::int64_t page_bound(std::int32_t page_size) const;
  std::int64_t pages_taken() const;

  /// Branches and prunes for the next iteration that has any branch, whose sequences get their next_tokens. The prompt
  /// is in its pages. \return false when there is none, and all pages are given up.
  bool begin_iteration(SequenceBatch& batch);
  std::vector<Sequence>& sequences() { return nodes_; }

 private:
  void begin_node(std::int32_t node, SequenceBatch& batch);
  void end_nodes(SequenceBatch& batch);
  void give_up(std::int32_t node, SequenceBatch& batch);

  const DecodingTree* tree_;
  std::vector<Sequence> nodes_;         // [N]
  std::vector<std::int32_t> children_;  // [N] that have not begun
  std::vector<std::int32_t> by_first_;  // nodes but the prompt, by their first iteration
  std::vector<std::int32_t> live_;      // nodes that decode
  std::size_t next_ = 0;                // of by_first_
  std::int32_t iteration_ = 0;
  std::int32_t width_ = 0;
};

}  // namespace trunkline::replay
