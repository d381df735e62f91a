// The order in which a tile streams its tokens: KV that other tiles read as well is interleaved, in proportion, with
// the tile's own, so that reads from the cache and from memory overlap in time. Equal to the order in which
// trunk_segments.cpp interleaves chunk by chunk, but computed for each chunk independently.
//
// A tile has three lists of segments, laid end to end. Each list is cut into chunks, of a fixed number of tokens or of
// one segment each; a KV segment is the part of a segment in one chunk. Chunks of all lists are sorted by the relative
// position of their middle in their list. Ties go to the earlier list.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/device/thread_group.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

/// The lists of a tile, in the order that decides ties.
enum SegmentList : std::int32_t {
  kOwnSegments,     // read by the tile alone, or by its first half
  kSecondSegments,  // read by the second half
  kCommonSegments,  // read by both halves, or by other tiles as well
  kSegmentLists
};

/// A run of tokens that a tile reads through one row's page table. Lists count tokens in slices (plan/slices.hpp).
struct TileSegment {
  std::int64_t first_token = 0;  ///< position in its list
  std::int64_t room = 0;         ///< tokens that its slices have room for
  std::int32_t row = 0;
  std::int32_t begin = 0;  ///< token positions in the row
  std::int32_t end = 0;
  Range readers = {};  ///< range of query positions
  SegmentList list = kOwnSegments;
  std::int32_t place = 0;               ///< index in its list
  std::int32_t kv_segments_before = 0;  ///< KV segments of its list before it
  bool open_ended = false;              ///< it ends at the end of the row
};

/// One list of a tile.
struct InterleavedList {
  const TileSegment* segments = nullptr;   // the segments of the tile, in the order in which they were found
  const std::int32_t* by_place = nullptr;  // [count] index in `segments` of each segment of this list
  std::int64_t tokens = 0;
  std::int32_t chunk_bits = -1;  ///< a chunk has 2^chunk_bits tokens; -1: each segment is a chunk
  std::int32_t count = 0;
  std::int32_t kv_segments = 0;

  TRUNKLINE_HOST_DEVICE const TileSegment& at(std::int32_t place) const { return segments[by_place[place]]; }
  /// Returns the tokens from the begin of a chunk to its middle.
  TRUNKLINE_HOST_DEVICE std::int64_t half() const { return (std::int64_t{1} << chunk_bits) / 2; }
  /// Returns the length for comparisons; an empty list counts as one token.
  TRUNKLINE_HOST_DEVICE std::int64_t length() const { return max<std::int64_t>(tokens, 1); }

  /// Returns the chunk of a token. \pre chunks have a fixed number of tokens
  TRUNKLINE_HOST_DEVICE std::int64_t chunk_of(std::int64_t token) const { return token >> chunk_bits; }
  TRUNKLINE_HOST_DEVICE std::int64_t first_of(std::int64_t number) const { return number << chunk_bits; }

  /// Returns the number of KV segments of a segment: the chunks that it touches, 1 for an empty segment.
  TRUNKLINE_HOST_DEVICE std::int32_t kv_segments_in(const TileSegment& segment) const {
    if (chunk_bits < 0 || segment.room == 0) return 1;
    const std::int64_t last = segment.first_token + segment.room - 1;
    return static_cast<std::int32_t>(chunk_of(last) - chunk_of(segment.first_token)) + 1;
  }
  /// Returns the segment of the list's i-th KV segment.
  TRUNKLINE_HOST_DEVICE const TileSegment& segment_of(std::int32_t kv_segment) const {
    return at(partition_point(0, count, [&](std::int32_t i) { return at(i).kv_segments_before <= kv_segment; }) - 1);
  }
  /// Returns the number of chunks. An empty segment behind the last whole chunk adds one.
  TRUNKLINE_HOST_DEVICE std::int64_t chunks() const {
    if (chunk_bits < 0 || count == 0) return count;
    const std::int64_t whole = chunk_of(tokens);
    return whole + (first_of(whole) < tokens || at(count - 1).room == 0 ? 1 : 0);
  }
  TRUNKLINE_HOST_DEVICE std::int64_t chunk_begin(std::int64_t number) const {
    if (chunk_bits >= 0) return min(first_of(number), tokens);
    return number < count ? at(static_cast<std::int32_t>(number)).first_token : tokens;
  }
  TRUNKLINE_HOST_DEVICE std::int32_t kv_segments_before_chunk(std::int64_t number) const {
    if (number >= chunks()) return kv_segments;
    if (chunk_bits < 0) return static_cast<std::int32_t>(number);
    const std::int64_t token = first_of(number);
    const std::int32_t place = partition_point(0, count, [&](std::int32_t i) { return at(i).first_token < token; }) - 1;
    if (place < 0) return 0;
    const TileSegment& segment = at(place);
    const std::int64_t left = number - chunk_of(segment.first_token);
    const std::int64_t all = kv_segments_in(segment);
    return segment.kv_segments_before + static_cast<std::int32_t>(min(left, all));
  }
  /// Returns the number of chunks whose relative middle is at most `middle` / `of_length`; less than that if
  /// `strictly`.
  TRUNKLINE_HOST_DEVICE std::int64_t chunks_until(std::int64_t middle, std::int64_t of_length, bool strictly) const {
    const std::int64_t product = middle * length() - (strictly ? 1 : 0);
    if (product < 0) return 0;
    const std::int64_t token = product / of_length;
    if (chunk_bits < 0) {
      return partition_point(0, count, [&](std::int32_t i) { return at(i).first_token <= token; });
    }
    const std::int64_t past_first = token - half();
    return past_first < 0 ? 0 : min(chunk_of(past_first) + 1, chunks());
  }
};

struct Interleaving {
  InterleavedList lists[kSegmentLists];

  /// The position of a KV segment in the order of the tile.
  struct Place {
    std::int64_t first_token;
    std::int32_t rank;  ///< KV segments of the tile before it
  };

  /// \param token position in the list at which the KV segment begins
  TRUNKLINE_HOST_DEVICE Place place_of(const TileSegment& segment, std::int32_t kv_segment, std::int64_t token) const {
    const InterleavedList& own = lists[segment.list];
    const bool chunked = own.chunk_bits >= 0;
    const std::int64_t middle = chunked ? own.first_of(own.chunk_of(token)) + own.half() : segment.first_token;
    Place place{token, segment.kv_segments_before + kv_segment};
    for (std::int32_t list = 0; list < kSegmentLists; ++list) {
      const InterleavedList& other = lists[list];
      if (list == segment.list || other.count == 0) continue;
      const bool strictly = list > segment.list;  // a tie goes to the earlier list
      const std::int64_t before = other.chunks_until(middle, own.length(), strictly);
      place.first_token += other.chunk_begin(before);
      place.rank += other.kv_segments_before_chunk(before);
    }
    return place;
  }
};

}  // namespace trunkline
