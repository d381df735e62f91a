// Sorting by a team.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"

namespace trunkline {

/// Whether keys rise already, as of rows that all part from one.
template <class Block>
TRUNKLINE_HOST_DEVICE bool are_sorted(Block& block, const std::uint64_t* keys, std::int32_t count) {
  return block.greatest(count - 1, std::int32_t{0}, [keys](std::int32_t i) { return keys[i] < keys[i + 1] ? 0 : 1; }) ==
         0;
}

/// Sorts runs of as many keys as a warp has lanes: a key's place is the number of lesser ones.
template <class Block>
TRUNKLINE_HOST_DEVICE void sort_short_runs(Block& block, const std::uint64_t* keys, std::uint64_t* sorted,
                                           std::int32_t count) {
  constexpr std::uint64_t kNone = ~std::uint64_t{0};
  block.each_warp(ceil_div(count, Block::kLanes), [=](std::int32_t run, const auto& lanes) {
    const std::int32_t begin = run * Block::kLanes;
    const bool has_key = begin + lanes.index() < count;
    const std::uint64_t key = has_key ? keys[begin + lanes.index()] : kNone;
    std::int32_t lesser = 0;
    for (std::int32_t lane = 0; lane < Block::kLanes; ++lane) lesser += lanes.from(key, lane) < key ? 1 : 0;
    if (has_key) sorted[begin + lesser] = key;
  });
}

/// Sorts keys, no two of which are equal, by merging runs of rising length: a key's place in the merged run is its
/// place in its own run and, by bisection, the number of lesser ones in the other. For 1,024 keys that is eight
/// barriers and 40 dependent reads of shared memory. \param spare [count] \return where the sorted keys are: in `keys`
/// or in `spare`
template <class Block>
TRUNKLINE_HOST_DEVICE std::uint64_t* sort_keys(Block& block, std::uint64_t* keys, std::uint64_t* spare,
                                               std::int32_t count) {
  if (count < 2 || are_sorted(block, keys, count)) return keys;
  sort_short_runs(block, keys, spare, count);
  for (std::int32_t length = Block::kLanes;; length *= 2) {
    std::uint64_t* const merged = spare;
    spare = keys;
    keys = merged;
    if (length >= count) return keys;
    block.each(count, [keys, spare, count, length](std::int32_t i) {
      const std::uint64_t key = keys[i];
      const std::int32_t run = i / length;
      const std::int32_t other = least((run ^ 1) * length, count);
      const std::int32_t other_end = least(other + length, count);
      std::int32_t low = other;
      std::int32_t high = other_end;
      while (low < high) {
        const std::int32_t middle = low + (high - low) / 2;
        if (keys[middle] < key) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      spare[(run & ~1) * length + (i - run * length) + (low - other)] = key;
    });
  }
}

}  // namespace trunkline
