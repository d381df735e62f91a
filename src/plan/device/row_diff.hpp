// Plan reuse: compares each row of a batch with the last plan.
//
// A plan is reused while the prefix forest is the planned one. Only a node of a single row may end elsewhere: its span
// is open-ended. A thread block compares each row, all rows in parallel. A row is unchanged if
// - it shares as many leading tokens with its parent row as planned: then rows that shared tokens still do;
// - the page that follows is the planned one: two rows that diverged from one parent row there had different pages;
// - it has grown by no more than the plan allows, and not at all if another row ends where it does.
// Later pages may change: plans hold no page ids.
//
// A new plan takes the tokens that each row shares with its parent row from this comparison (prefix_search.hpp).
//
// Cost: two reads of the shared pages, a row's and its parent row's, the second mostly from L2: 2 R P bytes for R rows
// that share P bytes of page ids.
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
  std::int64_t next_id = 0;     ///< the page of token `shared`, if `goes_on`
  std::int32_t kv_len = 0;      ///< a plan reads tokens by position, so that a row may not shrink
  std::int32_t max_kv_len = 0;  ///< kv_len if another row ends there too
  std::int32_t parent = -1;     ///< the first of the earlier rows that share most tokens with it; -1: none
  std::int32_t shared = 0;      ///< tokens that it shares with its parent row
  std::int32_t queries = 0;
  bool goes_on = false;  ///< another row could share tokens of it behind `shared`
  bool tree = false;     ///< its query tokens are a draft tree
};

/// The batch as it was planned.
struct PlannedStep {
  std::int32_t rows = -1;   ///< -1: there is no plan that may be reused
  std::int32_t growth = 0;  ///< tokens by which rows may grow
};

/// A row of the present batch, compared with the plan.
struct RowDiff {
  std::int64_t begin = 0;     ///< its first entry in the table
  std::int32_t kv_len = 0;    ///< 0 if it does not fit the table
  std::int32_t sharable = 0;  ///< tokens that other rows could share: all but those of a draft tree
  std::int32_t parent = -1;   ///< the row with which it was compared; -1: none
  std::int32_t shared = 0;    ///< tokens that it shares with that row
  bool fits = false;
  bool sound_queries = false;
  bool tree = false;
  bool changed = true;  ///< the last plan cannot be reused for it
};

/// The planned rows, which persist between steps.
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
    // In most batches with shared tokens all rows share one prefix: a new row is compared with the first row.
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
    if (diff.tree) diff.sharable = max(diff.kv_len - (end - begin), 0);
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

/// Compares a row of a batch with the last plan. One thread group for each row.
template <class Group>
TRUNKLINE_HOST_DEVICE RowDiff compare_row(Group& group, const DeviceBatch& batch, const PlannedRows& planned,
                                          std::int32_t row) {
  return with_ids(batch.table, [&](auto* ids) { return RowComparison(batch, ids, planned).compare(group, row); });
}

}  // namespace trunkline
