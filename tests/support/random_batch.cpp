#include "support/random_batch.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>

namespace trunkline::testing {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

bool chance(std::mt19937_64& random, std::int32_t percent) {
  return uniform(random, 1, 100) <= percent;
}

std::int64_t pages_of(std::int64_t tokens, std::int64_t page_size) {
  return (tokens + page_size - 1) / page_size;
}

/// Rows as pages 0, 1, 2, ... in the order of their first use.
class RowMaker {
 public:
  RowMaker(std::mt19937_64& random, RandomBatch& batch) : random_(random), batch_(batch) {}

  void add_row() {
    const std::int32_t max_tokens = batch_.options.max_tokens;
    std::int32_t tokens = chance(random_, 10) ? 0 : uniform(random_, 1, max_tokens);
    std::vector<std::int64_t> pages;
    if (!batch_.row_pages.empty() && chance(random_, 75)) {
      const auto model = at(uniform(random_, 0, static_cast<std::int32_t>(batch_.row_pages.size()) - 1));
      pages = batch_.row_pages[model];
      if (chance(random_, 25)) {
        tokens = batch_.kv_lens[model];
      } else {
        pages.resize(at(uniform(random_, 0, static_cast<std::int32_t>(pages.size()))));
        // Half of these end in what they share.
        const auto shared_tokens = static_cast<std::int32_t>(pages.size()) * batch_.options.page_size;
        if (shared_tokens > 0 && chance(random_, 50)) tokens = uniform(random_, 1, std::min(shared_tokens, max_tokens));
      }
    }
    pages.resize(std::min(pages.size(), at(pages_of(tokens, batch_.options.page_size))));
    while (static_cast<std::int64_t>(pages.size()) < pages_of(tokens, batch_.options.page_size))
      pages.push_back(used_++);
    batch_.row_pages.push_back(std::move(pages));
    batch_.kv_lens.push_back(tokens);
  }

  std::int64_t used() const { return used_; }

 private:
  std::mt19937_64& random_;
  RandomBatch& batch_;
  std::int64_t used_ = 0;
};

/// Gives the pages random ids of a pool that has room for growth and a few pages more.
void shuffle_pool(std::mt19937_64& random, RandomBatch& batch, std::int64_t used) {
  const RandomBatchOptions& options = batch.options;
  const auto rows = static_cast<std::int64_t>(batch.kv_lens.size());
  // One page more a row than the tokens need, for the copy of a shared last page.
  const std::int64_t growth =
      options.growth_tokens > 0 ? rows * (1 + pages_of(options.growth_tokens, options.page_size)) : 0;
  batch.num_pages = used + growth + uniform(random, 1, 8);
  std::vector<std::int64_t> ids(at(batch.num_pages));
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), random);
  for (auto& pages : batch.row_pages) {
    for (std::int64_t& page : pages) page = ids[at(page)];
  }
  batch.free_pages.assign(ids.begin() + used, ids.end());
  if (!options.null_pages) return;
  batch.null_page = batch.free_pages.back();
  batch.free_pages.pop_back();
  for (auto& pages : batch.row_pages) {
    for (std::int64_t& page : pages) {
      if (chance(random, 5)) page = batch.null_page;
    }
  }
}

void make_queries(std::mt19937_64& random, RandomBatch& batch) {
  if (batch.options.max_queries <= 1) return;
  batch.query_start = {0};
  for (const std::int32_t length : batch.kv_lens) {
    const std::int32_t most = length > 0 ? std::min(length, batch.options.max_queries) : batch.options.max_queries;
    batch.query_start.push_back(batch.query_start.back() + uniform(random, 1, most));
  }
}

/// Parents of `count` query tokens: of any shape, or mostly side by side, as drafts are.
void add_tree(std::mt19937_64& random, std::int32_t count, std::vector<std::int32_t>& parents) {
  const bool wide = chance(random, 50);
  parents.push_back(-1);
  for (std::int32_t i = 1; i < count; ++i) parents.push_back(uniform(random, 0, wide ? (i - 1) / 2 : i - 1));
}

