// The state of a SequenceTree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "trunkline/runtime/sequence_tree.hpp"

namespace trunkline {

struct SequenceTree::State {
  struct Node {
    std::int32_t parent = -1;
    std::int32_t first_child = -1;
    std::int32_t next_sibling = -1;
    NodeState state = NodeState::kLeaf;
    std::int32_t begin = 0;
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> draft_tokens;
    std::vector<std::int32_t> draft_parents;
    bool drafts_computed = false;        // the drafts are at the end of the sequence's KV
    std::optional<SequenceId> sequence;  // the KV that it holds
    std::optional<RequestId> request;    // its row in the batch
    /// From this index on, the row's pages may be others than the sequence's.
    std::int32_t changed_page = std::numeric_limits<std::int32_t>::max();
    std::vector<std::byte> saved;  // KV of its first saved_tokens tokens; empty without a store
    std::int32_t saved_tokens = 0;
    std::uint64_t checked = 0;  // number of the last step that had it
    double score = 0;
    std::int64_t user_data = 0;

    std::int32_t end() const { return begin + static_cast<std::int32_t>(tokens.size()); }
    std::int32_t drafts() const { return static_cast<std::int32_t>(draft_tokens.size()); }
  };

  State(const SequenceTreeOptions& options, KvStore* store, std::shared_ptr<LiveBatch> live);

  Node& at(std::int32_t index) { return nodes[static_cast<std::size_t>(index)]; }
  const Node& at(std::int32_t index) const { return nodes[static_cast<std::size_t>(index)]; }
  /// \throws Error(kOutOfRange) for a node of another tree
  std::int32_t index_of(NodeId id, const char* name = "node") const;
  /// \throws Error as index_of; Error(kStale) for a node that is no leaf
  std::int32_t leaf_of(NodeId id, const char* name = "leaf") const;
  NodeId id_of(std::int32_t index) const { return {index, tag}; }

  /// Tokens of the sequence that have KV, without drafts.
  std::int32_t kv_len(const Node& node) const;
  /// A node at or below `index` that holds KV of all of `index`'s tokens that have any; -1 without one.
  std::int32_t holder_below(std::int32_t index) const;
  /// Tokens [begin, end) of a sequence, into `to`.
  void read_tokens(std::int32_t index, std::int32_t begin, std::int32_t end, std::int32_t* to) const;
  std::vector<std::int32_t> path_tokens(std::int32_t index, std::int32_t end) const;
  std::int64_t slot_of(SequenceId sequence, std::int32_t token) const;

  std::int32_t add_node(std::int32_t parent, std::int32_t begin);
  void leave_batch(Node& node) noexcept;
  /// Frees what the node holds. Takes no memory.
  void release(Node& node) noexcept;
  void prune_below(std::int32_t index) noexcept;

  /// Fills `appends`. \throws Error before anything is changed
  void check_step(std::span<const NodeId> leaves, std::int32_t max_queries);
  /// Fills `coming` but for slots and copies, and reserves these.
  void lay_out_step(std::span<const NodeId> leaves);
  /// Gives the batch the rows, pages, lengths and queries of the step.
  void edit_batch();
  void lengthen_rows();
  void join_rows();
  void order_rows();
  std::span<const std::int32_t> parents_of(std::size_t row);

  SequenceTreeOptions options;
  KvManager kv;
  KvStore* store;
  std::shared_ptr<LiveBatch> live;
  std::uint32_t tag;
  std::vector<Node> nodes;
  std::uint64_t steps = 0;

  TreeStep last;
  TreeStep coming;                      // the step that begins
  std::vector<SequenceAppend> appends;  // of the step
  std::vector<std::int32_t> row_nodes;  // [rows] node index of each row of the batch
  std::vector<std::int32_t> kv_lens;    // these lists are used within a step alone
  std::vector<std::int32_t> page_indptr;
  std::vector<std::int32_t> page_ids;
  std::vector<std::int32_t> query_parents;
  std::vector<TokenMove> moves;
  RestoredKv restored;
  std::vector<std::int32_t> tree_parent;  // of explicit_tree()
  std::vector<std::int32_t> tree_tokens;
  std::vector<std::int32_t> tree_end;
};

}  // namespace trunkline
