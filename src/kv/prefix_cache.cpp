#include "kv/prefix_cache.hpp"

#include <optional>

#include "base/check.hpp"

namespace trunkline {

PrefixCache::PrefixCache(PagePool& pool) : pool_(&pool), entries_(static_cast<std::size_t>(pool.num_pages())) {}

std::size_t PrefixCache::match(std::span<const std::uint64_t> keys, std::vector<std::int32_t>& pages) {
  std::size_t found = 0;
  for (; found < keys.size(); ++found) {
    const auto known = page_of_.find(keys[found]);
    if (known == page_of_.end()) break;
    use(known->second);
    pages.push_back(known->second);
  }
  return found;
}

void PrefixCache::insert(std::span<const std::uint64_t> keys, std::size_t first, std::span<std::int32_t> pages) {
  if (first > 0 && first < keys.size() && !entry(pages[first - 1]).cached) {
    fail(ErrorCode::kInvalidArgument, "first is ", first, ", and the page before it, ", pages[first - 1],
         ", is not cached");
  }
  for (std::size_t i = first; i < keys.size(); ++i) {
    const auto known = page_of_.find(keys[i]);
    if (known == page_of_.end()) {
      cache(pages[i], keys[i], i == 0 ? -1 : pages[i - 1]);
    } else if (known->second != pages[i]) {
      use(known->second);
      release(pages.subspan(i, 1));
      pages[i] = known->second;
    }
  }
}

std::int32_t PrefixCache::take() {
  if (pool_->free_pages() == 0 && !evictable_.empty()) evict();
  const std::optional<std::int32_t> page = pool_->take();
  if (!page) fail(ErrorCode::kOutOfRange, "all ", pool_->num_pages(), " pages of the pool are in use");
  return *page;
}

void PrefixCache::release(std::span<const std::int32_t> pages) {
  ++releases_;
  for (const std::int32_t page : pages) {
    const std::int32_t left = pool_->release(page);
    Entry& released = entry(page);
    if (!released.cached || left > 1) continue;
    released.idle = true;
    released.released = releases_;
    ++idle_;
    if (released.children == 0) evictable_.emplace(releases_, page);
  }
}

void PrefixCache::clear() {
  while (!evictable_.empty()) evict();
}

// One more reference for the caller.
void PrefixCache::use(std::int32_t page) {
  pool_->share(page);
  Entry& used = entry(page);
  if (!used.idle) return;
  used.idle = false;
  --idle_;
  evictable_.erase({used.released, page});
}

void PrefixCache::cache(std::int32_t page, std::uint64_t key, std::int32_t parent) {
  pool_->share(page);
  entry(page) = {key, 0, parent, 0, true, false};
  page_of_.emplace(key, page);
  if (parent < 0) return;
  Entry& before = entry(parent);
  ++before.children;
  if (before.idle) evictable_.erase({before.released, parent});
}

void PrefixCache::evict() {
  const std::int32_t page = evictable_.begin()->second;
  evictable_.erase(evictable_.begin());
  const Entry gone = entry(page);
  entry(page) = {};
  page_of_.erase(gone.key);
  --idle_;
  ++evicted_;
  pool_->release(page);
  if (gone.parent < 0) return;
  Entry& before = entry(gone.parent);
  if (--before.children == 0 && before.idle) evictable_.emplace(before.released, gone.parent);
}

}  // namespace trunkline