void make_trees(std::mt19937_64& random, RandomBatch& batch) {
  if (!batch.options.trees) return;
  for (std::size_t row = 0; row < batch.kv_lens.size(); ++row) {
    const std::int32_t count = batch.query_start.empty() ? 1 : batch.query_start[row + 1] - batch.query_start[row];
    if (uniform(random, 0, 2) > 0) {
      add_tree(random, count, batch.query_parents);
    } else {
      for (std::int32_t i = 0; i < count; ++i) batch.query_parents.push_back(i - 1);
    }
  }
}

void make_slots(std::mt19937_64& random, RandomBatch& batch) {
  std::vector<std::int32_t> slots(batch.kv_lens.size() * 2);
  std::iota(slots.begin(), slots.end(), 0);
  std::shuffle(slots.begin(), slots.end(), random);
  batch.slots.assign(slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(batch.kv_lens.size()));
  for (std::size_t row = 0; row < batch.kv_lens.size(); ++row) {
    batch.generations.push_back(static_cast<std::uint32_t>(uniform(random, 0, 1000)));
  }
}

}  // namespace

std::int32_t uniform(std::mt19937_64& random, std::int32_t low, std::int32_t high) {
  // Not a standard distribution: those differ between libraries, and a printed seed must mean the same batch
  // everywhere.
  const auto choices = static_cast<std::uint64_t>(std::int64_t{high} - low + 1);
  return static_cast<std::int32_t>(low + static_cast<std::int64_t>(random() % choices));
}

RandomBatch make_random_batch(std::mt19937_64& random, const RandomBatchOptions& options) {
  RandomBatch batch;
  batch.options = options;
  RowMaker maker(random, batch);
  const std::int32_t rows = uniform(random, 1, options.max_rows);
  for (std::int32_t row = 0; row < rows; ++row) maker.add_row();
  shuffle_pool(random, batch, maker.used());
  make_queries(random, batch);
  make_trees(random, batch);
  make_slots(random, batch);
  batch.lay_out_table();
  return batch;
}

void RandomBatch::lay_out_table() {
  const bool csr = options.form == TableForm::kCsr;
  // At least two entries past the longest row, and in a token-level pool every third row, are nobody's.
  width_ = 2;
  for (const auto& pages : row_pages) width_ = std::max(width_, static_cast<std::int64_t>(pages.size()) + 2);
  // Rows of an even number begin at multiples of 16 bytes, where several ids are read at once.
  if (row_pages.size() % 2 == 0) width_ = (width_ + 3) / 4 * 4;
  ids64_.clear();
  indptr_ = {0};
  row_map_.clear();
  const std::int64_t garbage =
      options.wide_ids ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int32_t>::max();
  for (std::size_t row = 0; row < row_pages.size(); ++row) {
    if (options.form == TableForm::kTokenLevel && row % 2 == 0) ids64_.insert(ids64_.end(), at(width_), garbage);
    if (!csr) row_map_.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(ids64_.size()) / width_));
    ids64_.insert(ids64_.end(), row_pages[row].begin(), row_pages[row].end());
    const std::size_t unused = csr ? row % 2 : at(width_) - row_pages[row].size();
    ids64_.insert(ids64_.end(), unused, garbage);
    indptr_.push_back(static_cast<std::int32_t>(ids64_.size()));
  }
  ids32_.clear();
  if (options.wide_ids) return;
  for (const std::int64_t id : ids64_) ids32_.push_back(static_cast<std::int32_t>(id));
}

Batch RandomBatch::view() const {
  PageIds ids = std::span<const std::int32_t>(ids32_);
  if (options.wide_ids) ids = std::span<const std::int64_t>(ids64_);
  Batch batch;
  switch (options.form) {
    case TableForm::kDense:
      batch.pages = PageTable::dense(ids, static_cast<std::int32_t>(kv_lens.size()), width_, options.page_size);
      break;
    case TableForm::kCsr: batch.pages = PageTable::csr(indptr_, ids, options.page_size); break;
    case TableForm::kTokenLevel: batch.pages = PageTable::token_level(ids, width_, row_map_); break;
  }
  batch.kv_lens = kv_lens;
  batch.query_start = query_start;
  batch.query_parents = query_parents;
  batch.slots = slots;
  batch.generations = generations;
  batch.num_pages = num_pages;
  batch.null_page = null_page;
  return batch;
}

}  // namespace trunkline::testing
