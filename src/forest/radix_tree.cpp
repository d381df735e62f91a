#include "forest/radix_tree.hpp"

#include <algorithm>
#include <cstddef>

#include "forest/page_run.hpp"

namespace trunkline {

void RadixTree::reserve(std::int32_t slots, const SlotRows& rows) {
  const auto wanted = static_cast<std::size_t>(slots);
  if (wanted <= ends_.size()) return;
  // A forest of B rows has fewer than 2 B nodes; a split comes before what it replaces is gone.
  const std::size_t max_nodes = 2 * wanted + 2;
  nodes_.reserve(max_nodes);
  loose_.reserve(max_nodes);
  row_ends_.reserve(wanted);
  children_.reset(max_nodes);
  ends_.resize(wanted);
  const auto rekey = [&](std::int32_t index) {
    if (node(index).keyed) children_.find_or_add(node(index).parent, first_page(rows, node(index)), index);
  };
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].members > 0) rekey(static_cast<std::int32_t>(i));
  }
}

void RadixTree::insert(const SlotRows& rows, std::int32_t slot) {
  descend(rows, slot, kNone, 0);
}

/// Walks down with a slot that is not attached: it shares the tokens before `token`, which is where `from` ends.
void RadixTree::descend(const SlotRows& rows, std::int32_t slot, std::int32_t from, std::int32_t token) {
  const std::int32_t length = rows.length(slot);
  if (length == 0) return;
  const std::int32_t sharable = rows.sharable(slot);
  std::int32_t at = from;
  while (token < sharable) {
    const std::int32_t id = rows.row(slot)[token / rows.page_size];
    const bool null = is_null(rows, id);
    const std::int32_t child = null ? kNone : children_.find(at, id);
    if (child == kNone) return attach(slot, add_leaf(rows, at, token, slot, !null));
    at = enter(rows, slot, child);
    token = node(at).end;
  }
  if (token < length) at = add_leaf(rows, at, token, slot, false);
  attach(slot, at);
}

/// Makes a slot that shares at least a child's first token a member of what it shares of the child.
std::int32_t RadixTree::enter(const SlotRows& rows, std::int32_t slot, std::int32_t child) {
  const std::int32_t shared = shared_until(rows, slot, node(child));
  if (node(child).members == 1) node(child).end = rows.length(node(child).slot);
  const std::int32_t entered = shared < node(child).end ? split(rows, child, shared) : child;
  ++node(entered).members;
  return entered;
}

/// Where a slot and a child stop sharing tokens. They share all before the child, and its first.
std::int32_t RadixTree::shared_until(const SlotRows& rows, std::int32_t slot, const Node& child) const {
  const std::int32_t child_end = child.members == 1 ? rows.sharable(child.slot) : child.end;
  const std::int32_t limit = std::min(rows.sharable(slot), child_end);
  const std::int32_t first = child.begin / rows.page_size + 1;
  const std::int32_t pages = (limit - 1) / rows.page_size + 1;
  if (first >= pages) return limit;
  const std::int32_t common =
      common_pages(rows.row(slot) + first, rows.row(child.slot) + first, pages - first, rows.null_page);
  return first + common == pages ? limit : (first + common) * rows.page_size;
}

bool RadixTree::is_null(const SlotRows& rows, std::int32_t page) {
  return rows.null_page >= 0 && page == rows.null_page;
}

/// Cuts a node at a token inside it. The lower part keeps the index, so that its children and ends stay true.
/// \return the upper part
std::int32_t RadixTree::split(const SlotRows& rows, std::int32_t index, std::int32_t token) {
  const std::int32_t upper = take_node();
  Node& lower = node(index);
  unlink_child(index);
  node(upper) = {.parent = lower.parent,
                 .begin = lower.begin,
                 .end = token,
                 .slot = lower.slot,
                 .members = lower.members,
                 .keyed = true};
  link_child(lower.parent, upper);
  children_.find_or_add(lower.parent, first_page(rows, lower), upper) = upper;
  lower.parent = upper;
  lower.begin = token;
  link_child(upper, index);
  const bool drafts_alone = lower.members == 1 && token == rows.sharable(lower.slot);
  const std::int32_t id = rows.row(lower.slot)[token / rows.page_size];
  lower.keyed = !drafts_alone && !is_null(rows, id);
  if (lower.keyed) children_.find_or_add(upper, id, index);
  return upper;
}

std::int32_t RadixTree::add_leaf(const SlotRows& rows, std::int32_t parent, std::int32_t begin, std::int32_t slot,
                                 bool keyed) {
  const std::int32_t index = take_node();
  node(index) = {
      .parent = parent, .begin = begin, .end = rows.length(slot), .slot = slot, .members = 1, .keyed = keyed};
  link_child(parent, index);
  if (keyed) children_.find_or_add(parent, first_page(rows, node(index)), index);
  return index;
}

