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
    std::int32_t count;

    bool operator==(const Tiles&) const = default;
  };

  std::int32_t times;  ///< plans in a row that took these tiles, up to kLikely; 0: nothing is known
  std::int32_t round;  ///< of CutChoice, which cut them last; -1: they were not cut
  std::int32_t late;   ///< plans more that are taken to be cut in another way, or to try tiles that are closed early
  Tiles tiles;
  std::int32_t begins[FewTiles::kMost + 1];  ///< [tiles.count + 1] each one's first request, and how many there are

  /// Once is no guess: a sketch that is wrong costs up to 4 us (docs/planning.md).
  static constexpr std::int32_t kLikely = 2;
  /// One that is cut in another way costs 20 us where it does not wait for that, which takes 1 to 4.
  static constexpr std::int32_t kLate = 8;

  /// Of a batch of so many requests. Also of a guess that nobody has written.
  TRUNKLINE_HOST_DEVICE bool is_likely(std::int32_t requests) const {
    const auto count = static_cast<std::uint32_t>(tiles.count);
    const bool few = count <= std::uint32_t{FewTiles::kMost};
    const std::int32_t its_requests = begins[few ? count : 0];  // read in any case, and not waited for by itself
    return times == kLikely && few && its_requests == requests;
  }
  /// Once a plan took these tiles. \param early some that are closed early were tried \return whether that is new
  TRUNKLINE_HOST_DEVICE bool learn_cuts(std::int32_t its_round, bool early) {
    const std::int32_t late_before = late;
    late = early || its_round != round ? kLate : most(late - 1, 0);
    const bool is_new = late != late_before || its_round != round;
    round = its_round;
    return is_new;
  }
  /// Once a plan took few tiles, of requests that are alike.
  /// \param its_begins [its.count + 1] \param its_round, early learn_cuts' \return whether that is new
  TRUNKLINE_HOST_DEVICE bool learn(const Tiles& its, const std::int32_t* its_begins, std::int32_t its_round,
                                   bool early) {
    if (times == 0 || tiles != its) round = its_round;
    if (times == 0) late = 0;
    const bool other_cuts = learn_cuts(its_round, early);
    bool same = times > 0 && tiles == its;
    TRUNKLINE_ROLLED
    for (std::int32_t i = 0; i <= its.count; ++i) {
      same = same && begins[i] == its_begins[i];
      begins[i] = its_begins[i];
    }
    if (same && times == kLikely) return other_cuts;
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
