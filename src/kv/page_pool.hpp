// The reference counts of the pages of a KV cache.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace trunkline {

/// Pages 0 to num_pages - 1. A page has a reference of each sequence that holds it, and one of the prefix cache;
/// without a reference it is free. The page that was freed last is the next to be taken.
class PagePool {
 public:
  /// \throws Error unless num_pages is in [1, 2^31 - 1].
  explicit PagePool(std::int64_t num_pages);

  /// A free page, with one reference; nothing when there is none.
  std::optional<std::int32_t> take();
  /// One more reference. \throws Error(kInvalidArgument) on a page that is free or none of the pool's.
  void share(std::int32_t page);
  /// One reference less; without any the page is free. \throws Error as share.
  void release(std::int32_t page);

  std::int32_t references(std::int32_t page) const { return references_[static_cast<std::size_t>(page)]; }
  std::int64_t num_pages() const { return static_cast<std::int64_t>(references_.size()); }
  std::int64_t free_pages() const { return static_cast<std::int64_t>(free_.size()); }

 private:
  std::int32_t& held(std::int32_t page);

  std::vector<std::int32_t> references_;  // [num_pages]
  std::vector<std::int32_t> free_;        // a stack
};

}  // namespace trunkline
