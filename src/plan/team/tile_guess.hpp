// Which tiles a plan is likely to get: those that the last ones got.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/planned_pack.hpp"

namespace trunkline {

/// Few tiles, kept from plan to plan. A plan that is made of them is compared with what is chosen.
struct alignas(8) TileGuess {
  struct Tiles {
    std::int32_t number;  ///< of the try
    std::int32_t width;   ///< of TrunkFill
    std::int32_t round;   ///< of CutChoice, which cuts them; -1: they are not cut
    std::int32_t early;   ///< 1: tiles that are closed early were tried, too
    std::int32_t count;

    bool operator==(const Tiles&) const = default;
  };

  std::int32_t times;  ///< plans in a row that took these tiles, up to kLikely; 0: nothing is known
  Tiles tiles;
  std::int32_t begins[FewTiles::kMost + 1];  ///< [tiles.count + 1] each one's first request, and how many there are

  /// Once is no guess: a sketch that is wrong costs up to 4 us (docs/planning.md).
  static constexpr std::int32_t kLikely = 2;

  /// Of a batch of so many requests. Also of a guess that nobody has written.
  TRUNKLINE_HOST_DEVICE bool is_likely(std::int32_t requests) const {
    const std::uint32_t count = least(static_cast<std::uint32_t>(tiles.count), std::uint32_t{FewTiles::kMost});
    const std::int32_t its_requests = begins[count];  // read in any case, and not waited for by itself
    return times == kLikely && its_requests == requests;
  }
  /// Once a plan took few tiles, of requests that are alike.
  /// \param its_begins [its.count + 1] \return whether that is new
  TRUNKLINE_HOST_DEVICE bool learn(const Tiles& its, const std::int32_t* its_begins) {
    bool same = times > 0 && tiles == its;
    TRUNKLINE_ROLLED
    for (std::int32_t i = 0; i <= its.count; ++i) {
      same = same && begins[i] == its_begins[i];
      begins[i] = its_begins[i];
    }
    if (same && times == kLikely) return false;
    times = same ? times + 1 : 1;
    tiles = its;
    return true;
  }
  /// Once a plan took others. \return whether that is new
  TRUNKLINE_HOST_DEVICE bool forget() {
    const bool was_known = times > 0;
    times = 0;
    return was_known;
  }
};

}  // namespace trunkline
