// Random decode batches with shared prefixes, for property tests of everything that reads a batch.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "trunkline/batch.hpp"

namespace trunkline::testing {

enum class TableForm : std::uint8_t { kDense, kCsr, kTokenLevel };

struct RandomBatchOptions {
  std::int32_t max_rows = 12;
  std::int32_t max_tokens = 96;  ///< longest row
  std::int32_t page_size = 16;   ///< token-level tables need 1
  TableForm form = TableForm::kDense;
  bool wide_ids = false;           ///< int64 ids
  std::int32_t max_queries = 1;    ///< query tokens of a row are 1 .. max_queries, and at most its length
  bool trees = false;              ///< query tokens of two rows in three are a random tree
  bool null_pages = false;         ///< put null pages into rows; such a batch is for planning only, not for running
  std::int32_t growth_tokens = 0;  ///< the pool has pages for so many more tokens in every row
};

/// A batch that owns its memory. Pages a request uses lie in the pool, whose ids are shuffled; entries past a row's
/// pages, and rows of a token-level pool that no request has, hold a huge id.
struct RandomBatch {
  RandomBatchOptions options;
  std::vector<std::vector<std::int64_t>> row_pages;  ///< [B] the pages of each row; the table repeats them
  std::vector<std::int64_t> free_pages;              ///< of the pool; used by no row
  std::vector<std::int32_t> kv_lens;
  std::vector<std::int32_t> query_start;
  std::vector<std::int32_t> query_parents;  ///< with options.trees
  std::vector<std::int32_t> slots;
  std::vector<std::uint32_t> generations;
  std::int64_t num_pages = 0;
  std::int64_t null_page = -1;

  /// Writes the table after a change of row_pages.
  void lay_out_table();
  /// Valid until the next lay_out_table() or the end of this object.
  Batch view() const;

 private:
  std::vector<std::int32_t> ids32_;
  std::vector<std::int64_t> ids64_;
  std::vector<std::int32_t> indptr_;
  std::vector<std::int32_t> row_map_;
  std::int64_t width_ = 0;
};

/// Rows are made one after another: each is new, or repeats some pages of an earlier row and goes its own way. So there
/// are several roots, chains, duplicates, requests that end inside a node or inside a page, and empty requests.
RandomBatch make_random_batch(std::mt19937_64& random, const RandomBatchOptions& options);

/// Uniform in [low, high].
std::int32_t uniform(std::mt19937_64& random, std::int32_t low, std::int32_t high);

}  // namespace trunkline::testing
