// Positions of KV segments in a tile, by hand; plan_test.cpp compares whole plans with the host's.
#include "plan/device/interleave.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace trunkline {
namespace {

/// The lists of a tile, one segment each, in the order of SegmentList; 0 tokens: no segment.
struct OneSegmentEach {
  OneSegmentEach(const std::vector<std::int64_t>& tokens, std::int32_t chunk_bits) {
    segments.resize(tokens.size());
    places.resize(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      segments[i].room = tokens[i];
      segments[i].list = static_cast<SegmentList>(i);
      places[i] = static_cast<std::int32_t>(i);
      InterleavedList& list = order.lists[i];
      list.segments = segments.data();
      list.by_place = &places[i];
      list.tokens = tokens[i];
      list.chunk_bits = chunk_bits;
      list.count = tokens[i] > 0 ? 1 : 0;
      list.kv_segments = tokens[i] > 0 ? list.kv_segments_in(segments[i]) : 0;
    }
  }
  /// The rank of a chunk of a list in the tile.
  std::int32_t rank(SegmentList list, std::int32_t chunk) const {
    const std::int64_t token = order.lists[list].first_of(chunk);
    return order.place_of(segments[static_cast<std::size_t>(list)], chunk, token).rank;
  }

  std::vector<TileSegment> segments;
  std::vector<std::int32_t> places;
  Interleaving order;
};

TEST(Interleave, TiesGoToTheEarlierList) {
  const OneSegmentEach tile({16, 16, 16}, 4);
  EXPECT_EQ(tile.rank(kOwnSegments, 0), 0);
  EXPECT_EQ(tile.rank(kSecondSegments, 0), 1);
  EXPECT_EQ(tile.rank(kCommonSegments, 0), 2);
}

// Middles: common 1/8, 3/8, 5/8, 7/8; own 1/4, 3/4.
TEST(Interleave, ChunksAreInProportion) {
  const OneSegmentEach tile({32, 0, 64}, 4);
  EXPECT_EQ(tile.rank(kCommonSegments, 0), 0);
  EXPECT_EQ(tile.rank(kOwnSegments, 0), 1);
  EXPECT_EQ(tile.rank(kCommonSegments, 1), 2);
  EXPECT_EQ(tile.rank(kCommonSegments, 2), 3);
  EXPECT_EQ(tile.rank(kOwnSegments, 1), 4);
  EXPECT_EQ(tile.rank(kCommonSegments, 3), 5);
  EXPECT_EQ(tile.order.place_of(tile.segments[0], 1, 16).first_token, 16 + 48);
}

}  // namespace
}  // namespace trunkline
