// Which tokens each row of a batch shares with earlier rows: the parent row of each, found by all rows at once.
//
// In each round rows that share a run of tokens and go on with the same page are a group. The first row of a group is
// done; the others are compared with it, and those that go on behind what they share with it form the groups of the
// next round. So each row is compared with one row at a time, and ends with the first row that has all tokens that it
// shares with any.
//
// Rounds: one for each branching at which a row is not on the side of the first row of its group. Comparisons that
// row_diff.hpp has made are not made again: where rows come and go, few rows are compared here.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/device/arena.hpp"
#include "plan/device/device_batch.hpp"
#include "plan/device/page_compare.hpp"
#include "plan/device/row_diff.hpp"
#include "plan/device/thread_group.hpp"

namespace trunkline {

/// By row.
struct RowPrefixes {
  std::int32_t* parent = nullptr;    ///< the first row that has the leading `shared` tokens, an earlier one; -1: none
  std::int32_t* shared = nullptr;
  std::int32_t* kv_len = nullptr;
  std::int32_t* sharable = nullptr;  ///< tokens that others could share
  std::int64_t* next_id = nullptr;   ///< the page of token `shared`, where it has one that could be shared
  // Scratch of the search.
  std::int32_t* open = nullptr;
  std::int32_t* members = nullptr;
  std::int32_t* heads = nullptr;

  TRUNKLINE_HOST_DEVICE void lay_out(Arena& arena, std::int32_t rows) {
    arena.take(next_id, rows);
    for (std::int32_t** list : {&parent, &shared, &kv_len, &sharable, &open, &members, &heads}) arena.take(*list, rows);
  }
};

template <class Id>
class PrefixSearch {
 public:
  /// \param compared whether the diffs' comparisons hold
  TRUNKLINE_HOST_DEVICE PrefixSearch(const DeviceBatch& batch, const Id* ids, const RowDiff* diffs, bool compared,
                                     const RowPrefixes& to)
      : batch_(batch), ids_(ids), diffs_(diffs), compared_(compared), to_(to) {}

  /// Fills all of `to`, whose kv_len and sharable are known.
  template <class Group>
  TRUNKLINE_HOST_DEVICE void run(Group& group) const {
    group.for_each(batch_.rows, [&](std::int32_t row) {
      to_.parent[row] = -1;
      to_.shared[row] = 0;
      to_.next_id[row] = next_id(row);
    });
    std::int32_t count = select_if(
        group, batch_.rows, [&](std::int32_t row) { return may_be_shared(row); },
        [&](std::int32_t k, std::int32_t row) { to_.open[k] = row; });
    while (count > 0) {
      group.for_each_warp(count, [&](std::int32_t i, auto& warp) {
        const std::int32_t head = to_.open[find_head(warp, i)];
        if (warp.rank() == 0) to_.heads[i] = head;
      });
      count = select_if(
          group, count, [&](std::int32_t i) { return to_.heads[i] != to_.open[i]; },
          [&](std::int32_t k, std::int32_t i) { to_.members[k] = i; });
      group.for_each_warp(count, [&](std::int32_t k, auto& warp) {
        const std::int32_t i = to_.members[k];
        compare(warp, to_.open[i], to_.heads[i]);
      });
      // Rows that go on, in rising order, over `heads`, which nobody reads any more.
      count = select_if(
          group, count, [&](std::int32_t k) { return may_be_shared(to_.open[to_.members[k]]); },
          [&](std::int32_t k, std::int32_t i) { to_.heads[k] = to_.open[to_.members[i]]; });
      group.for_each(count, [&](std::int32_t k) { to_.open[k] = to_.heads[k]; });
    }
  }

 private:
  TRUNKLINE_HOST_DEVICE std::int64_t next_id(std::int32_t row) const {
    const std::int32_t shared = to_.shared[row];
    if (to_.sharable[row] <= shared) return -1;
    return ids_[diffs_[row].begin + shared / batch_.table.page_size];
  }
  /// Whether the row has tokens behind those that it shares which another could share, too.
  TRUNKLINE_HOST_DEVICE bool may_be_shared(std::int32_t row) const {
    return to_.sharable[row] > to_.shared[row] && !is_null_page(batch_, to_.next_id[row]);
  }

  /// The index of the first open row of a row's group.
  template <class Warp>
  TRUNKLINE_HOST_DEVICE std::int32_t find_head(Warp& warp, std::int32_t i) const {
    const std::int32_t row = to_.open[i];
    const std::int64_t id = to_.next_id[row];
    const std::int32_t parent = to_.parent[row];
    const std::int32_t shared = to_.shared[row];
    const std::int32_t found = find_first(warp, 0, i, [&](std::int32_t k) {
      const std::int32_t other = to_.open[k];
      const bool same = to_.next_id[other] == id && to_.parent[other] == parent && to_.shared[other] == shared;
      return same ? k : kNotFound;
    });
    return least(found, i);
  }

  template <class Warp>
  TRUNKLINE_HOST_DEVICE void compare(Warp& warp, std::int32_t row, std::int32_t head) const {
    const std::int32_t known = to_.shared[row];
    const RowDiff& diff = diffs_[row];
    std::int32_t shared = diff.shared;
    if (!compared_ || diff.parent != head) {
      shared = shared_tokens(warp, batch_, ids_ + diff.begin, to_.sharable[row], ids_ + diffs_[head].begin,
                             to_.sharable[head], known);
    }
    warp.once([&] {
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

/// Fills `to`, whose kv_len and sharable are known.
template <class Group>
TRUNKLINE_HOST_DEVICE void find_prefixes(Group& group, const DeviceBatch& batch, const RowDiff* diffs, bool compared,
                                         const RowPrefixes& to) {
  with_ids(batch.table, [&](auto* ids) { PrefixSearch(batch, ids, diffs, compared, to).run(group); });
}

}  // namespace trunkline
