// A decode batch as engines hold it: page tables, lengths, and which request sits in which row.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "trunkline/types.hpp"

namespace trunkline {

/// Page ids as the engine has them.
using PageIds = std::variant<std::span<const std::int32_t>, std::span<const std::int64_t>>;

/// The page table of a batch: for each row, the ids of the pages that hold its tokens, in order.
/// Token `t` of a row lives in page `ids[t / page_size]`, place `t % page_size`.
/// A view: the caller keeps the memory alive. Entries past a row's length are never read.
///
/// The forms that engines use differ only in where a row begins, so they are one type here.
class PageTable {
 public:
  PageTable() = default;

  /// vLLM, FlashAttention: `block_table [rows, width]`, row-major.
  static PageTable dense(PageIds ids, std::int32_t rows, std::int64_t width, std::int32_t page_size);
  /// FlashInfer: `indices`, with row r at `indptr[r] .. indptr[r + 1]`; `indptr [rows + 1]`, starting at 0.
  static PageTable csr(std::span<const std::int32_t> indptr, PageIds indices, std::int32_t page_size);
  /// SGLang: `req_to_token [pool_rows, width]`, one id a token (page size 1); batch row r is pool row `rows[r]`.
  static PageTable token_level(PageIds req_to_token, std::int64_t width, std::span<const std::int32_t> rows);
  /// A pool of rows, `ids [pool_rows, width]`; batch row r is pool row `rows[r]`, which need not move when rows do.
  static PageTable pooled(PageIds ids, std::int64_t width, std::span<const std::int32_t> rows, std::int32_t page_size);
  /// csr and token_level in device memory, of which the host checks sizes alone; kernels keep to the ids' extent. A
  /// dense table in device memory is made by dense().
  static PageTable csr_on_device(std::span<const std::int32_t> indptr, PageIds indices, std::int32_t page_size);
  static PageTable token_level_on_device(PageIds req_to_token, std::int64_t width, std::span<const std::int32_t> rows);

  std::int32_t rows() const { return rows_; }
  std::int32_t page_size() const { return page_size_; }
  /// Offset in ids of a row's first entry.
  std::int64_t row_begin(std::int32_t row) const {
    if (indptr_ != nullptr) return indptr_[row];
    return (row_map_ != nullptr ? row_map_[row] : row) * width_;
  }
  /// Entries that a row has room for.
  std::int64_t row_capacity(std::int32_t row) const {
    return indptr_ != nullptr ? std::int64_t{indptr_[row + 1]} - indptr_[row] : width_;
  }
  const PageIds& ids() const { return ids_; }
  /// What tells the forms apart, for code that finds rows elsewhere: null but for CSR, null but for token-level and
  /// pooled.
  const std::int32_t* indptr() const { return indptr_; }
  const std::int32_t* row_map() const { return row_map_; }
  std::int64_t width() const { return width_; }
  /// The id at a position of a row, widened.
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

/// Lengths in tokens from FlashInfer's form. `last_page_len[r]` is in [1, page_size], or anything where row r has no
/// page. \throws Error with the row and value where indptr decreases or last_page_len is out of range.
std::vector<std::int32_t> lengths_from_csr(std::span<const std::int32_t> indptr,
                                           std::span<const std::int32_t> last_page_len, std::int32_t page_size);

/// One decode step of B requests. A view.
struct Batch {
  PageTable pages;
  /// [B] tokens in the cache, this step's included. Zero is an empty request.
  std::span<const std::int32_t> kv_lens;
  /// [B + 1] prefix sums of the query tokens of each row; empty means one query token a row.
  /// Query token i of a row with n of them sits at position `kv_len - n + i` and sees no later token.
  std::span<const std::int32_t> query_start;
  /// [T] draft trees (DeFT, Medusa, EAGLE): for each query token the index, among its row's, of the one before it; -1
  /// for the root, which is token 0. Parents come before their children. A query token then sees the row's tokens
  /// before its query tokens (the past), its ancestors, and itself. Empty means chains: token i follows token i - 1.
  std::span<const std::int32_t> query_parents;
  /// [B] the slot of each row, a number that a request keeps while it lives; empty means slot = row.
  std::span<const std::int32_t> slots;
  /// [B] the generation of each row's slot; empty means zero. A slot's generation grows when it is reused.
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
  /// The query token before token `i` of a row; -1 for its first.
  std::int32_t query_parent(std::int32_t row, std::int32_t i) const {
    return query_parents.empty() ? i - 1 : query_parents[static_cast<std::size_t>(query_begin(row) + i)];
  }
  /// T, query tokens of the whole batch.
  std::int32_t total_queries() const { return query_begin(rows()); }
};

enum class IdCheck {
  kNone,      ///< trust the ids: the planner reads only what it must compare
  kAllPages,  ///< check every id of every row against num_pages
};

/// Checks sizes, lengths, slots, queries, null_page unless num_pages is 0, and with kAllPages every page id that a row
/// uses. \throws Error naming the member, the row, and the value.
void check_batch(const Batch& batch, IdCheck ids);

/// One more than the largest page id that a row uses, for Batch::num_pages where the cache's size is not known; it is
/// not read. Reads every id that is used. \throws Error as check_batch, and on ids that are negative or 2^31 - 1 or
/// more.
std::int64_t pages_used(const Batch& batch);

}  // namespace trunkline
