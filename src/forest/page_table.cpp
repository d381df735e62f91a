// The forms of a page table, checked when they are made: whoever holds a table may read any row up to its
// capacity.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <variant>
#include <vector>

#include "base/check.hpp"
#include "trunkline/batch.hpp"

namespace trunkline {
namespace {

constexpr std::int64_t kMaxLength = std::numeric_limits<std::int32_t>::max();

/// Entries of an id array. \throws Error when it is null but not empty.
std::int64_t checked_size(const PageIds& ids, const char* name) {
  return std::visit(
      [name](auto span) {
        if (span.data() == nullptr && !span.empty()) {
          fail(ErrorCode::kInvalidArgument, name, " is null but has ", span.size(), " entries");
        }
        return static_cast<std::int64_t>(span.size());
      },
      ids);
}

void check_page_size(std::int32_t page_size) {
  if (page_size < 1) fail(ErrorCode::kInvalidArgument, "page_size is ", page_size, "; it must be >= 1");
}

void check_width(std::int64_t width) {
  if (width < 0) fail(ErrorCode::kInvalidArgument, "width is ", width, "; it must be >= 0");
}

/// Rows of a CSR table, by its size alone.
std::int32_t csr_rows(std::span<const std::int32_t> indptr) {
  if (indptr.data() == nullptr || indptr.empty()) {
    fail(ErrorCode::kInvalidArgument, "indptr has no entries; it must have rows + 1");
  }
  if (indptr.size() - 1 > static_cast<std::size_t>(kMaxLength)) {
    fail(ErrorCode::kInvalidArgument, "indptr has ", indptr.size(), " entries; at most ", kMaxLength, " rows");
  }
  return static_cast<std::int32_t>(indptr.size() - 1);
}

/// Rows of a CSR table. \throws Error unless indptr starts at 0 and never decreases.
std::int32_t checked_csr_rows(std::span<const std::int32_t> indptr) {
  const std::int32_t rows = csr_rows(indptr);
  if (indptr[0] != 0) fail(ErrorCode::kInvalidArgument, "indptr[0] is ", indptr[0], "; it must be 0");
  for (std::size_t i = 1; i < indptr.size(); ++i) {
    if (indptr[i] < indptr[i - 1]) {
      fail(ErrorCode::kInvalidArgument, "indptr[", i, "] is ", indptr[i], " after ", indptr[i - 1],
           "; it must not decrease");
    }
  }
  return rows;
}

void check_row_map(std::span<const std::int32_t> rows, const PageIds& ids, const char* name, std::int64_t width) {
  const std::int64_t pool_rows = width > 0 ? checked_size(ids, name) / width : 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (rows[r] < 0 || rows[r] >= pool_rows) {
      fail(ErrorCode::kOutOfRange, "rows[", r, "] is ", rows[r], "; ", name, " has ", pool_rows, " rows");
    }
  }
}

}  // namespace

PageTable PageTable::dense(PageIds ids, std::int32_t rows, std::int64_t width, std::int32_t page_size) {
  check_page_size(page_size);
  check_width(width);
  if (rows < 0) fail(ErrorCode::kInvalidArgument, "rows is ", rows, "; it must be >= 0");
  const std::int64_t size = checked_size(ids, "ids");
  // Divides, since rows * width may not fit 64 bits.
  if (rows > 0 && width > size / rows) {
    fail(ErrorCode::kOutOfRange, "ids has ", size, " entries; fewer than ", rows, " rows of width ", width);
  }
  PageTable table;
  table.ids_ = ids;
  table.width_ = width;
  table.rows_ = rows;
  table.page_size_ = page_size;
  return table;
}

PageTable PageTable::csr(std::span<const std::int32_t> indptr, PageIds indices, std::int32_t page_size) {
  check_page_size(page_size);
  const std::int64_t size = checked_size(indices, "indices");
  const std::int32_t rows = checked_csr_rows(indptr);
  if (indptr.back() > size) {
    fail(ErrorCode::kOutOfRange, "indptr[", rows, "] is ", indptr.back(), "; indices has ", size, " entries");
  }
  return csr_on_device(indptr, indices, page_size);
}

