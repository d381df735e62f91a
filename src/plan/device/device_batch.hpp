// A decode batch in memory that the planner can read: page tables, lengths and draft trees, none of them checked.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"

namespace trunkline {

/// Row numbers have 16 bits in sort keys.
inline constexpr std::int32_t kMaxDeviceRows = 65535;

/// The page table of a batch, in one of the forms of PageTable.
struct DeviceTable {
  const void* ids = nullptr;              ///< [entries] int32, or int64 where `wide`
  const std::int32_t* indptr = nullptr;   ///< CSR only, [rows + 1]
  const std::int32_t* row_map = nullptr;  ///< pooled only, [rows]
  std::int64_t width = 0;                 ///< all but CSR: entries of a row
  std::int64_t entries = 0;               ///< ids in the table; the planner reads none beyond
  std::int32_t page_size = 1;
  bool wide = false;
};

struct DeviceBatch {
  DeviceTable table;
  const std::int32_t* kv_lens = nullptr;        ///< [rows] tokens; 0 is an empty row
  const std::int32_t* query_start = nullptr;    ///< [rows + 1] prefix sums of query tokens; null: one a row
  const std::int32_t* query_parents = nullptr;  ///< [queries] draft trees, as Batch::query_parents; null: chains
  std::int32_t rows = 0;                        ///< at most kMaxDeviceRows
  std::int32_t max_queries = 0;                 ///< the maximum of query_start
  std::int64_t null_page = -1;                  ///< an id that is never shared; negative for none

  TRUNKLINE_HOST_DEVICE std::int32_t query_begin(std::int32_t row) const {
    return query_start == nullptr ? row : query_start[row];
  }
};

/// A row: its first entry in the table, and its length.
struct LiveRow {
  std::int64_t begin = 0;   ///< its first entry
  std::int32_t kv_len = 0;  ///< 0 if the row does not fit the table
  bool fits = false;        ///< false: the length is negative or longer than its entries in the table
};

TRUNKLINE_HOST_DEVICE inline LiveRow live_row(const DeviceBatch& batch, std::int32_t row) {
  const DeviceTable& table = batch.table;
  const std::int64_t first = table.row_map != nullptr ? table.row_map[row] : row;
  const std::int64_t begin = table.indptr != nullptr ? table.indptr[row] : first * table.width;
  const std::int64_t end = table.indptr != nullptr ? table.indptr[row + 1] : begin + table.width;
  const std::int32_t kv_len = batch.kv_lens[row];
  if (begin < 0 || begin > end || end > table.entries) return {};
  if (kv_len < 0 || kv_len > (end - begin) * table.page_size) return {};
  return {begin, kv_len, true};
}

/// Whether a row's range of query tokens is ordered, at most max_queries and, if the row has tokens, no longer than it.
TRUNKLINE_HOST_DEVICE inline bool has_sound_queries(const DeviceBatch& batch, std::int32_t row) {
  if (batch.query_start == nullptr) return true;
  const std::int32_t begin = batch.query_start[row];
  const std::int32_t end = batch.query_start[row + 1];
  const std::int32_t kv_len = batch.kv_lens[row];
  if (row == 0 && begin != 0) return false;
  return begin >= 0 && begin <= end && end <= batch.max_queries && (kv_len <= 0 || end - begin <= kv_len);
}

/// The shape of the query tokens of a row.
enum class DraftForm : std::uint8_t {
  kChain,  ///< the parent of each token is the one before it
  kTree,
  kUnsound,  ///< a parent is not an earlier token of the row
};

/// \param begin, end the row's query tokens, which are sound
template <class Group>
TRUNKLINE_HOST_DEVICE DraftForm draft_form(Group& group, const DeviceBatch& batch, std::int32_t begin,
                                           std::int32_t end) {
  if (batch.query_parents == nullptr) return DraftForm::kChain;
  const std::int32_t form = group.reduce(
      end - begin, 0,
      [&](std::int32_t i) {
        const std::int32_t parent = batch.query_parents[begin + i];
        if (parent == i - 1) return static_cast<std::int32_t>(DraftForm::kChain);
        const bool sound = parent >= 0 && parent < i;
        return static_cast<std::int32_t>(sound ? DraftForm::kTree : DraftForm::kUnsound);
      },
      [](std::int32_t a, std::int32_t b) { return max(a, b); });
  return static_cast<DraftForm>(form);
}

/// Faults of a batch. The planner treats a row with a faulty length as empty, and rows without sound queries as having
/// none.
struct BatchFaults {
  std::int32_t lengths = 0;        ///< rows whose length does not fit their entries in the table; they count as empty
  std::int32_t first_length = -1;  ///< the first such row
  std::int32_t length = 0;         ///< its kv_lens
  std::int32_t queries = 0;        ///< rows whose query_start or query_parents are wrong; if any is, no row has a query
  std::int32_t first_queries = -1;
  std::int32_t query_start = 0;  ///< query_start after the first such row
};

/// Calls f with the table's ids in their own type.
template <class F>
TRUNKLINE_HOST_DEVICE auto with_ids(const DeviceTable& table, F f) {
  return table.wide ? f(static_cast<const std::int64_t*>(table.ids)) : f(static_cast<const std::int32_t*>(table.ids));
}

}  // namespace trunkline
