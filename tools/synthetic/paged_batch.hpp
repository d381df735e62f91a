// A prefix tree laid out in pages as an engine's prefix cache would: requests share the pages whose tokens they share
// in full.
#pragma once

#include <cstdint>
#include <vector>

#include "synthetic/prefix_tree.hpp"
#include "trunkline/batch.hpp"

namespace trunkline {

/// Owns the tables of a batch of B requests in the dense form; slots are rows.
struct PagedBatch {
  std::vector<std::int32_t> page_ids;       ///< [B, width]; entries past a row's pages hold a huge id
  std::int64_t width = 0;                   ///< pages of the longest row, at least 1
  std::vector<std::int32_t> kv_lens;        ///< [B] tokens of the path and drafts
  std::vector<std::int32_t> query_start;    ///< [B + 1]; empty where no request has drafts
  std::vector<std::int32_t> query_parents;  ///< [T]; likewise
  std::int32_t page_size = 0;
  std::int64_t num_pages = 0;  ///< of the pool; a few more than are used

  Batch view() const;
};

/// How large lay_out_pages' result would be; found from the tree alone, so that a huge one can be refused.
struct PagedBatchSize {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t num_pages = 0;
  std::int64_t queries = 0;  ///< T
  /// Bytes of the page table, the lengths, and the ids of the pool's pages.
  std::int64_t table_bytes() const {
    return static_cast<std::int64_t>(sizeof(std::int32_t)) * (rows * (width + 1) + num_pages);
  }
};
PagedBatchSize paged_batch_size(const PrefixTree& tree, std::int32_t page_size);

/// Which ids a batch's pages have.
enum class PageOrder : std::uint8_t {
  kShuffled,     ///< a random permutation of the pool by `seed`; unused pages are scattered in it
  kConsecutive,  ///< node after node, as a cache that was filled once has them; unused pages are the last
};

/// Page j of two requests is the same page when their tokens are the same through its last used token: a page holding
/// the end of a node is private to each child, as after copy-on-write; requests that end in the same node share all
/// pages. Drafts lie in pages of their request's own, and so does the part-filled page that they begin in. \throws
/// Error as path_tokens, on an end node out of range, a page size below 1, or more than 2^31 - 1 pages.
PagedBatch lay_out_pages(const PrefixTree& tree, std::int32_t page_size, std::uint64_t seed,
                         PageOrder order = PageOrder::kShuffled);

/// A copy whose pages are numbered anew, in the order in which rows name them, in a pool of hardly more: what a large
/// pool holds for others need not be made to run a batch. Rows stay in their places; slots and
/// generations are left out. \throws Error as check_batch.
PagedBatch compact_copy(const Batch& batch);

}  // namespace trunkline
