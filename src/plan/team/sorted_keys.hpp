// Sorting by a team.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

/// How keys are sorted by a team's block.
struct KeySort {
  static constexpr int kFallBits = 40;  ///< below the number of falls: the sum of their places, of 2^20 keys at most
  static constexpr std::uint64_t kFall = std::uint64_t{1} << kFallBits;
  static constexpr std::int32_t kMerged = 4;  ///< runs at once
  /// Keys of a run before any is merged: half of a warp, each compared with as many. From 16 and from 32 on it is three
  /// steps to 1,024 keys.
  template <class Block>
  static constexpr std::int32_t kShort = Block::kLanes > 1 ? Block::kLanes / 2 : 1;
};

/// Where keys fall: how many do, above KeySort::kFallBits, and the sum of the places of those that are less than the
/// one before. Copies them meanwhile.
template <class Block>
TRUNKLINE_HOST_DEVICE std::uint64_t copy_keys(Block& block, const std::uint64_t* keys, std::uint64_t* copies,
                                              std::int32_t count) {
  return block.sum(count, std::uint64_t{0}, [=](std::int32_t i) {
    const std::uint64_t key = keys[i];
    copies[i] = key;
    const bool falls = i > 0 && key < keys[i - 1];
    return falls ? KeySort::kFall + static_cast<std::uint64_t>(i) : std::uint64_t{0};
  });
}

/// Keys that are less than one, of a run in order. \param room a power of two, more than half of the run
TRUNKLINE_HOST_DEVICE inline std::int32_t count_lesser(const std::uint64_t* keys, Range run, std::int32_t room,
                                                       std::uint64_t key) {
  std::int32_t lesser = 0;
  TRUNKLINE_ROLLED
  for (std::int32_t step = room; step > 0; step /= 2) {
    const std::int32_t at = run.begin + lesser + step - 1;
    if (at < run.end && keys[at] < key) lesser += step;
  }
  return lesser;
}

/// Sorts runs of so many keys, no more than a warp has lanes: a key's place is the number of lesser ones.
template <class Block>
TRUNKLINE_HOST_DEVICE void sort_short_runs(Block& block, const std::uint64_t* keys, std::uint64_t* sorted,
                                           std::int32_t count) {
  constexpr std::uint64_t kNone = ~std::uint64_t{0};
  block.each_warp(ceil_div(count, Block::kLanes), [=](std::int32_t run, const auto& lanes) {
    const std::int32_t begin = run * Block::kLanes;
    const bool has_key = begin + lanes.index() < count;
    const std::uint64_t key = has_key ? keys[begin + lanes.index()] : kNone;
    const std::int32_t first = lanes.index() / KeySort::kShort<Block> * KeySort::kShort<Block>;
    std::int32_t lesser = 0;
    for (std::int32_t i = 0; i < KeySort::kShort<Block>; ++i) lesser += lanes.from(key, first + i) < key ? 1 : 0;
    if (has_key) sorted[begin + first + lesser] = key;
  });
}

/// Merges each KeySort::kMerged neighbouring runs: a key's place is its place in its own run and the number of lesser
/// ones in the others, each by bisection, side by side. \param length of runs, a power of two
template <class Block>
TRUNKLINE_HOST_DEVICE void merge_runs(Block& block, const std::uint64_t* keys, std::uint64_t* merged,
                                      std::int32_t count, std::int32_t length) {
  constexpr std::int32_t kMerged = KeySort::kMerged;
  constexpr std::int32_t kOthers = kMerged - 1;
  block.each(count, [=](std::int32_t i) {
    const std::uint64_t key = keys[i];
    const std::int32_t all = i & -(kMerged * length);
    Range others[kOthers];  // from the first that is not less
    for (std::int32_t k = 0; k < kOthers; ++k) {
      const std::int32_t begin = all + ((i + (k + 1) * length) & (kMerged * length - 1) & -length);
      others[k] = {begin, least(begin + length, count)};
    }
    std::int32_t place = all + (i & (length - 1));
    TRUNKLINE_ROLLED
    for (std::int32_t step = length; step > 0; step /= 2) {
      for (Range& other : others) {
        const std::int32_t at = other.begin + step - 1;
        if (at >= other.end || keys[at] >= key) continue;
        other.begin += step;
        place += step;
      }
    }
    merged[place] = key;
  });
}

/// Sorts keys, no two of which are equal, by merging runs of rising length. Where they fall once, as where one row of
/// many that all part from one does so elsewhere, they are two runs. Else that is, for 1,024 keys, six barriers and 21
/// dependent reads of shared memory.
/// \param keys [count] what is there afterwards is of no use \param sorted [count] other memory \param count no more
/// than 2^20
template <class Block>
TRUNKLINE_HOST_DEVICE void sort_keys(Block& block, std::uint64_t* keys, std::uint64_t* sorted, std::int32_t count) {
  const std::uint64_t falls = copy_keys(block, keys, sorted, count);
  if (falls == 0) return;
  if (falls >> KeySort::kFallBits == 1) {
    const auto second = static_cast<std::int32_t>(falls & (KeySort::kFall - 1));
    std::int32_t room = 1;
    while (2 * room < count) room *= 2;
    block.each(count, [=](std::int32_t i) {
      const Range other = i < second ? Range{second, count} : Range{0, second};
      const std::int32_t before = i < second ? i : i - second;
      sorted[before + count_lesser(keys, other, room, keys[i])] = keys[i];
    });
    return;
  }
  // Each step goes from one to the other, the last one to `sorted`.
  bool to_sorted = true;
  for (std::int32_t length = KeySort::kShort<Block>; length < count; length *= KeySort::kMerged) to_sorted = !to_sorted;
  sort_short_runs(block, to_sorted ? keys : sorted, to_sorted ? sorted : keys, count);
  for (std::int32_t length = KeySort::kShort<Block>; length < count; length *= KeySort::kMerged) {
    to_sorted = !to_sorted;
    merge_runs(block, to_sorted ? keys : sorted, to_sorted ? sorted : keys, count, length);
  }
}

}  // namespace trunkline