void RadixTree::remove(const SlotRows& rows, std::int32_t slot) {
  const std::int32_t last = end(slot).node;
  if (last == kNone) return;
  detach(slot);
  for (std::int32_t at = last; at != kNone; at = node(at).parent) --node(at).members;
  std::int32_t lowest = last;  // of what is left of the path
  if (node(last).members == 0) {
    lowest = node(last).parent;
    if (node(last).keyed) children_.erase(lowest, first_page(rows, node(last)));
    unlink_child(last);
    free_node(last);
  }
  if (lowest != kNone) lowest = tidy(rows, lowest);
  for (std::int32_t at = lowest; at != kNone; at = node(at).parent) {
    if (node(at).slot != slot) continue;
    node(at).slot = node(at).first_end != kNone ? node(at).first_end : node(node(at).first_child).slot;
  }
}

void RadixTree::grow(const SlotRows& rows, std::int32_t slot) {
  const std::int32_t from = end(slot).node;
  if (from == kNone) return insert(rows, slot);
  detach(slot);
  descend(rows, slot, from, node(from).end);
  tidy(rows, from);
}

bool RadixTree::keeps_form(const SlotRows& rows, std::int32_t slot, std::int32_t length) const {
  const std::int32_t last = end(slot).node;
  if (last == kNone) return length == 0;
  const Node& own = node(last);
  if (own.members > 1 || length <= own.begin) return false;
  const std::int32_t drafts = rows.drafts[slot];
  if (drafts == 0) return true;
  // A node that is found has a token that is no draft; one of drafts alone begins with the first of them.
  const std::int32_t past = length - drafts;
  if (is_null(rows, first_page(rows, own))) return past >= own.begin;
  return own.keyed ? past > own.begin : past == own.begin;
}

std::int32_t RadixTree::shared_tokens(std::int32_t slot) const {
  const std::int32_t last = end(slot).node;
  if (last == kNone) return 0;
  return node(last).members == 1 ? node(last).begin : node(last).end;
}

/// A node in which no slot ends and that has one child is one with it. \return what there is of the two
std::int32_t RadixTree::tidy(const SlotRows& rows, std::int32_t index) {
  const std::int32_t child = node(index).first_child;
  if (node(index).first_end != kNone || child == kNone || node(child).next != kNone) return index;
  const Node& lower = node(child);
  const Node& upper = node(index);
  if (lower.keyed) children_.erase(index, first_page(rows, lower));
  children_.find_or_add(upper.parent, first_page(rows, upper), child) = child;
  unlink_child(child);
  unlink_child(index);
  node(child).begin = upper.begin;
  node(child).parent = upper.parent;
  node(child).keyed = true;  // as all that several slots have shared
  link_child(upper.parent, child);
  free_node(index);
  return child;
}

void RadixTree::attach(std::int32_t slot, std::int32_t index) {
  const std::int32_t next = node(index).first_end;
  end(slot) = {.node = index, .next = next};
  if (next != kNone) end(next).previous = slot;
  node(index).first_end = slot;
}

void RadixTree::detach(std::int32_t slot) {
  const End left = end(slot);
  (left.previous == kNone ? node(left.node).first_end : end(left.previous).next) = left.next;
  if (left.next != kNone) end(left.next).previous = left.previous;
  end(slot) = {};
}

void RadixTree::link_child(std::int32_t parent, std::int32_t index) {
  std::int32_t& first = first_child(parent);
  node(index).previous = kNone;
  node(index).next = first;
  if (first != kNone) node(first).previous = index;
  first = index;
}

void RadixTree::unlink_child(std::int32_t index) {
  const Node& child = node(index);
  (child.previous == kNone ? first_child(child.parent) : node(child.previous).next) = child.next;
  if (child.next != kNone) node(child.next).previous = child.previous;
}

std::int32_t RadixTree::take_node() {
  if (free_ == kNone) {
    nodes_.emplace_back();
    return static_cast<std::int32_t>(nodes_.size()) - 1;
  }
  const std::int32_t index = free_;
  free_ = node(index).next;
  return index;
}

void RadixTree::free_node(std::int32_t index) {
  node(index) = {.next = free_};
  free_ = index;
}

void RadixTree::emit(const SlotRows& rows, std::span<const std::int32_t> slots, Forest& forest) {
  loose_.resize(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& from = nodes_[i];
    const std::int32_t grown = rows.length(from.slot);  // read always: which nodes grow is hard to predict
    loose_[i] = {from.parent, from.begin, from.members == 1 ? grown : from.end, kNone};
  }
  row_ends_.resize(slots.size());
  for (std::size_t row = 0; row < slots.size(); ++row) {
    const std::int32_t last = end(slots[row]).node;
    row_ends_[row] = last;
    for (std::int32_t at = last; at != kNone; at = node(at).parent) {
      std::int32_t& first_row = loose_[static_cast<std::size_t>(at)].row;
      if (first_row != kNone) break;
      first_row = static_cast<std::int32_t>(row);
    }
  }
  order_.emit(loose_, row_ends_, forest);
}

}  // namespace trunkline