PageTable PageTable::csr_on_device(std::span<const std::int32_t> indptr, PageIds indices, std::int32_t page_size) {
  check_page_size(page_size);
  checked_size(indices, "indices");
  PageTable table;
  table.ids_ = indices;
  table.indptr_ = indptr.data();
  table.rows_ = csr_rows(indptr);
  table.page_size_ = page_size;
  return table;
}

PageTable PageTable::token_level(PageIds req_to_token, std::int64_t width, std::span<const std::int32_t> rows) {
  const PageTable table = token_level_on_device(req_to_token, width, rows);
  check_row_map(rows, req_to_token, "req_to_token", width);
  return table;
}

PageTable PageTable::pooled(PageIds ids, std::int64_t width, std::span<const std::int32_t> rows,
                            std::int32_t page_size) {
  check_page_size(page_size);
  PageTable table = mapped(ids, "ids", width, rows);
  check_row_map(rows, ids, "ids", width);
  table.page_size_ = page_size;
  return table;
}

PageTable PageTable::token_level_on_device(PageIds req_to_token, std::int64_t width,
                                           std::span<const std::int32_t> rows) {
  PageTable table = mapped(req_to_token, "req_to_token", width, rows);
  table.page_size_ = 1;
  return table;
}

PageTable PageTable::mapped(PageIds ids, const char* name, std::int64_t width, std::span<const std::int32_t> rows) {
  check_width(width);
  const std::int64_t size = checked_size(ids, name);
  if (rows.data() == nullptr && !rows.empty()) {
    fail(ErrorCode::kInvalidArgument, "rows is null but has ", rows.size(), " entries");
  }
  if (rows.size() > static_cast<std::size_t>(kMaxLength)) {
    fail(ErrorCode::kInvalidArgument, "rows has ", rows.size(), " entries; at most ", kMaxLength);
  }
  if ((width > 0 ? size / width * width : 0) != size) {
    fail(ErrorCode::kInvalidArgument, name, " has ", size, " entries; not a whole number of rows of width ", width);
  }
  PageTable table;
  table.ids_ = ids;
  table.row_map_ = rows.data();
  table.width_ = width;
  table.rows_ = static_cast<std::int32_t>(rows.size());
  return table;
}

std::vector<std::int32_t> lengths_from_csr(std::span<const std::int32_t> indptr,
                                           std::span<const std::int32_t> last_page_len, std::int32_t page_size) {
  check_page_size(page_size);
  const auto rows = static_cast<std::size_t>(checked_csr_rows(indptr));
  if (last_page_len.size() != rows) {
    fail(ErrorCode::kInvalidArgument, "last_page_len has ", last_page_len.size(), " entries; indptr has ", rows,
         " rows");
  }
  if (last_page_len.data() == nullptr && rows > 0) fail(ErrorCode::kInvalidArgument, "last_page_len is null");
  std::vector<std::int32_t> lengths(rows);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::int64_t pages = std::int64_t{indptr[r + 1]} - indptr[r];
    if (pages == 0) continue;
    if (last_page_len[r] < 1 || last_page_len[r] > page_size) {
      fail(ErrorCode::kInvalidArgument, "last_page_len[", r, "] is ", last_page_len[r], "; it must be in [1, ",
           page_size, "]");
    }
    const std::int64_t length = (pages - 1) * page_size + last_page_len[r];
    if (length > kMaxLength) {
      fail(ErrorCode::kInvalidArgument, "row ", r, " has ", length, " tokens by indptr; at most ", kMaxLength);
    }
    lengths[r] = static_cast<std::int32_t>(length);
  }
  return lengths;
}

}  // namespace trunkline
