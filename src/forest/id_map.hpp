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
    const std::size_t places = std::bit_ceil(std::max<std::size_t>(2 * entries, 2));
    values_.assign(places, kEmpty);
    keys_.resize(places);
    shift_ = 64 - std::countr_zero(places);
  }

  /// The number of (scope, id); -1 when there is none.
  std::int32_t find(std::int32_t scope, std::int64_t id) const { return values_[place_of({id, scope})]; }

  /// Forgets (scope, id), if there is such an entry.
  void erase(std::int32_t scope, std::int64_t id) {
    const std::size_t mask = values_.size() - 1;
    std::size_t hole = place_of({id, scope});
    // Entries behind the hole move up where their probes began at it or before, so that probes need no marks of what
    // was erased.
    for (std::size_t at = (hole + 1) & mask; values_[hole] != kEmpty && values_[at] != kEmpty; at = (at + 1) & mask) {
      if (((at - home_of(keys_[at])) & mask) < ((at - hole) & mask)) continue;
      values_[hole] = values_[at];
      keys_[hole] = keys_[at];
      hole = at;
    }
    values_[hole] = kEmpty;
  }

  /// The number of (scope, id), which is set to `fresh` if there was none. The reference lives until reset().
  std::int32_t& find_or_add(std::int32_t scope, std::int64_t id, std::int32_t fresh) {
    const Key key = {id, scope};
    const std::size_t at = place_of(key);
    if (values_[at] == kEmpty) {
      keys_[at] = key;
      values_[at] = fresh;
    }
    return values_[at];
  }

 private:
  static constexpr std::int32_t kEmpty = -1;
  struct Key {
    std::int64_t id = 0;
    std::int32_t scope = 0;

    bool operator==(const Key&) const = default;
  };

  // Multiplicative hashing (Knuth, 6.4): page ids are often consecutive, and the high bits of such products spread
  // evenly.
  static std::uint64_t hash(const Key& key) {
    const auto scope = static_cast<std::uint32_t>(key.scope);
    const auto mixed = static_cast<std::uint64_t>(key.id) ^ (std::uint64_t{scope} << 32);
    return (mixed ^ (mixed >> 29)) * 0x9E3779B97F4A7C15u;
  }
  /// Where probes for a key begin.
  std::size_t home_of(const Key& key) const { return hash(key) >> shift_; }

  /// Where the entry is, or would be.
  std::size_t place_of(const Key& key) const {
    const std::size_t mask = values_.size() - 1;
    std::size_t at = home_of(key);
    while (values_[at] != kEmpty && keys_[at] != key) at = (at + 1) & mask;
    return at;
  }

  // Apart, because most lookups miss and end without a key: for 1,024 rows the values fit into the first-level cache,
  // and are quickly cleared.
  std::vector<std::int32_t> values_;
  std::vector<Key> keys_;  // of values
  int shift_ = 63;
};

}  // namespace trunkline
