// The state of a LiveBatch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "forest/radix_tree.hpp"
#include "live/page_mirror.hpp"
#include "trunkline/live.hpp"

namespace trunkline {

/// A request's query tokens, checked: what NewRequest and set_queries give.
struct QueryTokens {
  std::int32_t count = 1;
  std::span<const std::int32_t> parents;  // of a draft tree; empty for a chain

  std::int32_t drafts() const { return parents.empty() ? 0 : count; }
};

struct LiveBatchState {
  explicit LiveBatchState(const LiveBatchOptions& given);

  std::int32_t rows() const { return static_cast<std::int32_t>(slots.size()); }
  std::int32_t slot_of(RequestId request) const;
  SlotRows table() const;
  Batch view() const;

  void make_room(std::int32_t row_count, std::int64_t page_count);
  void make_query_room(std::int32_t slot, const QueryTokens& tokens);
  /// The slot that the next request gets.
  std::int32_t next_slot() const { return free_slots.empty() ? used_slots : free_slots.back(); }
  RequestId add_row(std::int32_t kv_len, const QueryTokens& tokens);
  void remove_row(std::int32_t row);
  void set_length(std::int32_t slot, std::int32_t kv_len);
  void set_query_tokens(std::int32_t slot, const QueryTokens& tokens);
  void list_queries();
  /// Edits a slot so that the tree may have to find it anew. \return whether it shares other tokens than before
  template <class Edit>
  bool relocate(std::int32_t slot, Edit edit);
  /// Other tokens are shared through no growth, or other queries are brought.
  void mark_changed(std::int32_t slot) {
    ++sharing;
    changed_at[static_cast<std::size_t>(slot)] = ++changes;
  }
  bool lengthen(std::int32_t slot, std::int32_t kv_len);
  const Forest& present_forest();
  void stretch_forest();

  LiveBatchOptions options;
  PageMirror pages;
  RadixTree tree;

  // By slot. All have room for the same number of slots, of which those from used_slots on have had no request yet.
  std::vector<std::uint32_t> generation_of;
  std::vector<std::int32_t> row_of;  // -1: free
  std::vector<std::int32_t> lengths;
  std::vector<std::int32_t> queries;
  std::vector<std::int32_t> drafts;                // as queries in requests with a draft tree, 0 in others
  std::vector<std::vector<std::int32_t>> parents;  // of draft trees
  // The value of `changes` when the request last stopped sharing what it did, or brought other queries.
  std::vector<std::uint64_t> changed_at;
  std::vector<std::int32_t> free_slots;
  std::int32_t used_slots = 0;

  // By row.
  std::vector<std::int32_t> slots;
  std::vector<std::uint32_t> generations;
  std::vector<std::int32_t> kv_lens;
  std::vector<std::int32_t> query_start;    // empty where all rows bring one query token
  std::vector<std::int32_t> query_parents;  // empty without draft trees
  std::vector<std::int32_t> scratch;
  std::int64_t total_queries = 0;
  std::int32_t rows_of_several = 0;  // rows that bring not one query token
  std::int32_t rows_of_trees = 0;

  Forest forest;
  bool form_stale = true;  // the forest lacks more than lengths
  bool lengths_stale = true;
  std::uint64_t sharing = 0;
  std::uint64_t truncations = 0;
  std::uint64_t changes = 0;
};

template <class Edit>
bool LiveBatchState::relocate(std::int32_t slot, Edit edit) {
  const std::int32_t before = tree.shared_tokens(slot);
  tree.remove(table(), slot);
  edit();
  tree.insert(table(), slot);
  form_stale = true;
  return tree.shared_tokens(slot) != before;
}

}  // namespace trunkline
