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

/// Which pieces of a list are dealt before those of another one. What is the same for all of these is found once.
class PieceRatio {
 public:
  /// \param ties of the counted list comes first where both are as far
  TRUNKLINE_HOST_DEVICE PieceRatio(const DealtList& list, const DealtList& counted, bool ties)
      : counted_(&counted),
        half_(list.piece / 2),
        scale_(whole(counted)),
        first_(counted.piece / 2 * whole(list)),
        step_(most<std::int64_t>(counted.piece, 1) * whole(list)),
        ties_(ties) {}

  /// \param start tokens of the other list before its piece \param divide(a, b) a / b, where b is step()
  template <class Divide>
  TRUNKLINE_HOST_DEVICE std::int64_t pieces_before(std::int64_t start, Divide divide) const {
    const std::int64_t from_first = (start + half_) * scale_ - first_;  // from the middle of its first piece
    if (from_first < 0) return 0;
    const std::int64_t pieces = divide(from_first + (ties_ ? 0 : step_ - 1), step_) + (ties_ ? 1 : 0);
    return counted_->piece == 0 ? segments_below(*counted_, pieces) : least(pieces, counted_->pieces);
  }
  /// \param pieces that come first \return what they stream
  TRUNKLINE_HOST_DEVICE std::int64_t tokens_of(std::int64_t pieces) const {
    if (pieces >= counted_->pieces) return counted_->tokens;
    return counted_->piece == 0 ? counted_->segments[pieces].first_token : pieces * counted_->piece;
  }
  TRUNKLINE_HOST_DEVICE std::int64_t step() const { return step_; }

  /// Segments of a list that begin before one of its tokens.
  TRUNKLINE_HOST_DEVICE static std::int32_t segments_below(const DealtList& list, std::int64_t first_token) {
    const TileSegment* const segments = list.segments;
    return count_before(list.count, [=](std::int32_t i) { return segments[i].first_token < first_token; });
  }

 private:
  TRUNKLINE_HOST_DEVICE static std::int64_t whole(const DealtList& list) { return most<std::int64_t>(list.tokens, 1); }

  const DealtList* counted_;
  std::int64_t half_;   // of the other list's piece
  std::int64_t scale_;  // of what both are compared in
  std::int64_t first_;
  std::int64_t step_;  // from piece to piece; of segments, from token to token
  bool ties_;
};

class DealOrder {
 public:
  TRUNKLINE_HOST_DEVICE explicit DealOrder(const DealtList* lists) : lists_(lists) {}

  /// Pieces that tokens and segments of a list make, of `piece` tokens each; 0: as many as segments.
  /// \tparam Sum of tokens, as below
  template <class Sum>
  TRUNKLINE_HOST_DEVICE static Sum count_pieces(Sum tokens, Sum piece, std::int32_t segments,
                                                bool ends_without_tokens) {
    if (piece == 0 || segments == 0) return segments;
    return ends_without_tokens ? whole_pieces(tokens, piece) + 1 : whole_pieces<Sum>(tokens + piece - 1, piece);
  }
  /// Fragments of a segment of [begin, end) of its list's tokens: those of one piece each.
  template <class Sum>
  TRUNKLINE_HOST_DEVICE static std::int32_t count_fragments(Sum begin, Sum end, Sum piece) {
    if (piece == 0 || begin == end) return 1;
    return static_cast<std::int32_t>(whole_pieces<Sum>(end - 1, piece) - whole_pieces(begin, piece) + 1);
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
  TRUNKLINE_HOST_DEVICE std::int64_t pieces_before(std::int32_t list, std::int64_t start, std::int32_t other) const {
    const auto divide = [](std::int64_t a, std::int64_t b) { return quotient_of_sums(a, b); };
    return PieceRatio(lists_[list], lists_[other], other < list).pieces_before(start, divide);
  }

  /// What is in the first pieces of a list.
  TRUNKLINE_HOST_DEVICE static DealtCount first_pieces(const DealtList& list, std::int64_t pieces) {
    if (pieces >= list.pieces) return {list.tokens, list.fragments, list.masked};
    if (list.piece == 0) {
      const TileSegment& next = list.segments[pieces];
      return {next.first_token, next.fragments_before, next.masked_before};
    }
    const std::int64_t tokens = pieces * list.piece;
    const std::int32_t next = PieceRatio::segments_below(list, tokens);
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

  /// a / b. Devices divide fractions faster than 64-bit integers: the nearest fraction is no less than the quotient,
  /// and less than two above it.
  TRUNKLINE_HOST_DEVICE TRUNKLINE_OUT_OF_LINE static std::int64_t quotient_of_sums(std::int64_t a, std::int64_t b) {
    constexpr std::int64_t kExact = std::int64_t{1} << 52;
    if (a >= kExact || b >= kExact) return trunkline::quotient(a, b);
    const auto near = static_cast<std::int64_t>(static_cast<double>(a) / static_cast<double>(b));
    return near * b > a ? near - 1 : near;
  }

  const DealtList* lists_;
};

/// What other lists stream before pieces of one, for many of these.
class TokensBefore {
 public:
  TRUNKLINE_HOST_DEVICE TokensBefore(const DealtList* lists, std::int32_t list)
      : others_{PieceRatio(lists[list], lists[list == 0 ? 1 : 0], list > 0),
                PieceRatio(lists[list], lists[list == 2 ? 1 : 2], list > 1)} {
    static_assert(kTileLists == 3);
    for (std::int32_t i = 0; i < kOthers; ++i) inverse_[i] = 1.0 / static_cast<double>(others_[i].step());
  }

  /// \param start tokens of its list before the piece
  TRUNKLINE_HOST_DEVICE std::int64_t of(std::int64_t start) const {
    std::int64_t tokens = 0;
    for (std::int32_t i = 0; i < kOthers; ++i) {
      const double inverse = inverse_[i];
      const auto divide = [inverse](std::int64_t a, std::int64_t b) { return quotient_by(inverse, a, b); };
      tokens += others_[i].tokens_of(others_[i].pieces_before(start, divide));
    }
    return tokens;
  }

 private:
  static constexpr std::int32_t kOthers = kTileLists - 1;

  /// a / b. Where both have a fraction's digits, the product is less than one off.
  TRUNKLINE_HOST_DEVICE static std::int64_t quotient_by(double inverse, std::int64_t a, std::int64_t b) {
    constexpr std::int64_t kExact = std::int64_t{1} << 50;
    if (a >= kExact || b >= kExact) return trunkline::quotient(a, b);
    const auto near = static_cast<std::int64_t>(static_cast<double>(a) * inverse);
    const std::int64_t rest = a - near * b;
    return rest < 0 ? near - 1 : rest >= b ? near + 1 : near;
  }

  PieceRatio others_[kOthers];
  double inverse_[kOthers];
};

}  // namespace trunkline
