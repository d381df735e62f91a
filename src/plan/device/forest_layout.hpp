// Builds the prefix forest from the tokens that each row shares with its parent row: nodes in depth-first pre-order,
// equal to build_forest()'s.
//
// A row owns the tokens behind those that it shares with its parent row. They are cut where other rows diverge or end,
// and each run between cuts is a node. So the nodes are the distinct pairs (owner, end) of all rows, sorted. A node's
// parent is the node before it of the same owner, or the node at which its owner diverges from the parent row.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/device/arena.hpp"
#include "plan/device/prefix_search.hpp"
#include "plan/device/thread_group.hpp"
#include "trunkline/forest.hpp"

namespace trunkline {

/// The prefix forest of a batch whose slots are its rows; the device's form of Forest.
struct DeviceForest {
  ForestNode* nodes = nullptr;                  ///< [node_count], capacity 2 * rows
  std::int32_t* order = nullptr;                ///< [rows] rows in depth-first order, empty ones last
  std::int32_t* kv_len = nullptr;               ///< [rows]
  std::int32_t* query_begin = nullptr;          ///< [rows + 1] prefix sums of query tokens
  std::int32_t* node = nullptr;                 ///< [rows] the node in which the row ends; -1: the row is empty
  std::uint8_t* tree = nullptr;                 ///< [rows] 1: the row's query tokens are a draft tree
  const std::int32_t* query_parents = nullptr;  ///< the batch's; read for rows with a draft tree
  bool has_trees = false;                       ///< some rows have draft trees
  std::int32_t rows = 0;
  std::int32_t node_count = 0;
  std::int64_t total_tokens = 0;
  std::int64_t distinct_tokens = 0;

  TRUNKLINE_HOST_DEVICE void lay_out(Arena& arena, std::int32_t rows_room) {
    arena.take(nodes, 2 * std::int64_t{rows_room});
    for (std::int32_t** list : {&order, &kv_len, &node}) arena.take(*list, rows_room);
    arena.take(query_begin, std::int64_t{rows_room} + 1);
    arena.take(tree, rows_room);
  }
  TRUNKLINE_HOST_DEVICE std::int32_t queries(std::int32_t row) const { return query_begin[row + 1] - query_begin[row]; }
  /// Returns the tokens of a row's draft tree; 0 if it has none.
  TRUNKLINE_HOST_DEVICE std::int32_t drafts(std::int32_t row) const { return tree[row] != 0 ? queries(row) : 0; }
  /// Returns the rows that end exactly at a node's end, as a range of `order`.
  TRUNKLINE_HOST_DEVICE Range ending_at(std::int32_t index) const {
    const ForestNode& at = nodes[index];
    const bool leaf = at.last == index + 1;
    return {at.requests.begin, leaf ? at.requests.end : nodes[index + 1].requests.begin};
  }
};

class ForestLayout {
 public:
  struct Scratch {
    std::uint64_t* ends = nullptr;   // [2 rows] (owner, end) of each node, ascending
    std::uint64_t* keys = nullptr;   // [2 rows] to be sorted
    std::int32_t* parent = nullptr;  // [2 rows] indexed like `ends`, as the lists below
    std::int32_t* below = nullptr;   // nodes of the subtree
    std::int32_t* offset = nullptr;  // nodes between the parent and the node in pre-order
    std::int32_t* index = nullptr;   // in pre-order

    TRUNKLINE_HOST_DEVICE void lay_out(Arena& arena, std::int32_t rows) {
      const std::int64_t room = 2 * std::int64_t{rows};
      arena.take(ends, room);
      arena.take(keys, room);
      for (std::int32_t** list : {&parent, &below, &offset, &index}) arena.take(*list, room);
    }
  };

  TRUNKLINE_HOST_DEVICE ForestLayout(const RowPrefixes& rows, const Scratch& scratch, DeviceForest& forest)
      : from_(rows), s_(scratch), forest_(forest) {}

