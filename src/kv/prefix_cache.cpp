#include "kv/prefix_cache.hpp"

#include <algorithm>
#include <optional>

#include "base/check.hpp"
#include "base/random.hpp"

namespace trunkline {
namespace {

std::uint64_t hash_of(std::int32_t parent, std::span<const std::int32_t> tokens) {
  RandomBits bits(static_cast<std::uint64_t>(std::int64_t{parent}));
  std::uint64_t hash = bits.next();
  for (const std::int32_t token : tokens) hash = mix_bits(hash + bits.next() + static_cast<std::uint32_t>(token));
  return hash;
}

}  // namespace

PrefixCache::PrefixCache(PagePool& pool, std::int32_t page_size)
    : pool_(&pool),
      page_size_(static_cast<std::size_t>(page_size)),
      entries_(static_cast<std::size_t>(pool.num_pages())) {}

std::span<const std::int32_t> PrefixCache::tokens_of(std::int32_t page) const {
  return std::span(tokens_).subspan(static_cast<std::size_t>(page) * page_size_, page_size_);
}

std::int32_t PrefixCache::find(std::int32_t parent, std::span<const std::int32_t> tokens) const {
  const auto known = page_of_.find(hash_of(parent, tokens));
  if (known == page_of_.end()) return -1;
  const std::int32_t page = known->second;
  const bool same =
      entries_[static_cast<std::size_t>(page)].parent == parent && std::ranges::equal(tokens_of(page), tokens);
  return same ? page : -1;
}

bool PrefixCache::insert(std::int32_t parent, std::span<const std::int32_t> tokens, std::int32_t page) {
  if (entry(page).cached) return false;
  const std::size_t begin = static_cast<std::size_t>(page) * page_size_;
  if (tokens_.size() < begin + page_size_) tokens_.resize(begin + page_size_);
  const std::uint64_t hash = hash_of(parent, tokens);
  if (!page_of_.emplace(hash, page).second) return false;
  pool_->share(page);
  std::ranges::copy(tokens, tokens_.begin() + static_cast<std::ptrdiff_t>(begin));
  entry(page) = {hash, 0, parent, 0, 0, true};
  if (parent < 0) return true;
  ++entry(parent).children;
  ++entry(parent).children_in_use;
  return true;
}

std::int32_t PrefixCache::take() {
  if (pool_->free_pages() == 0 && !evictable_.empty()) evict();
  const std::optional<std::int32_t> page = pool_->take();
  if (!page) fail(ErrorCode::kOutOfRange, "all ", pool_->num_pages(), " pages of the pool are in use");
  return *page;
}

void PrefixCache::share(std::int32_t page) {
  const bool was_idle = idle(page);
  pool_->share(page);
  if (was_idle) become_used(page);
}

void PrefixCache::release(std::span<const std::int32_t> pages) {
  ++releases_;
  for (const std::int32_t page : pages) {
    pool_->release(page);
    if (!entry(page).cached || pool_->references(page) > 1) continue;
    entry(page).released = releases_;
    if (entry(page).children_in_use == 0) become_idle(page);
  }
}

bool PrefixCache::idle(std::int32_t page) {
  return entry(page).cached && pool_->references(page) == 1 && entry(page).children_in_use == 0;
}

// Counts an idle page as in use, and with it the idle pages before it.
void PrefixCache::become_used(std::int32_t page) {
  while (true) {
    --idle_;
    if (entry(page).children == 0) evictable_.erase({entry(page).released, page});
    const std::int32_t parent = entry(page).parent;
    if (parent < 0) return;
    const bool parent_was_idle = idle(parent);
    ++entry(parent).children_in_use;
    if (!parent_was_idle) return;
    page = parent;
  }
}

// Counts a page as idle, and with it the pages before it that have no other holder and no other child in use.
void PrefixCache::become_idle(std::int32_t page) {
  while (true) {
    ++idle_;
    if (entry(page).children == 0) evictable_.emplace(entry(page).released, page);
    const std::int32_t parent = entry(page).parent;
    if (parent < 0) return;
    --entry(parent).children_in_use;
    if (!idle(parent)) return;
    page = parent;
  }
}

void PrefixCache::evict() {
  const std::int32_t page = evictable_.begin()->second;
  evictable_.erase(evictable_.begin());
  const Entry gone = entry(page);
  entry(page) = {};
  page_of_.erase(gone.hash);
  --idle_;
  ++evicted_;
  pool_->release(page);
  if (gone.parent < 0) return;
  --entry(gone.parent).children;
  if (entry(gone.parent).children == 0 && idle(gone.parent)) {
    evictable_.emplace(entry(gone.parent).released, gone.parent);
  }
}

}  // namespace trunkline
