// The masks of draft trees in a plan. Requests often have the same tree and then the same masks: the plan holds equal
// masks once.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/device/arena.hpp"
#include "plan/device/draft_masks.hpp"
#include "plan/device/packs.hpp"
#include "plan/device/span_walk.hpp"
#include "plan/device/thread_group.hpp"

namespace trunkline {

/// The masks of one span of drafts.
struct DraftWindow {
  WalkedSpan span;
  std::int32_t pack = 0;
  std::int32_t plain_before = 0;  ///< masks of the plain spans of its pack before it
  std::int32_t leader = 0;        ///< the first window with the same masks, which the plan holds
  std::int32_t masks_before = 0;  ///< masks of leaders before it, of all packs
  std::uint64_t hash = 0;         ///< hash of the masks
};

class DraftWindows {
 public:
  TRUNKLINE_HOST_DEVICE DraftWindows(const DeviceForest& forest, const DeviceRequests& requests,
                                     const PlannedPack* packs, DraftWindow* windows)
      : forest_(forest), requests_(requests), packs_(packs), windows_(windows) {}

  TRUNKLINE_HOST_DEVICE DraftMasks masks_of(const DraftWindow& window) const {
    return {forest_, requests_, window.span.row, window.span.readers, packs_[window.pack].positions.begin};
  }
  TRUNKLINE_HOST_DEVICE static std::int32_t size_of(const DraftWindow& window) {
    return window.span.drafts.end - window.span.drafts.begin;
  }

  /// Returns the index of a window's first mask. \pre the packs have their ranges in the plan's lists
  TRUNKLINE_HOST_DEVICE std::int32_t mask_of(std::int32_t window) const {
    const DraftWindow& leader = windows_[windows_[window].leader];
    const PlannedPack& pack = packs_[leader.pack];
    return pack.first_mask + leader.plain_before + leader.masks_before - windows_[pack.first_window].masks_before;
  }
  /// Returns the number of masks of the pack's leaders before a window.
  TRUNKLINE_HOST_DEVICE std::int32_t masks_before(const PlannedPack& pack, std::int32_t window) const {
    return windows_[window].masks_before - windows_[pack.first_window].masks_before;
  }

  /// Finds the leader and masks_before of `count` windows, and masks_before of the entry behind the last.
  template <class Group>
  TRUNKLINE_HOST_DEVICE void find_leaders(Group& group, std::int32_t count) const {
    group.for_each_warp(count, [&](std::int32_t i, auto& warp) {
      const DraftMasks masks = masks_of(windows_[i]);
      const std::int32_t first = windows_[i].span.drafts.begin;
      const std::uint64_t hash = warp.reduce(
          size_of(windows_[i]), std::uint64_t{0},
          [&](std::int32_t k) {
            const DraftMask mask = masks.mask_of(first + k);
            std::uint64_t mixed = mask.low ^ (mask.high * kFactor) ^ static_cast<std::uint64_t>(k) << 32;
            mixed *= kFactor;
            return (mixed ^ mixed >> 29) * kFactor;
          },
          [](std::uint64_t a, std::uint64_t b) { return a + b; });
      warp.once([&] { windows_[i].hash = hash; });
    });
    group.for_each_warp(count, [&](std::int32_t i, auto& warp) {
      const std::int32_t leader =
          find_first(warp, 0, i, [&](std::int32_t k) { return may_equal(k, i) ? k : kNotFound; });
      const bool same = leader != kNotFound && are_equal(warp, leader, i);
      warp.once([&] { windows_[i].leader = same ? leader : i; });
    });
    const std::int32_t masks = group.exclusive_scan(
        count, [&](std::int32_t i) { return windows_[i].leader == i ? size_of(windows_[i]) : 0; },
        [&](std::int32_t i, std::int32_t before) { windows_[i].masks_before = before; });
    group.once([&] { windows_[count].masks_before = masks; });
  }

 private:
  static constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15u;

  TRUNKLINE_HOST_DEVICE bool may_equal(std::int32_t a, std::int32_t b) const {
    return windows_[a].hash == windows_[b].hash && size_of(windows_[a]) == size_of(windows_[b]);
  }
  template <class Warp>
  TRUNKLINE_HOST_DEVICE bool are_equal(Warp& warp, std::int32_t a, std::int32_t b) const {
    const DraftMasks of_a = masks_of(windows_[a]);
    const DraftMasks of_b = masks_of(windows_[b]);
    return !any(warp, size_of(windows_[a]), [&](std::int32_t k) {
      return !(of_a.mask_of(windows_[a].span.drafts.begin + k) == of_b.mask_of(windows_[b].span.drafts.begin + k));
    });
  }

  const DeviceForest& forest_;
  const DeviceRequests& requests_;
  const PlannedPack* packs_;
  DraftWindow* windows_;
};

}  // namespace trunkline
