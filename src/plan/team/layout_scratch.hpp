// What laying a forest out keeps of its items and rows (forest_layout.hpp).
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/team_memory.hpp"

namespace trunkline {

/// Rows and nodes, added up together: rows in the upper half, so that neither carries into the other.
struct TeamSizes {
  TRUNKLINE_HOST_DEVICE static std::uint64_t of(std::int32_t rows, std::int32_t nodes) {
    return std::uint64_t{static_cast<std::uint32_t>(rows)} << 32 | static_cast<std::uint32_t>(nodes);
  }
  TRUNKLINE_HOST_DEVICE static std::int32_t rows(std::uint64_t sizes) { return static_cast<std::int32_t>(sizes >> 32); }
  TRUNKLINE_HOST_DEVICE static std::int32_t nodes(std::uint64_t sizes) {
    return static_cast<std::int32_t>(sizes & 0xFFFFFFFFu);
  }
};

class LayoutScratch {
 public:
  static constexpr std::int32_t kColumns = 7;
  static constexpr std::int32_t kWideColumns = 5;

  LayoutScratch() = default;
  /// \param wide [kWideColumns, columns.length]
  TRUNKLINE_HOST_DEVICE LayoutScratch(std::uint64_t* wide, TeamColumns<std::int32_t> columns, std::int32_t first_column)
      : wide_{wide, columns.length}, columns_(columns), first_column_(first_column) {}

  // Of items, by their place in the order of owner, mark and row.
  TRUNKLINE_HOST_DEVICE std::uint64_t* keys() const { return &wide_(0, 0); }
  TRUNKLINE_HOST_DEVICE std::uint64_t* spare_keys() const { return &wide_(1, 0); }
  /// Sizes of the items before.
  TRUNKLINE_HOST_DEVICE std::uint64_t& before(std::int32_t i) const { return wide_(2, i); }
  TRUNKLINE_HOST_DEVICE std::int32_t& mark(std::int32_t i) const { return column(0, i); }
  /// Rows that end inside, among the items before.
  TRUNKLINE_HOST_DEVICE std::int32_t& ends_before(std::int32_t i) const { return column(1, i); }

  /// A mark's first item.
  TRUNKLINE_HOST_DEVICE std::int32_t& mark_begin(std::int32_t mark) const { return column(2, mark); }

  // Of rows, the latter five of owners alone.
  TRUNKLINE_HOST_DEVICE std::int32_t& item(std::int32_t row) const { return column(3, row); }
  TRUNKLINE_HOST_DEVICE std::int32_t& items_begin(std::int32_t row) const { return column(4, row); }
  TRUNKLINE_HOST_DEVICE std::int32_t& items_end(std::int32_t row) const { return column(5, row); }
  /// Of its first node.
  TRUNKLINE_HOST_DEVICE std::int32_t& depth(std::int32_t row) const { return column(6, row); }
  /// With all below it.
  TRUNKLINE_HOST_DEVICE std::uint64_t& size(std::int32_t row) const { return wide_(3, row); }
  /// Where its rows and nodes begin; at first, counted from its owner's.
  TRUNKLINE_HOST_DEVICE std::uint64_t& start(std::int32_t row) const { return wide_(4, row); }

 private:
  TRUNKLINE_HOST_DEVICE std::int32_t& column(std::int32_t number, std::int32_t i) const {
    return columns_(first_column_ + number, i);
  }

  TeamColumns<std::uint64_t> wide_;
  TeamColumns<std::int32_t> columns_;
  std::int32_t first_column_ = 0;
};

}  // namespace trunkline
