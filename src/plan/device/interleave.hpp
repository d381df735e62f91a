// In which order a tile's tokens are streamed: what others read, too, is interleaved with what is the tile's own, in
// proportion, so that reads from the cache and from memory overlap in time. Equal to what trunk_segments.cpp deals out
// chunk by chunk, but found for each chunk by itself.
//
// A tile has three lists of segments, laid end to end. Each is cut into chunks of a number of tokens, or of a segment.
// Chunks of all lists follow each other by how far their middle is along their list; of two alike, that of the earlier
// list comes first.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/device/thread_group.hpp"

namespace trunkline {

/// The lists of a tile, in the order that decides ties.
enum SegmentList : std::int32_t {
  kOwnSegments,     // of the tile, or of its first half
  kSecondSegments,  // of its second half
  kCommonSegments,  // that both halves see, or other tiles, too
  kSegmentLists
};

/// A run of tokens that a tile reads through one row. Tokens of lists are counted in slices (plan/slices.hpp).
struct TileSegment {
  std::int64_t first_token = 0;  ///< of its list
  std::int64_t room = 0;         ///< tokens of its slices
  std::int32_t row = 0;
  std::int32_t begin = 0;  ///< token positions in the row
  std::int32_t end = 0;
  Range readers = {};  ///< positions of queries
  SegmentList list = kOwnSegments;
  std::int32_t place = 0;             ///< in its list
  std::int32_t fragments_before = 0;  ///< of its list
  bool open_ended = false;            ///< it ends where the row does
};

/// One list of a tile.
struct InterleavedList {
  const TileSegment* segments = nullptr;   // of the tile, in the order in which they were found
  const std::int32_t* by_place = nullptr;  // [count] index of this list's segments
  std::int64_t tokens = 0;
  std::int32_t chunk_bits = -1;  ///< a chunk has 2^chunk_bits tokens; -1: each segment is one
  std::int32_t count = 0;
  std::int32_t fragments = 0;

  TRUNKLINE_HOST_DEVICE const TileSegment& at(std::int32_t place) const { return segments[by_place[place]]; }
  /// Tokens from the begin of a chunk to its middle.
  TRUNKLINE_HOST_DEVICE std::int64_t half() const { return (std::int64_t{1} << chunk_bits) / 2; }
  /// A list of no token is as long as one of one.
  TRUNKLINE_HOST_DEVICE std::int64_t length() const { return most<std::int64_t>(tokens, 1); }

  /// The chunk that a token is in; none where each segment is one.
  TRUNKLINE_HOST_DEVICE std::int64_t chunk_of(std::int64_t token) const { return token >> chunk_bits; }
  TRUNKLINE_HOST_DEVICE std::int64_t first_of(std::int64_t number) const { return number << chunk_bits; }

  /// Pieces of a segment that are in different chunks; an empty one is one.
  TRUNKLINE_HOST_DEVICE std::int32_t fragments_in(const TileSegment& segment) const {
    if (chunk_bits < 0 || segment.room == 0) return 1;
    const std::int64_t last = segment.first_token + segment.room - 1;
    return static_cast<std::int32_t>(chunk_of(last) - chunk_of(segment.first_token)) + 1;
  }
  /// The segment of the list's i-th fragment.
  TRUNKLINE_HOST_DEVICE const TileSegment& segment_of(std::int32_t fragment) const {
    return at(partition_point(0, count, [&](std::int32_t i) { return at(i).fragments_before <= fragment; }) - 1);
  }
  /// An empty segment at the end of whole chunks is one more.
  TRUNKLINE_HOST_DEVICE std::int64_t chunks() const {
    if (chunk_bits < 0 || count == 0) return count;
    const std::int64_t whole = chunk_of(tokens);
    return whole + (first_of(whole) < tokens || at(count - 1).room == 0 ? 1 : 0);
  }
  TRUNKLINE_HOST_DEVICE std::int64_t chunk_begin(std::int64_t number) const {
    if (chunk_bits >= 0) return least(first_of(number), tokens);
    return number < count ? at(static_cast<std::int32_t>(number)).first_token : tokens;
  }
  TRUNKLINE_HOST_DEVICE std::int32_t fragments_before_chunk(std::int64_t number) const {
    if (number >= chunks()) return fragments;
    if (chunk_bits < 0) return static_cast<std::int32_t>(number);
    const std::int64_t token = first_of(number);
    const std::int32_t place = partition_point(0, count, [&](std::int32_t i) { return at(i).first_token < token; }) - 1;
    if (place < 0) return 0;
    const TileSegment& segment = at(place);
    const std::int64_t left = number - chunk_of(segment.first_token);
    const std::int64_t all = fragments_in(segment);
    return segment.fragments_before + static_cast<std::int32_t>(least(left, all));
  }
  /// Chunks whose middle is at most, or if `before`, less than `middle` tokens of a list of `length` along.
  TRUNKLINE_HOST_DEVICE std::int64_t chunks_until(std::int64_t middle, std::int64_t of_length, bool before) const {
    const std::int64_t product = middle * length() - (before ? 1 : 0);
    if (product < 0) return 0;
    const std::int64_t token = product / of_length;
    if (chunk_bits < 0) {
      return partition_point(0, count, [&](std::int32_t i) { return at(i).first_token <= token; });
    }
    const std::int64_t past_first = token - half();
    return past_first < 0 ? 0 : least(chunk_of(past_first) + 1, chunks());
  }
};

struct Interleaving {
  InterleavedList lists[kSegmentLists];

  /// Where a fragment is in the order of all.
  struct Place {
    std::int64_t first_token;
    std::int32_t rank;  ///< fragments before it
  };

  /// \param token at which a fragment of a segment begins, in its list
  TRUNKLINE_HOST_DEVICE Place place_of(const TileSegment& segment, std::int32_t fragment, std::int64_t token) const {
    const InterleavedList& own = lists[segment.list];
    const bool chunked = own.chunk_bits >= 0;
    const std::int64_t middle = chunked ? own.first_of(own.chunk_of(token)) + own.half() : segment.first_token;
    Place place{token, segment.fragments_before + fragment};
    for (std::int32_t list = 0; list < kSegmentLists; ++list) {
      const InterleavedList& other = lists[list];
      if (list == segment.list || other.count == 0) continue;
      const std::int64_t before = other.chunks_until(middle, own.length(), list > segment.list);
      place.first_token += other.chunk_begin(before);
      place.rank += other.fragments_before_chunk(before);
    }
    return place;
  }
};

}  // namespace trunkline
