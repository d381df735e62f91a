#include "live/page_mirror.hpp"

#include <algorithm>
#include <cstddef>

namespace trunkline {

// Widths double, so that rows that grow page by page move seldom. All is made before anything is changed.
void PageMirror::reserve(std::int32_t slots, std::int64_t pages) {
  const std::size_t rows = std::max(counts_.size(), at(slots));
  const auto wanted = static_cast<std::size_t>(pages);
  if (rows == counts_.size() && wanted <= width_) return;
  counts_.reserve(rows);
  if (wanted <= width_) {
    ids_.resize(rows * width_);
  } else {
    const std::size_t width = std::max(wanted, 2 * width_);
    std::vector<std::int32_t> ids(rows * width);
    for (std::size_t slot = 0; slot < counts_.size(); ++slot) {
      std::copy_n(ids_.begin() + static_cast<std::ptrdiff_t>(slot * width_), counts_[slot],
                  ids.begin() + static_cast<std::ptrdiff_t>(slot * width));
    }
    ids_ = std::move(ids);
    width_ = width;
  }
  counts_.resize(rows);
}

}  // namespace trunkline
