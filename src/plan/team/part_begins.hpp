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

/// The parts of a pack of a tile, all of whose fragments it reads. By the lanes of a warp, a third of which looks at
/// each list, all the same way: no lane goes a way of its own that others wait for.
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
    const Place place = find_place(lanes, list, others, token);
    const std::int32_t segments = segments_of(list, place);
    std::int64_t unused = 0;
    const std::int32_t number = count_by(lanes, list, {0, segments}, false, unused,
                                         [=, this](std::int32_t i, auto&) { return begins_before(list, place, i); });
    if (lanes.index() == list * kProbes) sum = part_at(list, place, number);
#else
    for (std::int32_t list = 0; list < kTileLists; ++list) {
      const TokensBefore others(lists_, list);
      const auto pieces = static_cast<std::int32_t>(lists_[list].pieces);
      const std::int32_t begun =
          count_before(pieces, [=, this, &others](std::int32_t i) { return begin_of(list, others, i) <= token; });
      const Place place = place_of(list, begun, begun == 0 ? token : begin_of(list, others, begun - 1), token);
      const std::int32_t number = count_before(
          segments_of(list, place), [=, this, &place](std::int32_t i) { return begins_before(list, place, i); });
      const PartBegin part = part_at(list, place, number);
      sum = {sum.fragments + part.fragments, sum.splits + part.splits, sum.masked + part.masked};
    }
#endif
    return {lanes.sum(sum.fragments), lanes.sum(sum.splits), lanes.sum(sum.masked)};
  }

 private:
  /// Where a token lies in a list.
  struct Place {
    std::int32_t begun;  ///< pieces that begin up to there
    bool whole;          ///< the last of these ends up to there
    bool inside;         ///< it begins before
    std::int64_t at;     ///< tokens of the list before it
  };

  /// Where a piece of a list begins. \return in the list's tokens
  TRUNKLINE_HOST_DEVICE static std::int64_t begin_in(const DealtList& list, std::int32_t piece) {
    return list.piece == 0 ? list.segments[piece].first_token : piece * list.piece;
  }
  /// \return in the tokens of all lists, as they are dealt
  TRUNKLINE_HOST_DEVICE std::int64_t begin_of(std::int32_t list, const TokensBefore& others, std::int32_t piece) const {
    const std::int64_t begin = begin_in(lists_[list], piece);
    return begin + others.of(begin);
  }
  /// \param begin of the last piece that begins up to the token, in the tokens of all lists
  TRUNKLINE_HOST_DEVICE Place place_of(std::int32_t list, std::int32_t begun, std::int64_t begin,
                                       std::int64_t token) const {
    if (begun == 0) return {0, false, false, 0};
    const DealtList& from = lists_[list];
    const std::int64_t within = token - begin;
    if (from.piece == 0) {
      const TileSegment& segment = from.segments[begun - 1];
      return {begun, within >= slices_.room(segment.begin, segment.end), within > 0, 0};
    }
    const std::int64_t first = begin_in(from, begun - 1);
    const std::int64_t width = least(from.piece, from.tokens - first);
    return {begun, within >= width, within > 0, first + least(within, width)};
  }

  /// Segments of a list that begins_before() is to be asked for: none where pieces are segments, or all end before.
  TRUNKLINE_HOST_DEVICE std::int32_t segments_of(std::int32_t list, const Place& place) const {
    const DealtList& from = lists_[list];
    const bool all = place.whole && place.begun >= from.pieces;
    return place.begun == 0 || from.piece == 0 || all ? 0 : from.count - 1;
  }
  /// Whether the segment behind one begins before there, or there: but what begins where the next piece does is that
  /// one's.
  TRUNKLINE_HOST_DEVICE bool begins_before(std::int32_t list, const Place& place, std::int32_t segment) const {
    const std::int64_t first = lists_[list].segments[segment + 1].first_token;
    return place.whole ? first < place.at : first <= place.at;
  }

