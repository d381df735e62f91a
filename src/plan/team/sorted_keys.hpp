// Sorting by a team.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"

namespace trunkline {

/// Sorts keys, no two of which are equal, by merging runs of rising length: a key's place in the merged run is its
/// place in its own run and, by bisection, the number of lesser ones in the other. For 1,024 keys that is ten barriers
/// and 55 dependent reads of shared memory.
/// \param spare [count] \return where the sorted keys are: in `keys` or in `spare`
template <class Block>
TRUNKLINE_HOST_DEVICE std::uint64_t* sort_keys(Block& block, std::uint64_t* keys, std::uint64_t* spare,
                                               std::int32_t count) {
  for (std::int32_t length = 1; length < count; length *= 2) {
    block.each(count, [&](std::int32_t i) {
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
    std::uint64_t* const merged = spare;
    spare = keys;
    keys = merged;
  }
  return keys;
}

}  // namespace trunkline
