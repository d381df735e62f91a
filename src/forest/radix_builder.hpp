// Finds which tokens the rows of a batch share, from page ids alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "forest/forest_order.hpp"
#include "forest/id_map.hpp"
#include "trunkline/batch.hpp"
#include "trunkline/forest.hpp"

namespace trunkline {

/// Inserts the rows of a batch one by one into a radix forest of tokens. Keeps its memory between calls.
///
/// A child is found by one hash probe, keyed by its parent and by the page of its first token: a forest of 1,024 roots
/// costs 1,024 probes. Two nodes may hold parts of one page, where a request ends inside it; the later part is then a
/// child keyed by that same page.
///
/// A row with a draft tree is inserted by the tokens before its drafts; those follow in its leaf, which is not found
/// from where they begin.
class RadixBuilder {
 public:
  /// \param batch has passed check_batch
  /// \param requests its rows
  void build(const Batch& batch, std::span<const ForestRequest> requests);

  /// Valid until the next build.
  std::span<const LooseNode> nodes() const { return {nodes_.data(), node_count_}; }
  /// [B] the node that each row ends in; -1 for an empty row.
  std::span<const std::int32_t> end_node() const { return end_node_; }

 private:
  /// Where tokens end, in pages too: a division would cost more than a hash probe.
  struct End {
    std::int32_t token = 0;
    std::int32_t pages = 0;  // that hold the tokens before the end
  };
  struct Row {
    std::int64_t first_id = 0;  // in the table's ids
    End end;                    // of what others may share
    std::int32_t length = 0;    // more than end.token where it has a draft tree
  };

  void prepare(const Batch& batch, std::span<const ForestRequest> requests);
  template <class Id>
  void insert(const Id* ids, std::int32_t row);
  std::int32_t add_drafts(std::int32_t node, std::int32_t row);
  template <class Id>
  End match_last_row(const Id* ids, std::int32_t row);
  template <class Id>
  End shared_until(const Id* a, End a_end, const Id* b, End b_end, std::int32_t first_page) const;
  template <class Id>
  std::int32_t split(const Id* ids, std::int32_t node, End position);
  /// The page of the token at an end, of those that hold the tokens before it the last or the next.
  std::int32_t page_at(End end) const {
    return end.token < std::int64_t{end.pages} * page_size_ ? end.pages - 1 : end.pages;
  }
  bool is_null(std::int64_t id) const { return null_page_ >= 0 && id == null_page_; }
  std::int32_t add_node(const LooseNode& node, End end);

  std::int32_t page_size_ = 1;
  std::int64_t null_page_ = -1;
  std::vector<Row> rows_;
  std::vector<LooseNode> nodes_;  // as many as there may be
  std::vector<End> ends_;         // beside nodes_: of what others may share
  std::size_t node_count_ = 0;
  std::vector<std::int32_t> end_node_;
  std::vector<std::int32_t> path_;  // from a root to the end node of the row inserted last
  std::int32_t last_row_ = -1;      // the row inserted last
  IdMap children_;                  // (parent, page of the first token) -> node
};

}  // namespace trunkline