  /// Fills nodes, order, node and the counts. \pre forest.rows and forest.kv_len are set
  template <class Group>
  TRUNKLINE_HOST_DEVICE void run(Group& group) {
    find_ends(group);
    find_parents(group);
    find_indices(group);
    write_nodes(group);
    order_rows(group);
    forest_.node_count = nodes_;
    forest_.total_tokens =
        sum(group, forest_.rows, [this](std::int32_t row) { return std::int64_t{from_.kv_len[row]}; });
    forest_.distinct_tokens = sum(
        group, nodes_, [this](std::int32_t i) { return std::int64_t{forest_.nodes[i].end} - forest_.nodes[i].begin; });
  }

 private:
  static constexpr int kRowBits = 17;  // row numbers and indices of nodes, with one spare value

  TRUNKLINE_HOST_DEVICE static std::uint64_t end_key(std::int32_t owner, std::int32_t end) {
    return std::uint64_t{static_cast<std::uint32_t>(owner)} << 32 | static_cast<std::uint32_t>(end);
  }
  TRUNKLINE_HOST_DEVICE std::int32_t owner_of(std::int32_t place) const {
    return static_cast<std::int32_t>(s_.ends[place] >> 32);
  }
  TRUNKLINE_HOST_DEVICE std::int32_t end_of(std::int32_t place) const {
    return static_cast<std::int32_t>(s_.ends[place] & 0xFFFFFFFFu);
  }
  TRUNKLINE_HOST_DEVICE std::int32_t place_of(std::int32_t owner, std::int32_t end) const {
    const std::uint64_t key = end_key(owner, end);
    return partition_point(0, nodes_, [&](std::int32_t i) { return s_.ends[i] < key; });
  }
  TRUNKLINE_HOST_DEVICE bool owns_tokens(std::int32_t row) const { return from_.kv_len[row] > from_.shared[row]; }
  /// Returns the index in `ends` of the node in which a row ends. \param row has tokens
  TRUNKLINE_HOST_DEVICE std::int32_t end_place(std::int32_t row) const {
    return owns_tokens(row) ? place_of(row, from_.kv_len[row]) : place_of(from_.parent[row], from_.shared[row]);
  }
  TRUNKLINE_HOST_DEVICE bool starts_owner(std::int32_t place) const {
    return place == 0 || owner_of(place - 1) != owner_of(place);
  }

  /// Lists the ends of nodes. A row has up to two: its own, and the position in its parent row where it diverges or
  /// ends.
  template <class Group>
  TRUNKLINE_HOST_DEVICE void find_ends(Group& group) {
    const auto is_end = [this](std::int32_t i) {
      const std::int32_t row = i / 2;
      return i % 2 == 0 ? owns_tokens(row) : from_.kv_len[row] > 0 && from_.parent[row] >= 0;
    };
    const std::int32_t count = select_if(group, 2 * forest_.rows, is_end, [&](std::int32_t k, std::int32_t i) {
      const std::int32_t row = i / 2;
      s_.keys[k] = i % 2 == 0 ? end_key(row, from_.kv_len[row]) : end_key(from_.parent[row], from_.shared[row]);
    });
    group.sort(s_.keys, count);
    nodes_ = select_if(
        group, count, [this](std::int32_t i) { return i == 0 || s_.keys[i] != s_.keys[i - 1]; },
        [this](std::int32_t k, std::int32_t i) { s_.ends[k] = s_.keys[i]; });
  }

  template <class Group>
  TRUNKLINE_HOST_DEVICE void find_parents(Group& group) const {
    group.for_each(nodes_, [&](std::int32_t place) {
      const std::int32_t owner = owner_of(place);
      std::int32_t parent = place - 1;
      if (starts_owner(place)) {
        parent = from_.parent[owner] < 0 ? -1 : place_of(from_.parent[owner], from_.shared[owner]);
      }
      s_.parent[place] = parent;
      s_.below[place] = 0;
    });
    group.for_each(nodes_, [&](std::int32_t place) {
      TRUNKLINE_ROLLED
      for (std::int32_t at = place; at >= 0; at = s_.parent[at]) Group::fetch_add(s_.below[at], 1);
    });
  }

