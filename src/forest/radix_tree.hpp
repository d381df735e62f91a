// The radix forest of requests that come, go and grow, edited instead of built anew.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "forest/forest_order.hpp"
#include "forest/id_map.hpp"

namespace trunkline {

/// Page tables and lengths by slot, as they are at the moment.
struct SlotRows {
  const std::int32_t* ids = nullptr;      ///< slot s has its pages at ids + s * width
  const std::int32_t* lengths = nullptr;  ///< by slot
  const std::int32_t* drafts = nullptr;   ///< by slot: tokens of its draft tree, which are never shared
  std::int64_t width = 0;
  std::int32_t page_size = 1;
  std::int64_t null_page = -1;

  const std::int32_t* row(std::int32_t slot) const { return ids + slot * width; }
  std::int32_t length(std::int32_t slot) const { return lengths[slot]; }
  /// Tokens that others may share.
  std::int32_t sharable(std::int32_t slot) const {
    const std::int32_t past = lengths[slot] - drafts[slot];
    return past > 0 ? past : 0;
  }
};

/// The nodes that RadixBuilder finds, kept up to date under edits. An edit costs the pages that one request has in
/// common with others, and nothing for the other requests. The growth of a request in a node of its own, which is what
/// decode steps do, needs no edit at all: such a node ends where its request does.
class RadixTree {
 public:
  /// Makes room for slots [0, slots), so that edits take no memory.
  /// \param rows of the slots that are there
  void reserve(std::int32_t slots, const SlotRows& rows);

  /// Adds a slot by its table. It must not be there.
  void insert(const SlotRows& rows, std::int32_t slot);
  /// \param rows still has the table with which the slot came
  void remove(const SlotRows& rows, std::int32_t slot);
  /// Whether the slot has tokens that no other slot has: growth then keeps the form, but where it has drafts.
  bool has_own_node(std::int32_t slot) const {
    const std::int32_t last = end(slot).node;
    return last != kNone && node(last).members == 1;
  }
  /// Whether with `length` tokens instead of those it has, nothing changes but where the slot's own node ends.
  bool keeps_form(const SlotRows& rows, std::int32_t slot, std::int32_t length) const;
  /// After the growth of a slot without drafts that does not keep its form.
  void grow(const SlotRows& rows, std::int32_t slot);
  /// Tokens from the start that the slot shares with others.
  std::int32_t shared_tokens(std::int32_t slot) const;

  /// Fills a forest whose requests are known. \param slots [B] of each row
  void emit(const SlotRows& rows, std::span<const std::int32_t> slots, Forest& forest);

 private:
  static constexpr std::int32_t kNone = -1;

  // Children and ends are linked both ways, so that each leaves in constant time.
  struct Node {
    std::int32_t parent = kNone;
    std::int32_t begin = 0;
    std::int32_t end = 0;      // of a node with several members
    std::int32_t slot = 0;     // a member, through whose table the run is read
    std::int32_t members = 0;  // slots that end in the node or below
    std::int32_t first_child = kNone;
    std::int32_t previous = kNone;  // sibling
    std::int32_t next = kNone;      // sibling; of free nodes, the next free one
    std::int32_t first_end = kNone;
    bool keyed = false;  // found from its parent by the page of its first token
  };
  struct End {
    std::int32_t node = kNone;
    std::int32_t previous = kNone;  // slot that ends in the same node
    std::int32_t next = kNone;
  };

  Node& node(std::int32_t index) { return nodes_[static_cast<std::size_t>(index)]; }
  const Node& node(std::int32_t index) const { return nodes_[static_cast<std::size_t>(index)]; }
  End& end(std::int32_t slot) { return ends_[static_cast<std::size_t>(slot)]; }
  const End& end(std::int32_t slot) const { return ends_[static_cast<std::size_t>(slot)]; }
  std::int32_t& first_child(std::int32_t parent) { return parent == kNone ? first_root_ : node(parent).first_child; }

  void descend(const SlotRows& rows, std::int32_t slot, std::int32_t from, std::int32_t token);
  std::int32_t enter(const SlotRows& rows, std::int32_t slot, std::int32_t child);
  std::int32_t shared_until(const SlotRows& rows, std::int32_t slot, const Node& child) const;
  std::int32_t split(const SlotRows& rows, std::int32_t index, std::int32_t token);
  std::int32_t add_leaf(const SlotRows& rows, std::int32_t parent, std::int32_t begin, std::int32_t slot, bool keyed);
  void attach(std::int32_t slot, std::int32_t index);
  void detach(std::int32_t slot);
  std::int32_t tidy(const SlotRows& rows, std::int32_t index);
  void link_child(std::int32_t parent, std::int32_t index);
  void unlink_child(std::int32_t index);
  static bool is_null(const SlotRows& rows, std::int32_t page);
  static std::int32_t first_page(const SlotRows& rows, const Node& of) {
    return rows.row(of.slot)[of.begin / rows.page_size];
  }
  std::int32_t take_node();
  void free_node(std::int32_t index);

  std::vector<Node> nodes_;
  std::vector<End> ends_;  // by slot
  std::int32_t free_ = kNone;
  std::int32_t first_root_ = kNone;
  IdMap children_;  // (parent, page of the first token) -> node

  std::vector<LooseNode> loose_;        // beside nodes_, while a forest is emitted
  std::vector<std::int32_t> row_ends_;  // [B] likewise
  ForestOrder order_;
};

}  // namespace trunkline
