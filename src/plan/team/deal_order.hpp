// The order in which a tile's segments are dealt out (trunk_segments.cpp), in closed form: where each piece comes,
// found for all pieces at once.
//
// Dealing takes the piece whose middle comes first, in proportion to its list; of equal ones, of the first list. Where
// segments are dealt as they are, their begin counts. Tokens count in slices (plan/slices.hpp).
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "base/quotient.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/team_more.hpp"

namespace trunkline {

/// What comes before something, or is in a part of a list.
struct DealtCount {
  std::int64_t tokens;
  std::int32_t fragments;
  std::int32_t masked;
};

class DealOrder {
 public:
  TRUNKLINE_HOST_DEVICE explicit DealOrder(const DealtList* lists) : lists_(lists) {}

  /// Pieces that tokens and segments of a list make, of `piece` tokens each; 0: as many as segments.
  /// \tparam Sum of tokens, as below: on devices quotients of 32 bits are found faster
  template <class Sum>
  TRUNKLINE_HOST_DEVICE static Sum count_pieces(Sum tokens, Sum piece, std::int32_t segments,
                                                bool ends_without_tokens) {
    if (piece == 0 || segments == 0) return segments;
    return ends_without_tokens ? tokens / piece + 1 : ceil_div(tokens, piece);
  }
  /// Fragments of a segment of [begin, end) of its list's tokens: those of one piece each.
  template <class Sum>
  TRUNKLINE_HOST_DEVICE static std::int32_t count_fragments(Sum begin, Sum end, Sum piece) {
    if (piece == 0 || begin == end) return 1;
    return static_cast<std::int32_t>((end - 1) / piece - begin / piece + 1);
  }

  /// What of all lists is dealt before a piece of one. \param start tokens of its list before the piece
  TRUNKLINE_HOST_DEVICE DealtCount before(std::int32_t list, std::int64_t start) const {
    DealtCount sum{0, 0, 0};
    for (std::int32_t other = 0; other < kTileLists; ++other) {
      if (other == list || lists_[other].count == 0) continue;
      const DealtCount part = first_pieces(lists_[other], pieces_before(list, start, other));
      sum.tokens += part.tokens;
      sum.fragments += part.fragments;
      sum.masked += part.masked;
    }
    return sum;
  }

 private:
  TRUNKLINE_HOST_DEVICE static std::int64_t whole(const DealtList& list) { return most<std::int64_t>(list.tokens, 1); }

  TRUNKLINE_HOST_DEVICE std::int64_t pieces_before(std::int32_t list, std::int64_t start, std::int32_t other) const {
    const DealtList& counted = lists_[other];
    const bool ties = other < list;
    const std::int64_t factor = whole(lists_[list]);
    const std::int64_t limit = (start + lists_[list].piece / 2) * whole(counted);
    if (counted.piece == 0) return segments_before(counted, limit, factor, ties);
    const std::int64_t from_first = limit - counted.piece / 2 * factor;  // from the middle of its first piece
    if (from_first < 0) return 0;
    const std::int64_t step = counted.piece * factor;
    return least(ties ? quotient_of_sums(from_first, step) + 1 : quotient_of_sums(from_first + step - 1, step),
                 counted.pieces);
  }

  /// a / b. Devices divide fractions faster than 64-bit integers: the nearest fraction is no less than the quotient,
  /// and less than two above it.
  TRUNKLINE_HOST_DEVICE TRUNKLINE_OUT_OF_LINE static std::int64_t quotient_of_sums(std::int64_t a, std::int64_t b) {
    constexpr std::int64_t kExact = std::int64_t{1} << 52;
    if (a >= kExact || b >= kExact) return trunkline::quotient(a, b);
    const auto near = static_cast<std::int64_t>(static_cast<double>(a) / static_cast<double>(b));
    return near * b > a ? near - 1 : near;
  }

  /// Segments that begin before a place, at it too with ties: of those whose first_token * factor is below limit.
  TRUNKLINE_HOST_DEVICE static std::int64_t segments_before(const DealtList& list, std::int64_t limit,
                                                            std::int64_t factor, bool ties) {
    return segments_below(list,
                          ties ? quotient_of_sums(limit, factor) + 1 : quotient_of_sums(limit + factor - 1, factor));
  }
  TRUNKLINE_HOST_DEVICE static std::int32_t segments_below(const DealtList& list, std::int64_t first_token) {
    const TileSegment* const segments = list.segments;
    return count_before(list.count, [=](std::int32_t i) { return segments[i].first_token < first_token; });
  }

  TRUNKLINE_HOST_DEVICE static DealtCount first_pieces(const DealtList& list, std::int64_t pieces) {
    if (pieces >= list.pieces) return {list.tokens, list.fragments, list.masked};
    if (list.piece == 0) {
      const TileSegment& next = list.segments[pieces];
      return {next.first_token, next.fragments_before, next.masked_before};
    }
    const std::int64_t tokens = pieces * list.piece;
    const std::int32_t next = segments_below(list, tokens);
    DealtCount count{tokens, list.fragments, list.masked};
    std::int64_t end = list.tokens;  // of the segment before
    if (next < list.count) {
      count.fragments = list.segments[next].fragments_before;
      count.masked = list.segments[next].masked_before;
      end = list.segments[next].first_token;
    }
    if (next == 0 || end <= tokens) return count;
    const auto beyond = static_cast<std::int32_t>(list.pieces_in(end - 1) - pieces + 1);
    count.fragments -= beyond;
    if (list.segments[next - 1].masked) count.masked -= beyond;
    return count;
  }

  const DealtList* lists_;
};

}  // namespace trunkline
