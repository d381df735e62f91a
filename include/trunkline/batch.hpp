// A decode batch as engines hold it: page tables, lengths, and the request of each row.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "trunkline/types.hpp"

namespace trunkline {

/// Page ids as the engine has them: 32-bit or 64-bit integers.
using PageIds = std::variant<std::span<const std::int32_t>, std::span<const std::int64_t>>;

/// The page table of a batch: for each row, the ids of the pages that hold its tokens, in order.
/// Token `t` of a row is in page `ids[t / page_size]` at page offset `t % page_size`.
/// The table is a view: the caller keeps the memory alive. Entries past a row's length are never read.
///
/// The forms that engines use differ only in where a row begins, so one type has them all. The functions that make a
/// table throw Error(kInvalidArgument) or Error(kOutOfRange) naming the argument when sizes, `indptr` or `rows` cannot
/// be right.
class PageTable {
 public:
  PageTable() = default;

  /// vLLM, FlashAttention: `block_table [rows, width]`, row-major.
  static PageTable dense(PageIds ids, std::int32_t rows, std::int64_t width, std::int32_t page_size);
  /// FlashInfer: row r is `indices[indptr[r]]` to `indices[indptr[r + 1] - 1]`; `indptr [rows + 1]` starts at 0.
  static PageTable csr(std::span<const std::int32_t> indptr, PageIds indices, std::int32_t page_size);
  /// SGLang: `req_to_token [pool_rows, width]`, one id for each token (page size 1); batch row r is pool row `rows[r]`.
  static PageTable token_level(PageIds req_to_token, std::int64_t width, std::span<const std::int32_t> rows);
  /// A pool of rows, `ids [pool_rows, width]`; batch row r is pool row `rows[r]`. Pool rows need not move when batch
  /// rows do.
  static PageTable pooled(PageIds ids, std::int64_t width, std::span<const std::int32_t> rows, std::int32_t page_size);
  /// csr() and token_level() in device memory, which the host does not read: it checks sizes alone, and kernels keep to
  /// the extent of the ids. dense() makes a dense table in device memory, too.
  static PageTable csr_on_device(std::span<const std::int32_t> indptr, PageIds indices, std::int32_t page_size);
  static PageTable token_level_on_device(PageIds req_to_token, std::int64_t width, std::span<const std::int32_t> rows);

  std::int32_t rows() const { return rows_; }
  std::int32_t page_size() const { return page_size_; }
  /// Index in ids of a row's first entry.
  std::int64_t row_begin(std::int32_t row) const {
    if (indptr_ != nullptr) return indptr_[row];
    return (row_map_ != nullptr ? row_map_[row] : row) * width_;
  }
  /// The number of entries that a row has room for.
  std::int64_t row_capacity(std::int32_t row) const {
    return indptr_ != nullptr ? std::int64_t{indptr_[row + 1]} - indptr_[row] : width_;
  }
  const PageIds& ids() const { return ids_; }
  /// [rows + 1] of a CSR table; null for the other forms.
  const std::int32_t* indptr() const { return indptr_; }
  /// [rows] of a token-level or pooled table; null for the other forms.
  const std::int32_t* row_map() const { return row_map_; }
  /// Entries of each row, for all forms but CSR.
  std::int64_t width() const { return width_; }
  /// The page id at an index of a row, as 64 bits. The table must be in host memory.
  std::int64_t id(std::int32_t row, std::int64_t page) const {
    const auto at = static_cast<std::size_t>(row_begin(row) + page);
    return std::visit([at](auto ids) { return std::int64_t{ids[at]}; }, ids_);
  }

 private:
  static PageTable mapped(PageIds ids, const char* name, std::int64_t width, std::span<const std::int32_t> rows);

