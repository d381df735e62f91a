#include "support/planner_batches.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <variant>
#include <vector>

#include "support/brute_forest.hpp"

namespace trunkline::testing {
namespace {

using Pages = std::vector<std::int64_t>;

enum class Kind : std::uint8_t { kRandom, kUnshared, kPrefix, kTree, kChain, kCopies };

std::int32_t pages_of(std::int32_t tokens, std::int32_t page_size) {
  return (tokens + page_size - 1) / page_size;
}

class BatchMaker {
 public:
  BatchMaker(std::mt19937_64& random, RandomBatch& batch) : random_(random), batch_(batch) {}

  void add_rows(Kind kind, std::int32_t rows) {
    switch (kind) {
      case Kind::kRandom: break;
      case Kind::kUnshared:
        for (std::int32_t i = 0; i < rows; ++i) add({}, length(1));
        break;
      case Kind::kPrefix: {
        const Pages prefix = fresh(uniform(random_, 1, 6));
        for (std::int32_t i = 0; i < rows; ++i) add(prefix, length(0));
        break;
      }
      case Kind::kTree: grow({}, rows); break;
      case Kind::kChain:
        for (std::int32_t i = 0; i < rows; ++i) {
          add(rows_of().empty() ? Pages() : rows_of().back(), rows_of().empty() ? 3 : lengths().back() + length(1));
        }
        break;
      case Kind::kCopies: {
        const Pages pages = fresh(8);
        const std::int32_t most = 8 * page_size();
        for (std::int32_t i = 0; i < rows; ++i)
          add(pages, uniform(random_, 0, 2) > 0 ? most : uniform(random_, 1, most));
        break;
      }
    }
  }

 private:
  std::vector<Pages>& rows_of() { return batch_.row_pages; }
  std::vector<std::int32_t>& lengths() { return batch_.kv_lens; }
  std::int32_t page_size() const { return batch_.options.page_size; }
  std::int32_t length(std::int32_t least) { return uniform(random_, least, 3 * page_size()); }
  Pages fresh(std::int32_t count) {
    Pages pages;
    for (std::int32_t i = 0; i < count; ++i) pages.push_back(used_++);
    return pages;
  }

  /// A row that begins with pages, as far as its tokens go, and goes on with new ones.
  void add(Pages pages, std::int32_t more) {
    const bool cut = uniform(random_, 0, 3) == 0 || batch_.row_pages.empty();
    const auto whole = static_cast<std::int32_t>(pages.size()) * page_size();
    std::int32_t tokens = more;
    if (!cut) tokens = std::max(more, whole + uniform(random_, 0, 2 * page_size()));
    if (tokens == 0) tokens = uniform(random_, 0, whole);
    const auto count = static_cast<std::size_t>(pages_of(tokens, page_size()));
    pages.resize(std::min(pages.size(), count));
    while (pages.size() < count) pages.push_back(used_++);
    rows_of().push_back(std::move(pages));
    lengths().push_back(tokens);
  }

  /// So many rows below a path.
  void grow(const Pages& path, std::int32_t rows) {
    if (rows == 1) return add(path, length(1));
    Pages longer = path;
    for (const std::int64_t page : fresh(uniform(random_, path.empty() ? 0 : 1, 4))) longer.push_back(page);
    for (std::int32_t left = rows; left > 0;) {
      const std::int32_t part = uniform(random_, 1, std::max(1, std::min(left, rows / 2)));
      grow(longer, part);
      left -= part;
    }
  }

  std::mt19937_64& random_;
  RandomBatch& batch_;
  std::int64_t used_ = 1;
};

void permute_rows(std::mt19937_64& random, RandomBatch& batch) {
  for (std::size_t i = batch.kv_lens.size(); i > 1; --i) {
    const auto other = static_cast<std::size_t>(uniform(random, 0, static_cast<std::int32_t>(i) - 1));
    std::swap(batch.kv_lens[i - 1], batch.kv_lens[other]);
    std::swap(batch.row_pages[i - 1], batch.row_pages[other]);
  }
}

void add_null_pages(std::mt19937_64& random, RandomBatch& batch) {
  batch.null_page = 0;
  for (Pages& pages : batch.row_pages) {
    for (std::int64_t& page : pages) {
      if (uniform(random, 0, 30) == 0) page = 0;
    }
  }
}

void add_queries(std::mt19937_64& random, RandomBatch& batch) {
  batch.query_start = {0};
  for (const std::int32_t length : batch.kv_lens) {
    batch.query_start.push_back(batch.query_start.back() + uniform(random, 0, std::min(length, 5)));
  }
}

}  // namespace

RandomBatch make_planner_batch(std::uint64_t seed, std::int32_t max_rows) {
  std::mt19937_64 random(seed);
  constexpr std::int32_t kPageSizes[] = {1, 1, 2, 16, 16, 24};
  RandomBatchOptions options;
  options.max_rows = max_rows;
  options.page_size = kPageSizes[uniform(random, 0, 5)];
  options.wide_ids = uniform(random, 0, 1) == 0;
  options.max_tokens = uniform(random, 0, 1) == 0 ? 96 : 12 * options.page_size;
  options.form = static_cast<TableForm>(uniform(random, 0, options.page_size == 1 ? 2 : 1));
  const auto kind = static_cast<Kind>(uniform(random, 0, 5));
  RandomBatch batch;
  if (kind == Kind::kRandom) {
    options.null_pages = uniform(random, 0, 3) == 0;
    batch = make_random_batch(random, options);
    batch.slots.clear();
    batch.generations.clear();
  } else {
    batch.options = options;
    // Chains of many rows are slow to plan; batches of a few rows find most faults.
    const std::int32_t rows = uniform(random, 2, kind == Kind::kChain ? std::min(max_rows, 70) : max_rows);
    BatchMaker(random, batch).add_rows(kind, rows);
    if (uniform(random, 0, 3) == 0) add_null_pages(random, batch);
    batch.num_pages = std::int64_t{1} << 20;
  }
  if (uniform(random, 0, 1) == 0) permute_rows(random, batch);
  for (std::int32_t padded = uniform(random, 0, 3) - 1; padded > 0; --padded) {
    batch.kv_lens.push_back(0);
    batch.row_pages.emplace_back();
  }
  if (uniform(random, 0, 2) == 0) add_queries(random, batch);
  batch.lay_out_table();
  return batch;
}

}  // namespace trunkline::testing
