// Pages that stay in the pool after their sequences, to be found by their tokens: a radix tree with an edge a page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kv/page_pool.hpp"

namespace trunkline {

/// A cached page is a child of the cached page before it, and has one reference of the cache's. While it or one of its
/// descendants has another reference it is in use. Otherwise it is idle, and may be evicted: the least recently
/// released first, and a page after its descendants, which cannot be found without it.
class PrefixCache {
 public:
  /// \param pool outlives the cache; references to cached pages are added and released through the cache alone
  PrefixCache(PagePool& pool, std::int32_t page_size);

  /// The page that holds `tokens` after those of page `parent`, or -1. \param parent a cached page; -1 for none
  std::int32_t find(std::int32_t parent, std::span<const std::int32_t> tokens) const;
  /// Caches a page. \param parent as in find, held by the caller \param page held by the caller
  /// \return false, and caches nothing, where the page is cached already, or the hash of its tokens is another page's
  bool insert(std::int32_t parent, std::span<const std::int32_t> tokens, std::int32_t page);

  /// A page of the caller's own, evicting where none is free. \throws Error(kOutOfRange) when all pages are in use.
  std::int32_t take();
  /// One more reference for the caller.
  void share(std::int32_t page);
  /// Gives up the caller's reference of each page.
  void release(std::span<const std::int32_t> pages);
  /// Evicts the idle page that is first in turn. There must be one.
  void evict();

  std::int64_t cached_pages() const { return static_cast<std::int64_t>(page_of_.size()); }
  std::int64_t idle_pages() const { return idle_; }
  std::int64_t evicted_pages() const { return evicted_; }

 private:
  struct Entry {
    std::uint64_t hash = 0;
    std::uint64_t released = 0;        // the release that was the page's last, by the count of releases
    std::int32_t parent = -1;          // the page before it
    std::int32_t children = 0;         // cached pages that follow it
    std::int32_t children_in_use = 0;  // those of them that are in use
    bool cached = false;
  };

  Entry& entry(std::int32_t page) { return entries_[static_cast<std::size_t>(page)]; }
  bool idle(std::int32_t page);
  void become_used(std::int32_t page);
  void become_idle(std::int32_t page);
  std::span<const std::int32_t> tokens_of(std::int32_t page) const;

  PagePool* pool_;
  std::size_t page_size_;
  std::vector<Entry> entries_;                               // by page
  std::vector<std::int32_t> tokens_;                         // [pages up to the last that was ever cached, page_size]
  std::unordered_map<std::uint64_t, std::int32_t> page_of_;  // by hash
  std::set<std::pair<std::uint64_t, std::int32_t>> evictable_;  // idle pages without children, by their release
  std::uint64_t releases_ = 0;
  std::int64_t idle_ = 0;
  std::int64_t evicted_ = 0;
};

}  // namespace trunkline