#if defined(__CUDA_ARCH__)
  static constexpr std::int32_t kProbes = 32 / kTileLists;  // lanes of a list

  /// Pieces of a list that begin up to a token. Each lane of it looks at one at a time: first at those about where that
  /// would be were all lists dealt evenly, as they mostly are; else three looks find it among a thousand.
  template <class Lanes>
  __device__ Place find_place(const Lanes& lanes, std::int32_t list, const TokensBefore& others,
                              std::int64_t token) const {
    const auto pieces = static_cast<std::int32_t>(lists_[list].pieces);
    const std::int64_t all = lists_[0].tokens + lists_[1].tokens + lists_[2].tokens;
    const float share = static_cast<float>(token) / static_cast<float>(all);
    const std::int32_t guess = most(static_cast<std::int32_t>(share * static_cast<float>(pieces)) - kProbes / 2, 0);
    std::int64_t begin = 0;
    const std::int32_t begun =
        count_by(lanes, list, {guess, pieces}, true, begin, [=, this, &others](std::int32_t i, std::int64_t& its) {
          its = begin_of(list, others, i);
          return its <= token;
        });
    return place_of(list, begun, begin, token);
  }

  /// How many of a list's first things pass, of which those that do are first. By all lanes, of each list its own.
  /// \param range where that lies \param guessed it may lie before \param passes(i, its) whether thing i does, and what
  /// is found of it \param[out] last that of the last one that does
  template <class Lanes, class Passes>
  __device__ static std::int32_t count_by(const Lanes& lanes, std::int32_t list, Range range, bool guessed,
                                          std::int64_t& last, Passes passes) {
    const std::int32_t probe = lanes.index() - list * kProbes;
    std::int32_t low = range.begin;
    std::int32_t high = range.end;
    TRUNKLINE_ROLLED
    while (lanes.any(low < high)) {
      const std::int32_t step = guessed ? 1 : (high - low) / (kProbes + 1) + 1;
      const std::int32_t at = low + (probe + 1) * step - 1;
      std::int64_t its = 0;
      const bool passed = at < high && passes(at, its);
      const unsigned of_list = __ballot_sync(0xffffffffu, passed) >> (list * kProbes) & ((1u << kProbes) - 1);
      const std::int32_t count = __popc(of_list);
      const std::int64_t of_last = __shfl_sync(0xffffffffu, its, list * kProbes + most(count - 1, 0));
      if (count > 0) last = of_last;
      if (guessed && count == 0) {
        high = low;
        low = 0;
      } else {
        if (count < kProbes) high = least(high, low + (count + 1) * step - 1);
        low += count * step;
      }
      guessed = false;
    }
    return low;
  }
#endif

  /// \param number of the segment that the place is in, of a list of pieces
  TRUNKLINE_HOST_DEVICE PartBegin part_at(std::int32_t list, const Place& place, std::int32_t number) const {
    if (place.begun == 0) return {};
    const DealtList& from = lists_[list];
    if (from.piece == 0) {
      if (place.whole) return {place.begun, 0, 0};
      return inside(place.begun - 1, from.segments[place.begun - 1], place.inside);
    }
    if (place.whole && place.begun >= from.pieces) return {from.fragments, 0, 0};
    const TileSegment& segment = from.segments[number];
    const auto pieces = static_cast<std::int32_t>(from.pieces_in(place.at) - from.pieces_in(segment.first_token));
    return inside(segment.fragments_before + pieces, segment,
                  !place.whole && place.inside && segment.first_token < place.at);
  }
  TRUNKLINE_HOST_DEVICE static PartBegin inside(std::int32_t fragments, const TileSegment& segment, bool splits) {
    return {fragments, splits ? 1 : 0, splits && segment.masked ? 1 : 0};
  }

  const Slices slices_;
  const DealtList* lists_;
};

}  // namespace trunkline
