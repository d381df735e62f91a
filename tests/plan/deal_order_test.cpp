// The closed form of dealing against dealing piece by piece.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "base/check.hpp"
#include "plan/slices.hpp"
#include "plan/team/deal_order.hpp"
#include "plan/team/host_team.hpp"
#include "plan/team/part_begins.hpp"
#include "plan/team/team_spans.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"

namespace trunkline {
namespace {

using testing::uniform;

struct Dealt {
  std::int32_t row;
  std::int32_t begin;
  std::int32_t end;
  bool open_ended;
  bool operator==(const Dealt&) const = default;
};

/// One list, handed out piece by piece, and pieces slice by slice: the first and the last of a segment may be short.
struct Hand {
  Slices slices;
  std::vector<TileSegment> segments;
  std::int64_t piece = 0;
  std::int64_t total = 0;  // tokens, were all slices whole, as below
  std::int64_t added = 0;
  std::size_t next = 0;
  std::int32_t taken = 0;

  bool done() const { return next == segments.size(); }
  std::int64_t middle() const { return added + piece / 2; }
  std::int64_t whole() const { return total == 0 ? 1 : total; }
  bool behind(const Hand& other) const { return middle() * other.whole() < other.middle() * whole(); }
  void add_piece(std::vector<Dealt>& to) {
    std::int64_t left = piece / slices.tokens;
    do {
      const TileSegment& from = segments[next];
      Dealt dealt{from.row, from.begin + taken, from.begin + taken, false};
      for (; dealt.end < from.end && (piece == 0 || left > 0); --left) {
        dealt.end = std::min(dealt.end - dealt.end % slices.aligned + slices.tokens, from.end);
        added += slices.tokens;
      }
      taken = dealt.end - from.begin;
      if (dealt.end == from.end) {
        dealt.open_ended = from.open_ended;
        ++next;
        taken = 0;
      }
      to.push_back(dealt);
    } while (!done() && left > 0);
  }
};

/// Tokens of whole slices, counted one by one.
std::int64_t room_of(const Slices& slices, std::int32_t begin, std::int32_t end) {
  std::int64_t room = 0;
  for (; begin < end; begin += slices.tokens - begin % slices.aligned) room += slices.tokens;
  return room;
}

std::vector<Dealt> deal(std::array<Hand, kTileLists> hands) {
  std::vector<Dealt> dealt;
  for (;;) {
    Hand* next = nullptr;
    for (Hand& hand : hands) {
      if (!hand.done() && (next == nullptr || hand.behind(*next))) next = &hand;
    }
    if (next == nullptr) return dealt;
    next->add_piece(dealt);
  }
}

/// Segments of a list, of which some have no token; the common list's all have.
Hand any_hand(std::mt19937_64& random, const Slices& slices, std::int32_t list, std::int64_t piece) {
  Hand hand;
  hand.slices = slices;
  hand.piece = piece;
  const std::int32_t most = uniform(random, 0, 2) == 0 ? 2 : 12;
  const std::int32_t longest =
      std::vector<std::int32_t>{0, 1, 64, 128, 700}[static_cast<std::size_t>(uniform(random, 0, 4))];
  for (std::int32_t count = uniform(random, 0, most); count > 0; --count) {
    TileSegment segment{};
    std::int32_t tokens = uniform(random, 0, 1) == 0 ? longest : uniform(random, 0, longest);
    if (list == kCommonList && tokens == 0) tokens = 64;
    segment.row = list * 1000 + count;
    segment.begin = uniform(random, 0, 40);
    segment.end = segment.begin + tokens;
    segment.open_ended = tokens == 0 || uniform(random, 0, 1) == 0;
    segment.masked = uniform(random, 0, 1) == 0;
    hand.segments.push_back(segment);
    hand.total += room_of(slices, segment.begin, segment.end);
  }
  return hand;
}

DealtList list_of(Hand& hand) {
  DealtList list{
      hand.segments.data(), hand.total, hand.piece, 0, static_cast<std::int32_t>(hand.segments.size()), 0, 0};
  std::int64_t tokens = 0;
  for (TileSegment& segment : hand.segments) {
    const std::int64_t end = tokens + room_of(hand.slices, segment.begin, segment.end);
    segment.first_token = tokens;
    segment.fragments_before = list.fragments;
    segment.masked_before = list.masked;
    const std::int32_t made = DealOrder::count_fragments(tokens, end, hand.piece);
    list.fragments += made;
    list.masked += segment.masked ? made : 0;
    tokens = end;
  }
  const bool empty_end = !hand.segments.empty() && hand.segments.back().end == hand.segments.back().begin;
  list.pieces = DealOrder::count_pieces(tokens, hand.piece, list.count, empty_end);
  return list;
}

/// By a walk over the fragments: those that end before the token or there, and whether one goes on behind it.
PartBegin begin_among(const std::vector<DealtFragment>& fragments, const Slices& slices, std::int64_t token) {
  PartBegin begin;
  for (const DealtFragment& fragment : fragments) {
    const std::int64_t end = fragment.first_token + room_of(slices, fragment.begin, fragment.end);
    begin.fragments += end <= token ? 1 : 0;
    const bool splits = fragment.first_token < token && token < end;
    begin.splits += splits ? 1 : 0;
    begin.masked += splits && fragment.masked ? 1 : 0;
  }
  return begin;
}

/// At the ends of fragments and inside of some.
void expect_begins_found(std::mt19937_64& random, const std::vector<DealtFragment>& fragments, const Slices& slices,
                         const PlannedTile& tile, std::int64_t tokens) {
  const PartSearch search(slices, tile);
  for (const DealtFragment& fragment : fragments) {
    for (const std::int64_t ahead : {0, uniform(random, 1, 100)}) {
      const std::int64_t token = fragment.first_token + ahead;
      if (token == 0 || token >= tokens) continue;
      SCOPED_TRACE(concat("token ", token, " of ", tokens));
      const PartBegin expected = begin_among(fragments, slices, token);
      const PartBegin begin = search.find(HostLanes(), token);
      ASSERT_EQ(begin.fragments, expected.fragments);
      ASSERT_EQ(begin.splits, expected.splits);
      ASSERT_EQ(begin.masked, expected.masked);
    }
  }
}

TEST(DealOrder, IsThatOfDealingPieceByPiece) {
  for (int seed = 0; seed < testing::scaled(50'000); ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const bool halves = uniform(random, 0, 1) == 0;
    constexpr std::array kSlices = {Slices{1, 1}, Slices{16, 1}, Slices{16, 8}, Slices{16, 16}};
    const Slices slices = kSlices[static_cast<std::size_t>(uniform(random, 0, 3))];
    std::array<Hand, kTileLists> hands = {any_hand(random, slices, kOwnList, halves ? 128 : 0),
                                          halves ? any_hand(random, slices, kOwnOfSecondList, 128) : Hand{},
                                          any_hand(random, slices, kCommonList, 64)};
    PlannedTile tile{};
    std::int32_t fragments = 0;
    for (std::size_t list = 0; list < kTileLists; ++list) {
      tile.lists[list] = list_of(hands[list]);
      fragments += tile.lists[list].fragments;
    }
    const std::vector<Dealt> expected = deal(hands);
    ASSERT_EQ(static_cast<std::size_t>(fragments), expected.size());
    std::vector<DealtFragment> found(expected.size());
    for (std::int32_t list = 0; list < kTileLists; ++list) {
      const DealtList& from = tile.lists[list];
      for (std::int32_t i = 0; i < from.fragments; ++i) {
        const DealtFragment fragment = fragment_of_tile(slices, tile, place_in_list(from, list, i));
        ASSERT_LT(static_cast<std::size_t>(fragment.rank), found.size());
        found[static_cast<std::size_t>(fragment.rank)] = fragment;
      }
    }
    std::int64_t tokens = 0;
    std::int32_t masked = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      SCOPED_TRACE(concat("fragment ", i));
      const DealtFragment& fragment = found[i];
      ASSERT_EQ((Dealt{fragment.row, fragment.begin, fragment.end, fragment.open_ended}), expected[i]);
      ASSERT_EQ(fragment.rank, static_cast<std::int32_t>(i));
      ASSERT_EQ(fragment.first_token, tokens);
      ASSERT_EQ(fragment.masked_before, masked);
      tokens += room_of(slices, fragment.begin, fragment.end);
      masked += fragment.masked ? 1 : 0;
    }
    expect_begins_found(random, found, slices, tile, tokens);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace trunkline
