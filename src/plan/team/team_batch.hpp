// A batch in memory that a planning team reads: page tables and lengths that nobody has checked.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/page_size.hpp"

namespace trunkline {

/// The page table of a batch, in one of the forms of PageTable.
struct TeamTable {
  const void* ids = nullptr;              ///< [entries] int32, or int64 where `wide`
  const std::int32_t* indptr = nullptr;   ///< CSR only, [rows + 1]
  const std::int32_t* row_map = nullptr;  ///< pooled only, [rows]
  std::int64_t width = 0;                 ///< all but CSR: entries of a row
  std::int64_t entries = 0;               ///< ids in all: none beyond is read
  PageSize page_size = 1;
  bool wide = false;
};

struct TeamBatch {
  TeamTable table;
  const std::int32_t* kv_lens = nullptr;      ///< [rows] tokens; 0 is an empty row
  const std::int32_t* query_start = nullptr;  ///< [rows + 1] prefix sums of query tokens; null: one a row
  std::int32_t rows = 0;                      ///< at most kMaxTeamRows
  std::int32_t max_queries = 0;               ///< the most query tokens that query_start may count
  std::int64_t null_page = -1;                ///< an id that is never shared; negative for none
};

/// Rows have 16 bits in keys.
inline constexpr std::int32_t kMaxTeamRows = 65535;

/// A row as the table and its length have it.
struct TeamRow {
  std::int64_t begin = 0;  ///< its first entry
  std::int32_t kv_len = 0;
  bool fits = false;  ///< else it counts as empty: its length is negative, or longer than its entries, or these lie
                      ///< outside of the table
};

/// Entries of a row, whatever its length: none where they would lie outside of the table.
struct TeamEntries {
  std::int64_t begin = 0;
  std::int64_t count = -1;  ///< negative: outside

  TRUNKLINE_HOST_DEVICE static TeamEntries of(const TeamTable& table, std::int32_t row) {
    const std::int64_t first = table.row_map != nullptr ? table.row_map[row] : row;
    const std::int64_t begin = table.indptr != nullptr ? table.indptr[row] : first * table.width;
    const std::int64_t end = table.indptr != nullptr ? table.indptr[row + 1] : begin + table.width;
    if (begin < 0 || begin > end || end > table.entries) return {};
    return {begin, end - begin};
  }
  /// The row with a length.
  TRUNKLINE_HOST_DEVICE TeamRow with(std::int32_t kv_len, PageSize page_size) const {
    if (count < 0 || kv_len < 0 || kv_len > count * page_size) return {0, 0, false};
    return {begin, kv_len, true};
  }
};

TRUNKLINE_HOST_DEVICE inline TeamRow team_row(const TeamBatch& batch, std::int32_t row) {
  const std::int32_t kv_len = batch.kv_lens[row];
  return TeamEntries::of(batch.table, row).with(kv_len, batch.table.page_size);
}

/// What of a batch could not be true. Such rows are planned as if they were empty, or had no query.
struct TeamFaults {
  std::int32_t lengths = 0;        ///< rows whose length or entries do not fit the table; they count as empty
  std::int32_t first_length = -1;  ///< the first such row
  std::int32_t length = 0;         ///< its kv_lens
  std::int32_t queries = 0;        ///< rows whose query_start is wrong; if any is, no row has a query
  std::int32_t first_queries = -1;
  std::int32_t query_start = 0;  ///< the value after the first such row
};

}  // namespace trunkline
