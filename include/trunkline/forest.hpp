// The prefix forest of a batch: which requests use which runs of tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trunkline/batch.hpp"

namespace trunkline {

/// A maximal run of tokens [begin, end) used by the same set of requests.
struct ForestNode {
  std::int32_t parent = -1;  ///< -1 for a root; otherwise smaller than the node's own index (pre-order)
  std::int32_t begin = 0;    ///< first token position; the parent's end
  std::int32_t end = 0;      ///< one past the last token position
  std::int32_t row = 0;      ///< the batch row of one of the requests, through whose page table the run is read
  Range requests;            ///< the requests that use the run, as a range of Forest::order
  std::int32_t last = 0;     ///< one past the last node of this node's subtree, in pre-order
  std::int32_t depth = 0;    ///< 0 for a root

  std::int32_t tokens() const { return end - begin; }
};

/// The facts of a batch row that a plan needs.
struct ForestRequest {
  std::int32_t slot = 0;
  std::uint32_t generation = 0;
  std::int32_t kv_len = 0;
  std::int32_t query_begin = 0;  ///< the row's first query token in the batch
  std::int32_t queries = 1;      ///< query tokens of this step
  std::int32_t node = -1;        ///< the node that the request ends in, exactly at its end; -1 when kv_len is 0
  bool tree = false;             ///< its query tokens are a draft tree, not a chain
};

/// The radix forest over shared tokens. Token `t` of two requests is shared when both are longer than `t` and all their
/// page ids up to and including its page are equal and not null. The query tokens of a draft tree are never shared, as
/// each request has its own masks for them. Nodes are in depth-first pre-order. In `order`, the requests that end in a
/// node come before those of its children, so the requests of any subtree are one range. Children are in the order of
/// their first row, so the forest is deterministic.
struct Forest {
  std::vector<ForestNode> nodes;
  std::vector<std::int32_t> order;      ///< [B] rows in depth-first order, empty requests last
  std::vector<ForestRequest> requests;  ///< [B] by row
  /// [T] as Batch::query_parents; empty when no request has a draft tree.
  std::vector<std::int32_t> query_parents;
  std::int64_t total_tokens = 0;     ///< sum of the kv_lens: tokens that a one-request-at-a-time kernel reads
  std::int64_t distinct_tokens = 0;  ///< sum of the node lengths: tokens that any kernel must read

  /// The requests that end exactly at a node's end, as a range of `order`.
  Range ending_at(std::int32_t node) const;
  /// The parent of query token `i` of a request; -1 for its first.
  std::int32_t query_parent(const ForestRequest& request, std::int32_t i) const {
    return query_parents.empty() ? i - 1 : query_parents[static_cast<std::size_t>(request.query_begin + i)];
  }
};

/// Builds forests. Keeps its memory between calls, and allocates none once it has seen the largest batch.
class ForestBuilder {
 public:
  ForestBuilder();
  ~ForestBuilder();
  ForestBuilder(ForestBuilder&&) noexcept;
  ForestBuilder& operator=(ForestBuilder&&) noexcept;

  /// The cost grows with the pages that must be compared: an unshared row costs one comparison. The result lives until
  /// the next build. \throws Error as check_batch(batch, ids), which it calls first.
  const Forest& build(const Batch& batch, IdCheck ids = IdCheck::kNone);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The forest of a batch, in memory of its own. \throws Error as check_batch(batch, ids).
Forest build_forest(const Batch& batch, IdCheck ids = IdCheck::kNone);

/// A search tree given directly: node i holds `tokens[i]` tokens after those of `parent[i]` (-1 for a root).
struct ExplicitTree {
  std::span<const std::int32_t> parent;    ///< [N] node indices, in any order; -1 for a root
  std::span<const std::int32_t> tokens;    ///< [N] tokens of each node, >= 0
  std::span<const std::int32_t> end_node;  ///< [B] the node that each request ends in; -1 for an empty request
};

/// The forest of an explicit tree; request r has slot r and one query token. The caller vouches that the page tables
/// given at run agree: at the positions of a node, the tables of all its requests hold the same keys and values. Nodes
/// without tokens, and chains used by the same requests, are folded, so the result has the form of a built forest.
/// \throws Error(kInvalidArgument or kOutOfRange) on a cycle, a parent or end node out of range, a negative length, a
/// path longer than 2^31 - 1 tokens, or a node that no request uses.
Forest build_forest(const ExplicitTree& tree);

}  // namespace trunkline
