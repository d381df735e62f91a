// Where the parts of a cut pack begin among the fragments that its tile streams: each found by itself, from the closed
// form of the order in which they are dealt, so that nobody goes through all fragments for it.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/slices.hpp"
#include "plan/team/deal_order.hpp"
#include "plan/team/planned_pack.hpp"
#include "plan/team/team_more.hpp"

namespace trunkline {

/// Of a part: all are counts, so that those of a tile's lists add up.
struct PartBegin {
  std::int32_t fragments = 0;  ///< of the pack that end before it, or where it begins
  std::int32_t splits = 0;     ///< 1: it begins inside of one
  std::int32_t masked = 0;     ///< 1: which not all queries of the tile see
};

/// The parts of a pack of a tile, all of whose fragments it reads. By the lanes of a warp, a third of which looks at a
/// list.
class PartSearch {
 public:
  TRUNKLINE_HOST_DEVICE PartSearch(const Slices& slices, const PlannedTile& tile)
      : slices_(slices), lists_(tile.lists) {}

  /// \param token in slices, behind the first and before the end
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE PartBegin find(const Lanes& lanes, std::int64_t token) const {
    PartBegin sum;
#if defined(__CUDA_ARCH__)
    const std::int32_t list = least(lanes.index() / kProbes, kTileLists - 1);  // the last two lanes look in vain
    const TokensBefore others(lists_, list);
    const std::int32_t begun = count_begun(lanes, list, others, token);
    if (lanes.index() == list * kProbes) sum = find_in(list, others, begun, token);
#else
    for (std::int32_t list = 0; list < kTileLists; ++list) {
      const TokensBefore others(lists_, list);
      const auto pieces = static_cast<std::int32_t>(lists_[list].pieces);
      const std::int32_t begun =
          count_before(pieces, [=, this, &others](std::int32_t i) { return begin_of(list, others, i) <= token; });
      const PartBegin part = find_in(list, others, begun, token);
      sum = {sum.fragments + part.fragments, sum.splits + part.splits, sum.masked + part.masked};
    }
#endif
    return {lanes.sum(sum.fragments), lanes.sum(sum.splits), lanes.sum(sum.masked)};
  }

 private:
  /// Where a piece of a list begins. \return in the list's tokens
  TRUNKLINE_HOST_DEVICE static std::int64_t begin_in(const DealtList& list, std::int32_t piece) {
    return list.piece == 0 ? list.segments[piece].first_token : piece * list.piece;
  }
  /// \return in the tokens of all lists, as they are dealt
  TRUNKLINE_HOST_DEVICE std::int64_t begin_of(std::int32_t list, const TokensBefore& others, std::int32_t piece) const {
    const std::int64_t begin = begin_in(lists_[list], piece);
    return begin + others.of(begin);
  }

#if defined(__CUDA_ARCH__)
  static constexpr std::int32_t kProbes = 32 / kTileLists;  // lanes of a list

  /// How many pieces of a list begin up to a token. Each lane of it looks at one at a time: first at those about where
  /// that would be were all lists dealt evenly, as they mostly are; else three looks find it among a thousand.
  template <class Lanes>
  __device__ std::int32_t count_begun(const Lanes& lanes, std::int32_t list, const TokensBefore& others,
                                      std::int64_t token) const {
    const std::int32_t probe = lanes.index() - list * kProbes;
    const auto pieces = static_cast<std::int32_t>(lists_[list].pieces);
    const std::int64_t all = lists_[0].tokens + lists_[1].tokens + lists_[2].tokens;
    const float share = static_cast<float>(token) / static_cast<float>(all);
    std::int32_t low = most(static_cast<std::int32_t>(share * static_cast<float>(pieces)) - kProbes / 2, 0);
    std::int32_t high = pieces;
    bool guessed = true;
    TRUNKLINE_ROLLED
    for (std::int32_t step = 1; lanes.any(low < high); step = (high - low) / (kProbes + 1) + 1) {
      const std::int32_t at = low + (probe + 1) * step - 1;
      const bool begun = at < high && begin_of(list, others, at) <= token;
      const unsigned of_list = __ballot_sync(0xffffffffu, begun) >> (list * kProbes) & ((1u << kProbes) - 1);
      const std::int32_t passed = __popc(of_list);
      if (guessed && passed == 0) {
        high = low;
        low = 0;
      } else {
        if (passed < kProbes) high = least(high, low + (passed + 1) * step - 1);
        low = least(low + passed * step, high);
      }
      guessed = false;
    }
    return low;
  }
#endif

  /// \param begun pieces of the list that begin up to the token
  TRUNKLINE_HOST_DEVICE PartBegin find_in(std::int32_t list, const TokensBefore& others, std::int32_t begun,
                                          std::int64_t token) const {
    if (begun == 0) return {};
    const DealtList& from = lists_[list];
    const std::int32_t last = begun - 1;
    const std::int64_t begin = begin_in(from, last);
    const std::int64_t within = token - begin_of(list, others, last);
    if (from.piece == 0) {
      const TileSegment& segment = from.segments[last];
      if (within >= slices_.room(segment.begin, segment.end)) return {begun, 0, 0};
      return inside(last, segment, within > 0);
    }
    const std::int64_t width = least(from.piece, from.tokens - begin);
    const bool whole = within >= width;
    if (whole && begun >= from.pieces) return {from.fragments, 0, 0};
    // The last segment that begins before there, or there: but what begins where the next piece does is that one's.
    const std::int64_t at = begin + least(within, width);
    const TileSegment* const segments = from.segments;
    const std::int32_t number = count_before(from.count - 1, [segments, at, whole](std::int32_t i) {
      return whole ? segments[i + 1].first_token < at : segments[i + 1].first_token <= at;
    });
    const TileSegment& segment = segments[number];
    const auto pieces = static_cast<std::int32_t>(from.pieces_in(at) - from.pieces_in(segment.first_token));
    return inside(segment.fragments_before + pieces, segment, !whole && within > 0 && segment.first_token < at);
  }
  TRUNKLINE_HOST_DEVICE static PartBegin inside(std::int32_t fragments, const TileSegment& segment, bool splits) {
    return {fragments, splits ? 1 : 0, splits && segment.masked ? 1 : 0};
  }

  const Slices slices_;
  const DealtList* lists_;
};

}  // namespace trunkline