  /// Numbers the nodes in pre-order. Siblings are sorted by their first row, which is their owner.
  template <class Group>
  TRUNKLINE_HOST_DEVICE void find_indices(Group& group) const {
    const auto parent_key = [this](std::int32_t place) {
      return std::uint64_t{static_cast<std::uint32_t>(s_.parent[place] + 1)} << (2 * kRowBits);
    };
    group.for_each(nodes_, [&](std::int32_t place) {
      s_.keys[place] = parent_key(place) | std::uint64_t{static_cast<std::uint32_t>(owner_of(place))} << kRowBits |
                       static_cast<std::uint32_t>(place);
    });
    group.sort(s_.keys, nodes_);
    const auto place_at = [this](std::int32_t i) {
      return static_cast<std::int32_t>(s_.keys[i] & ((std::uint64_t{1} << kRowBits) - 1));
    };
    // Nodes in the subtrees of earlier siblings, and of all children of earlier parents; the latter are subtracted
    // again.
    group.exclusive_scan(
        nodes_, [&](std::int32_t i) { return static_cast<std::uint32_t>(s_.below[place_at(i)]); },
        [&](std::int32_t i, std::uint32_t before) { s_.index[i] = static_cast<std::int32_t>(before); });
    group.for_each(nodes_, [&](std::int32_t i) {
      const std::int32_t place = place_at(i);
      const std::uint64_t first_key = parent_key(place);
      const std::int32_t first = partition_point(0, i, [&](std::int32_t k) { return s_.keys[k] < first_key; });
      // Unsigned: the sum over all parents may exceed 32 bits.
      s_.offset[place] = static_cast<std::int32_t>(static_cast<std::uint32_t>(s_.index[i]) -
                                                   static_cast<std::uint32_t>(s_.index[first]));
    });
    group.for_each(nodes_, [&](std::int32_t place) {
      std::int32_t index = -1;
      TRUNKLINE_ROLLED
      for (std::int32_t at = place; at >= 0; at = s_.parent[at]) index += s_.offset[at] + 1;
      s_.index[place] = index;
    });
  }

  template <class Group>
  TRUNKLINE_HOST_DEVICE void write_nodes(Group& group) const {
    group.for_each(nodes_, [&](std::int32_t place) {
      const std::int32_t index = s_.index[place];
      const std::int32_t parent = s_.parent[place];
      ForestNode node;
      node.parent = parent < 0 ? -1 : s_.index[parent];
      node.begin = starts_owner(place) ? from_.shared[owner_of(place)] : end_of(place - 1);
      node.end = end_of(place);
      node.row = owner_of(place);
      node.last = index + s_.below[place];
      TRUNKLINE_ROLLED
      for (std::int32_t at = parent; at >= 0; at = s_.parent[at]) ++node.depth;
      forest_.nodes[index] = node;
    });
  }

  /// Sorts rows by the node in which they end, so that the members of a subtree are one range.
  template <class Group>
  TRUNKLINE_HOST_DEVICE void order_rows(Group& group) const {
    group.for_each(forest_.rows, [&](std::int32_t row) {
      const std::int32_t node = from_.kv_len[row] == 0 ? -1 : s_.index[end_place(row)];
      forest_.node[row] = node;
      s_.keys[row] = std::uint64_t{static_cast<std::uint32_t>(node < 0 ? nodes_ : node)} << kRowBits |
                     static_cast<std::uint32_t>(row);
    });
    group.sort(s_.keys, forest_.rows);
    const auto first_at = [this](std::int32_t node) {
      return partition_point(0, forest_.rows, [&](std::int32_t i) {
        return s_.keys[i] >> kRowBits < std::uint64_t{static_cast<std::uint32_t>(node)};
      });
    };
    group.for_each(max(nodes_, forest_.rows), [&](std::int32_t i) {
      if (i < forest_.rows) {
        forest_.order[i] = static_cast<std::int32_t>(s_.keys[i] & ((std::uint64_t{1} << kRowBits) - 1));
      }
      if (i < nodes_) forest_.nodes[i].requests = {first_at(i), first_at(forest_.nodes[i].last)};
    });
  }

  const RowPrefixes& from_;
  const Scratch& s_;
  DeviceForest& forest_;
  std::int32_t nodes_ = 0;
};

}  // namespace trunkline
