// Finds the parent row of each row of a batch: the earlier row with which it shares most tokens. All rows are searched
// in parallel.
//
// In each round, rows that share a run of tokens and continue with the same page form a group. The first row of a group
// is done; each other row is compared with it, and rows that continue behind their shared tokens form the groups of the
// next round. So each row is compared with one row in a round, and its last comparison is with the first row that has
// all tokens that it shares with any.
//
// Rounds: one for each branching at which a row is not on the side of the first row of its group. Comparisons that
// row_diff.hpp has made are not repeated: if rows join and leave, only a small number is compared here.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/device/arena.hpp"
#include "plan/device/device_batch.hpp"
#include "plan/device/page_compare.hpp"
#include "plan/device/row_diff.hpp"
#include "plan/device/thread_group.hpp"

namespace trunkline {

/// Results of the search, indexed by row.
struct RowPrefixes {
  std::int32_t* parent = nullptr;  ///< the first row, an earlier one, that has the leading `shared` tokens; -1: none
  std::int32_t* shared = nullptr;
  std::int32_t* kv_len = nullptr;
  std::int32_t* sharable = nullptr;  ///< tokens that other rows could share
  std::int64_t* next_id = nullptr;   ///< the page of token `shared`; -1: no token behind `shared` could be shared
  // Scratch of the search.
  std::int32_t* open = nullptr;  ///< rows of a round
  std::int32_t* next_open = nullptr;
  std::int32_t* groups = nullptr;   ///< the slot of each row's group
  std::int32_t* members = nullptr;  ///< indices in `open` of all rows but the first of each group
  std::int32_t* slots = nullptr;    ///< [slot_count] a hash table: the index in `open` of each group's first row
  std::int32_t slot_count = 0;      ///< a power of two

  TRUNKLINE_HOST_DEVICE void lay_out(Arena& arena, std::int32_t rows) {
    arena.take(next_id, rows);
    for (std::int32_t** list : {&parent, &shared, &kv_len, &sharable, &open, &next_open, &groups, &members})
      arena.take(*list, rows);
    slot_count = 1;
    while (slot_count < 2 * rows) slot_count *= 2;
    arena.take(slots, slot_count);
  }
};

template <class Id>
class PrefixSearch {
 public:
  /// \param compared whether the comparisons of `diffs` are valid
  TRUNKLINE_HOST_DEVICE PrefixSearch(const DeviceBatch& batch, const Id* ids, const RowDiff* diffs, bool compared,
                                     const RowPrefixes& to)
      : batch_(batch), ids_(ids), diffs_(diffs), compared_(compared), to_(to) {}

  /// Fills all of `to`. \pre its kv_len and sharable are set
  template <class Group>
  TRUNKLINE_HOST_DEVICE void run(Group& group) const {
    std::int32_t* open = to_.open;
    std::int32_t* next_open = to_.next_open;
    group.for_each(batch_.rows, [&](std::int32_t row) {
      to_.parent[row] = -1;
      to_.shared[row] = 0;
      to_.next_id[row] = next_id(row);
      open[row] = row;
    });
    std::int32_t count = batch_.rows;
    while (count > 0) {
      group.for_each(to_.slot_count, [&](std::int32_t slot) { to_.slots[slot] = kEmpty; });
      group.for_each(count, [&](std::int32_t i) { to_.groups[i] = enter<Group>(open, i); });
      count = select_if(
          group, count, [&](std::int32_t i) { return to_.groups[i] >= 0 && to_.slots[to_.groups[i]] != i; },
          [&](std::int32_t k, std::int32_t i) { to_.members[k] = i; });
      group.for_each_subwarp(count, [&](std::int32_t k, auto& lanes) {
        const std::int32_t i = to_.members[k];
        compare(lanes, open[i], open[to_.slots[to_.groups[i]]]);
        lanes.once([&] { next_open[k] = open[i]; });
      });
      std::int32_t* const done = open;
      open = next_open;
      next_open = done;
    }
  }

