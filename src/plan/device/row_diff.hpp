// Plan reuse: what has changed in each row of a batch since the last plan was made.
//
// A plan is reused while the prefix forest is the planned one but for the ends of nodes that a single row is in, whose
// spans are open-ended. Each row is compared by itself, by a thread block, all rows at once:
// - Its leading pages are those of its parent row, as many tokens as planned: then rows that shared tokens still do.
// - The page that follows is the planned one: two rows that diverged from one parent there had different pages.
// - It has grown, by no more than the plan allows, only if no other row ends where it does.
// Pages behind that may change: plans hold no page ids.
//
// Where the plan is made anew, what each row has in common with its parent row need not be compared again
// (prefix_search.hpp).
//
// Cost: two reads of the shared pages, a row's and its parent's, the second mostly from L2: 2 R P bytes for R rows that
// share P bytes of page ids.
#pragma once

#include <cstdint>
#include <limits>

#include "base/host_device.hpp"
#include "plan/device/device_batch.hpp"
#include "plan/device/page_compare.hpp"
#include "plan/device/thread_group.hpp"

namespace trunkline {

/// A row as it was planned.
struct PlannedRow {
  std::int64_t next_id = 0;     ///< the page of token `shared`, where `goes_on`
  std::int32_t kv_len = 0;      ///< a plan reads tokens by position, so it may not shrink
  std::int32_t max_kv_len = 0;  ///< kv_len, where other rows end there too
  std::int32_t parent = -1;     ///< the earlier row that it shares most tokens with, the first such; -1: none
  std::int32_t shared = 0;      ///< those tokens
  std::int32_t queries = 0;
  bool goes_on = false;  ///< it has tokens behind `shared` that another row could share
  bool tree = false;     ///< its query tokens are a draft tree
};

/// The batch as it was planned.
struct PlannedStep {
  std::int32_t rows = -1;   ///< -1: nothing was planned, or nothing that may be reused
  std::int32_t growth = 0;  ///< tokens that rows may have grown by
};

/// A row as it is.
struct RowDiff {
  std::int64_t begin = 0;     ///< its first entry in the table
  std::int32_t kv_len = 0;    ///< 0 where it does not fit the table
  std::int32_t sharable = 0;  ///< tokens that other rows could share: all but a draft tree's
  std::int32_t parent = -1;   ///< the row that it was compared with; -1: none
  std::int32_t shared = 0;    ///< tokens that it has in common with that row
  bool fits = false;
  bool sound_queries = false;
  bool tree = false;
  bool changed = true;  ///< it cannot be read by the last plan
};

/// What is planned, kept from step to step.
struct PlannedRows {
  PlannedStep* step = nullptr;            ///< [1]
  PlannedRow* rows = nullptr;             ///< [rows]
  std::int32_t* query_begin = nullptr;    ///< [rows + 1]
  std::int32_t* query_parents = nullptr;  ///< [queries] of rows with draft trees
};

template <class Id>
class RowComparison {
 public:
  TRUNKLINE_HOST_DEVICE RowComparison(const DeviceBatch& batch, const Id* ids, const PlannedRows& planned)
      : batch_(batch), ids_(ids), planned_(planned) {}

  template <class Group>
  TRUNKLINE_HOST_DEVICE RowDiff compare(Group& group, std::int32_t row) const {
    const bool known = row < planned_.step->rows;
    const PlannedRow planned = known ? planned_.rows[row] : PlannedRow{};
    RowDiff diff = live(group, row);
    // In most batches that share anything all rows share one prefix: a new row is compared with the first.
    diff.parent = known ? planned.parent : row > 0 ? 0 : -1;
    if (diff.parent >= 0) {
      const RowDiff parent = live(group, diff.parent);
      diff.shared =
          shared_tokens(group, batch_, ids_ + diff.begin, diff.sharable, ids_ + parent.begin, parent.sharable);
    }
    diff.changed = !known || !diff.fits || !diff.sound_queries || is_changed(group, row, diff, planned);
    return diff;
  }

 private:
  template <class Group>
  TRUNKLINE_HOST_DEVICE RowDiff live(Group& group, std::int32_t row) const {
    const LiveRow entries = live_row(batch_, row);
    RowDiff diff;
    diff.begin = entries.begin;
    diff.kv_len = entries.kv_len;
    diff.fits = entries.fits;
    diff.sharable = diff.kv_len;
    diff.sound_queries = has_sound_queries(batch_, row);
    if (!diff.sound_queries) return diff;
    const std::int32_t begin = batch_.query_begin(row);
    const std::int32_t end = batch_.query_begin(row + 1);
    const DraftForm form = draft_form(group, batch_, begin, end);
    diff.sound_queries = form != DraftForm::kUnsound;
    diff.tree = form == DraftForm::kTree;
    if (diff.tree) diff.sharable = most(diff.kv_len - (end - begin), 0);
    return diff;
  }

  template <class Group>
  TRUNKLINE_HOST_DEVICE bool is_changed(Group& group, std::int32_t row, const RowDiff& diff,
                                        const PlannedRow& planned) const {
    const bool goes_on = diff.sharable > diff.shared;
    if (diff.shared != planned.shared || goes_on != planned.goes_on) return true;
    if (goes_on && std::int64_t{ids_[diff.begin + diff.shared / batch_.table.page_size]} != planned.next_id)
      return true;
    if (diff.kv_len < planned.kv_len || diff.kv_len > planned.max_kv_len) return true;
    if (diff.kv_len - planned.kv_len > planned_.step->growth) return true;
    const std::int32_t begin = batch_.query_begin(row);
    const std::int32_t queries = batch_.query_begin(row + 1) - begin;
    if (queries != planned.queries || diff.tree != planned.tree) return true;
    if (!diff.tree) return false;
    const std::int32_t* const parents = planned_.query_parents + planned_.query_begin[row];
    return any(group, queries, [&](std::int32_t i) { return parents[i] != batch_.query_parents[begin + i]; });
  }

  const DeviceBatch& batch_;
  const Id* ids_;
  const PlannedRows& planned_;
};

/// A row of a batch against the last plan. By a thread group for each row.
template <class Group>
TRUNKLINE_HOST_DEVICE RowDiff compare_row(Group& group, const DeviceBatch& batch, const PlannedRows& planned,
                                          std::int32_t row) {
  return with_ids(batch.table, [&](auto* ids) { return RowComparison(batch, ids, planned).compare(group, row); });
}

}  // namespace trunkline
