// The pages of each slot, in rows of one width.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trunkline/batch.hpp"

namespace trunkline {

/// Allocates memory only for a slot or a row length that is new.
class PageMirror {
 public:
  explicit PageMirror(std::int32_t page_size) : page_size_(page_size) {}

  /// Makes room, at least for as much as asked, so that append() takes no memory.
  void reserve(std::int32_t slots, std::int64_t pages);

  template <class Id>
  void append(std::int32_t slot, std::span<const Id> pages) {
    std::int32_t* const end = ids_.data() + at(slot) * width_ + at(count(slot));
    for (std::size_t i = 0; i < pages.size(); ++i) end[i] = static_cast<std::int32_t>(pages[i]);
    counts_[at(slot)] += static_cast<std::int32_t>(pages.size());
  }
  void shorten(std::int32_t slot, std::int32_t pages) { counts_[at(slot)] = pages; }
  void replace(std::int32_t slot, std::int32_t index, std::int32_t page) { ids_[at(slot) * width_ + at(index)] = page; }

  std::int32_t count(std::int32_t slot) const { return counts_[at(slot)]; }
  std::span<const std::int32_t> pages(std::int32_t slot) const {
    return {ids_.data() + at(slot) * width_, at(count(slot))};
  }
  /// Tokens that the slot's pages have places for.
  std::int64_t places(std::int32_t slot) const { return std::int64_t{count(slot)} * page_size_; }
  std::span<const std::int32_t> ids() const { return ids_; }
  std::int64_t width() const { return static_cast<std::int64_t>(width_); }
  std::int32_t page_size() const { return page_size_; }

 private:
  static std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

  std::vector<std::int32_t> ids_;     // [slots, width]
  std::vector<std::int32_t> counts_;  // [slots]
  std::size_t width_ = 0;
  std::int32_t page_size_ = 1;
};

}  // namespace trunkline
