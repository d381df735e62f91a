#include "kv/page_pool.hpp"

#include <cstddef>
#include <numeric>

#include "base/check.hpp"

namespace trunkline {

PagePool::PagePool(std::int64_t num_pages) {
  if (num_pages < 1 || num_pages > INT32_MAX) {
    fail(ErrorCode::kInvalidArgument, "num_pages is ", num_pages, "; 1 to 2^31 - 1 pages are supported");
  }
  references_.resize(static_cast<std::size_t>(num_pages));
  free_.resize(references_.size());
  std::iota(free_.rbegin(), free_.rend(), 0);
}

std::optional<std::int32_t> PagePool::take() {
  if (free_.empty()) return std::nullopt;
  const std::int32_t page = free_.back();
  free_.pop_back();
  references_[static_cast<std::size_t>(page)] = 1;
  return page;
}

void PagePool::share(std::int32_t page) {
  ++held(page);
}

void PagePool::release(std::int32_t page) {
  if (--held(page) == 0) free_.push_back(page);
}

std::int32_t& PagePool::held(std::int32_t page) {
  if (page < 0 || page >= num_pages() || references(page) == 0) {
    fail(ErrorCode::kInvalidArgument, "page is ", page, ", which nobody holds; the pool has pages 0 to ",
         num_pages() - 1);
  }
  return references_[static_cast<std::size_t>(page)];
}

}  // namespace trunkline
