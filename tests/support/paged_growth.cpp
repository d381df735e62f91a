#include "support/paged_growth.hpp"

#include <cstddef>
#include <map>
#include <stdexcept>

namespace trunkline::testing {
namespace {

std::int64_t take_page(RandomBatch& batch) {
  if (batch.free_pages.empty()) throw std::logic_error("the pool has no page left; raise growth_tokens");
  const std::int64_t page = batch.free_pages.back();
  batch.free_pages.pop_back();
  return page;
}

std::int32_t queries_of(const RandomBatch& batch, std::size_t row) {
  return batch.query_start.empty() ? 1 : batch.query_start[row + 1] - batch.query_start[row];
}

}  // namespace

std::vector<PageCopy> grow(RandomBatch& batch, std::int32_t tokens) {
  std::map<std::int64_t, int> users;
  for (const auto& pages : batch.row_pages) {
    for (const std::int64_t page : pages) ++users[page];
  }
  std::vector<PageCopy> copies;
  for (std::size_t row = 0; row < batch.kv_lens.size(); ++row) {
    if (batch.kv_lens[row] == 0 && queries_of(batch, row) > tokens) continue;
    auto& pages = batch.row_pages[row];
    const std::int32_t last_tokens = batch.kv_lens[row] % batch.options.page_size;
    if (last_tokens > 0 && users[pages.back()] > 1) {
      const std::int64_t copy = take_page(batch);
      copies.push_back({pages.back(), copy, last_tokens});
      pages.back() = copy;
    }
    batch.kv_lens[row] += tokens;
    while (static_cast<std::int64_t>(pages.size()) * batch.options.page_size < batch.kv_lens[row]) {
      pages.push_back(take_page(batch));
    }
  }
  batch.lay_out_table();
  return copies;
}

}  // namespace trunkline::testing