  PageIds ids_;
  const std::int32_t* indptr_ = nullptr;   // CSR only, [rows + 1]
  const std::int32_t* row_map_ = nullptr;  // token-level and pooled, [rows]
  std::int64_t width_ = 0;                 // all but CSR
  std::int32_t rows_ = 0;
  std::int32_t page_size_ = 0;
};

/// Lengths in tokens from FlashInfer's form: row r has `indptr[r + 1] - indptr[r]` pages, and `last_page_len[r]`, in
/// [1, page_size], tokens in the last of them. It may be anything where row r has no page. \throws
/// Error(kInvalidArgument) with the row and value where indptr decreases or last_page_len is out of range.
std::vector<std::int32_t> lengths_from_csr(std::span<const std::int32_t> indptr,
                                           std::span<const std::int32_t> last_page_len, std::int32_t page_size);

/// One decode step of B requests. A view: the caller keeps the memory alive.
struct Batch {
  PageTable pages;
  /// [B] tokens of each request in the cache, those of this step included. 0: an empty request.
  std::span<const std::int32_t> kv_lens;
  /// [B + 1] prefix sums of the query tokens of each row; empty means one query token for each row.
  /// Query token i of a row with n of them is at position `kv_len - n + i` and attends to no later token.
  std::span<const std::int32_t> query_start;
  /// [T] draft trees (DeFT, Medusa, EAGLE): for each query token the index of its parent among the query tokens of its
  /// row; -1 for the root, which is token 0. Parents come before their children. A query token then attends to the
  /// past (the row's tokens before its query tokens), its ancestors, and itself. Empty means chains: token i follows
  /// token i - 1.
  std::span<const std::int32_t> query_parents;
  /// [B] the slot of each row: a number that a request keeps while it lives; empty means slot = row.
  std::span<const std::int32_t> slots;
  /// [B] the generation of each row's slot, which grows when the slot is reused; empty means 0.
  std::span<const std::uint32_t> generations;
  /// Pages in the pool; ids must be in [0, num_pages).
  std::int64_t num_pages = 0;
  /// A page id of the pool that stands for "no page" and is never shared; negative for none. vLLM uses 0.
  std::int64_t null_page = -1;

  std::int32_t rows() const { return static_cast<std::int32_t>(kv_lens.size()); }
  std::int32_t slot(std::int32_t row) const { return slots.empty() ? row : slots[static_cast<std::size_t>(row)]; }
  std::uint32_t generation(std::int32_t row) const {
    return generations.empty() ? 0 : generations[static_cast<std::size_t>(row)];
  }
  std::int32_t query_begin(std::int32_t row) const {
    return query_start.empty() ? row : query_start[static_cast<std::size_t>(row)];
  }
  std::int32_t query_count(std::int32_t row) const { return query_begin(row + 1) - query_begin(row); }
  /// The parent of query token `i` of a row; -1 for its first.
  std::int32_t query_parent(std::int32_t row, std::int32_t i) const {
    return query_parents.empty() ? i - 1 : query_parents[static_cast<std::size_t>(query_begin(row) + i)];
  }
  /// T, the number of query tokens of the whole batch.
  std::int32_t total_queries() const { return query_begin(rows()); }
};

/// Whether page ids are checked against Batch::num_pages.
enum class IdCheck {
  kNone,      ///< trust the ids: only those are read that must be compared
  kAllPages,  ///< check every id of every row against num_pages
};

/// Checks sizes, lengths, slots, query_start, query_parents, null_page unless num_pages is 0, and with kAllPages every
/// page id that a row uses. \throws Error(kInvalidArgument or kOutOfRange) naming the member, the row, and the value.
void check_batch(const Batch& batch, IdCheck ids);

/// One more than the largest page id that a row uses: a value for Batch::num_pages where the cache's size is not known.
/// Reads every id that is used; does not read `batch.num_pages`. \throws Error as check_batch; Error(kOutOfRange) for
/// an id that is negative, or 2^31 - 1 or more.
std::int64_t pages_used(const Batch& batch);

}  // namespace trunkline