 private:
  TRUNKLINE_HOST_DEVICE std::int64_t next_id(std::int32_t row) const {
    const std::int32_t shared = to_.shared[row];
    if (to_.sharable[row] <= shared) return -1;
    return ids_[diffs_[row].begin + shared / batch_.table.page_size];
  }
  /// Whether another row could share tokens of this row behind its shared ones.
  TRUNKLINE_HOST_DEVICE bool may_be_shared(std::int32_t row) const {
    return to_.sharable[row] > to_.shared[row] && !is_null_page(batch_, to_.next_id[row]);
  }

  static constexpr std::int32_t kEmpty = kNotFound;

  TRUNKLINE_HOST_DEVICE bool same_group(std::int32_t a, std::int32_t b) const {
    return to_.next_id[a] == to_.next_id[b] && to_.parent[a] == to_.parent[b] && to_.shared[a] == to_.shared[b];
  }
  /// Computes a multiplicative hash (Knuth, 6.4).
  TRUNKLINE_HOST_DEVICE std::uint32_t hash_of(std::int32_t row) const {
    constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15u;
    std::uint64_t mixed = static_cast<std::uint64_t>(to_.next_id[row]) * kFactor;
    mixed ^=
        std::uint64_t{static_cast<std::uint32_t>(to_.parent[row])} << 32 | static_cast<std::uint32_t>(to_.shared[row]);
    return static_cast<std::uint32_t>((mixed ^ mixed >> 29) * kFactor >> 32);
  }
  /// Enters the i-th open row in the table. Groups are compared by their rows, not by their hash.
  /// \return the slot of its group; -1: no row can share more tokens with it
  template <class Group>
  TRUNKLINE_HOST_DEVICE std::int32_t enter(const std::int32_t* open, std::int32_t i) const {
    const std::uint32_t mask = static_cast<std::uint32_t>(to_.slot_count) - 1;
    const std::int32_t row = open[i];
    if (!may_be_shared(row)) return -1;
    for (std::uint32_t slot = hash_of(row) & mask;; slot = (slot + 1) & mask) {
      const std::int32_t found = Group::compare_exchange(to_.slots[slot], kEmpty, i);
      if (found == kEmpty) return static_cast<std::int32_t>(slot);
      if (!same_group(open[found], row)) continue;
      Group::fetch_min(to_.slots[slot], i);
      return static_cast<std::int32_t>(slot);
    }
  }

  /// Returns the tokens that a row shares with the first row of its group, from the comparisons with parent rows of the
  /// last plan; kNotFound if they do not tell. They do if a row shares more with its parent row than that shares with
  /// its own, and so on up to the first row of the group: the answer is then the last of these numbers.
  TRUNKLINE_HOST_DEVICE std::int32_t known_from_diffs(std::int32_t row, std::int32_t head) const {
    std::int32_t shared = kNotFound;
    TRUNKLINE_ROLLED
    for (std::int32_t at = row; at > head; at = diffs_[at].parent) {
      if (diffs_[at].shared >= shared) return kNotFound;
      shared = diffs_[at].shared;
      if (diffs_[at].parent == head) return shared;
    }
    return kNotFound;
  }

  template <class Lanes>
  TRUNKLINE_HOST_DEVICE void compare(Lanes& lanes, std::int32_t row, std::int32_t head) const {
    const std::int32_t known = to_.shared[row];
    const RowDiff& diff = diffs_[row];
    std::int32_t shared = compared_ ? known_from_diffs(row, head) : kNotFound;
    if (shared == kNotFound) {
      shared = shared_tokens(lanes, batch_, ids_ + diff.begin, to_.sharable[row], ids_ + diffs_[head].begin,
                             to_.sharable[head], known);
    }
    lanes.once([&] {
      to_.parent[row] = head;
      to_.shared[row] = shared;
      to_.next_id[row] = next_id(row);
    });
  }

  const DeviceBatch& batch_;
  const Id* ids_;
  const RowDiff* diffs_;
  bool compared_;
  const RowPrefixes& to_;
};

/// Fills `to`. \pre its kv_len and sharable are set
template <class Group>
TRUNKLINE_HOST_DEVICE void find_prefixes(Group& group, const DeviceBatch& batch, const RowDiff* diffs, bool compared,
                                         const RowPrefixes& to) {
  with_ids(batch.table, [&](auto* ids) { PrefixSearch(batch, ids, diffs, compared, to).run(group); });
}

}  // namespace trunkline
