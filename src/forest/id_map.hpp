// An open-addressing hash map that keeps its memory.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trunkline {

/// Maps (scope, id) to a number >= 0. Takes no memory once it has been as large as it gets.
class IdMap {
 public:
  /// Forgets all entries and makes room for `entries` of them.
  void reset(std::size_t entries) {
    // Half full at most: linear probing stays short.
    cells_.assign(std::bit_ceil(std::max<std::size_t>(2 * entries, 2)), Cell{});
    shift_ = 64 - std::countr_zero(cells_.size());
  }

  /// The number of (scope, id); -1 when there is none.
  std::int32_t find(std::int32_t scope, std::int64_t id) const { return cells_[place_of(scope, id)].value; }

  /// Forgets (scope, id), if there is such an entry.
  void erase(std::int32_t scope, std::int64_t id) {
    const std::size_t mask = cells_.size() - 1;
    std::size_t hole = place_of(scope, id);
    // Entries behind the hole move up where their probes began at it or before, so that probes need no marks of what
    // was erased.
    for (std::size_t at = (hole + 1) & mask; cells_[hole].value != kEmpty && cells_[at].value != kEmpty;
         at = (at + 1) & mask) {
      const std::size_t home = hash(cells_[at].scope, cells_[at].id) >> shift_;
      if (((at - home) & mask) < ((at - hole) & mask)) continue;
      cells_[hole] = cells_[at];
      hole = at;
    }
    cells_[hole] = Cell{};
  }

  /// The number of (scope, id), which is set to `fresh` if there was none. The reference lives until reset().
  std::int32_t& find_or_add(std::int32_t scope, std::int64_t id, std::int32_t fresh) {
    const std::size_t mask = cells_.size() - 1;
    for (std::size_t at = hash(scope, id) >> shift_;; at = (at + 1) & mask) {
      Cell& cell = cells_[at];
      if (cell.value == kEmpty) cell = {id, scope, fresh};
      if (cell.id == id && cell.scope == scope) return cell.value;
    }
  }

 private:
  static constexpr std::int32_t kEmpty = -1;
  struct Cell {
    std::int64_t id = 0;
    std::int32_t scope = 0;
    std::int32_t value = kEmpty;
  };

  // Multiplicative hashing (Knuth, 6.4): page ids are often consecutive, and the high bits of such products spread
  // evenly.
  static std::uint64_t hash(std::int32_t scope, std::int64_t id) {
    const auto mixed = static_cast<std::uint64_t>(id) ^ (std::uint64_t{static_cast<std::uint32_t>(scope)} << 32);
    return (mixed ^ (mixed >> 29)) * 0x9E3779B97F4A7C15u;
  }

  /// Where the entry is, or would be.
  std::size_t place_of(std::int32_t scope, std::int64_t id) const {
    const std::size_t mask = cells_.size() - 1;
    std::size_t at = hash(scope, id) >> shift_;
    while (cells_[at].value != kEmpty && (cells_[at].id != id || cells_[at].scope != scope)) at = (at + 1) & mask;
    return at;
  }

  std::vector<Cell> cells_;
  int shift_ = 63;
};

}  // namespace trunkline
