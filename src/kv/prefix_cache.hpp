// Prompts that stay in the page pool after their requests, to be found again: a radix tree with an edge a page.
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

/// Finds pages by key. A key stands for the tokens of a page and all before them, so that equal keys are equal
/// prefixes; with 64 bits of a good hash, two of a million are alike by chance once in 10^7 traces.
///
/// A cached page has one reference of the cache's. While it has no other it is idle, and may be evicted: the least
/// recently released first, and of one prompt the last page first, for without a page those behind it cannot be found.
class PrefixCache {
 public:
  /// \param pool outlives the cache, and its pages are released through the cache alone
  explicit PrefixCache(PagePool& pool);

  /// Appends the cached pages of the longest prefix of `keys` to `pages`, each with one more reference.
  /// \return how many they are
  std::size_t match(std::span<const std::uint64_t> keys, std::vector<std::int32_t>& pages);

  /// Caches the pages of a prompt, from the `first` on; those before are cached already. Where a key is known already,
  /// the cached page takes the place of the given one, which is released.
  /// \param pages one for each key at least, held by the caller
  /// \throws Error(kInvalidArgument) when the page before the first is not cached.
  void insert(std::span<const std::uint64_t> keys, std::size_t first, std::span<std::int32_t> pages);

  /// A page of the caller's own, evicting where none is free. \throws Error(kOutOfRange) when all pages are in use.
  std::int32_t take();
  /// Gives up the caller's reference of each page.
  void release(std::span<const std::int32_t> pages);

  std::int64_t cached_pages() const { return static_cast<std::int64_t>(page_of_.size()); }
  /// Cached, and held by nobody else.
  std::int64_t idle_pages() const { return idle_; }
  std::int64_t evicted_pages() const { return evicted_; }
  /// Gives back all pages that are idle.
  void clear();

 private:
  struct Entry {
    std::uint64_t key = 0;
    std::uint64_t released = 0;  // when it was last released, by the count of releases
    std::int32_t parent = -1;    // the page before it
    std::int32_t children = 0;   // cached pages that follow it
    bool cached = false;
    bool idle = false;
  };

  Entry& entry(std::int32_t page) { return entries_[static_cast<std::size_t>(page)]; }
  void use(std::int32_t page);
  void cache(std::int32_t page, std::uint64_t key, std::int32_t parent);
  void evict();

  PagePool* pool_;
  std::vector<Entry> entries_;  // by page
  std::unordered_map<std::uint64_t, std::int32_t> page_of_;
  std::set<std::pair<std::uint64_t, std::int32_t>> evictable_;  // idle pages that nothing follows, by their release
  std::uint64_t releases_ = 0;
  std::int64_t idle_ = 0;
  std::int64_t evicted_ = 0;
};

}  // namespace trunkline
