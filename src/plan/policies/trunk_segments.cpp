#include "plan/policies/trunk_segments.hpp"

#include <algorithm>

#include "plan/slices.hpp"

namespace trunkline {
namespace {

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

std::int64_t room_of(std::span<const PackSegment> segments, const Slices& slices) {
  std::int64_t room = 0;
  for (const PackSegment& segment : segments) room += slices.room(segment.begin, segment.end);
  return room;
}

/// Takes the tokens of a list of segments chunk by chunk, counted in slices.
class ChunkList {
 public:
  /// \param chunk tokens, whole slices; 0: a whole segment
  ChunkList(std::span<const PackSegment> segments, const Slices& slices, std::int64_t chunk)
      : segments_(segments),
        slices_(slices),
        chunk_(chunk),
        total_(std::max<std::int64_t>(room_of(segments, slices), 1)) {}

  bool done() const { return next_ == segments_.size(); }
  /// Whether the middle of its next chunk, taken as whole, comes before that of the other list, in proportion.
  bool behind(const ChunkList& other) const { return middle() * other.total_ < other.middle() * total_; }

  void add_chunk(Packs& packs) {
    const std::int64_t target = added_ + chunk_;
    do {
      PackSegment part = segments_[next_];
      part.begin += taken_;
      const std::int64_t left = slices_.room(part.begin, part.end);
      const std::int64_t wanted = chunk_ == 0 ? left : std::min(target - added_, left);
      if (wanted < left) {
        part.end = slices_.place(part.begin, wanted);
        part.open_ended = false;
        taken_ += part.tokens();
      } else {
        ++next_;
        taken_ = 0;
      }
      added_ += wanted;
      packs.add_segment(part);
    } while (!done() && added_ < target);
  }

 private:
  std::int64_t middle() const { return added_ + chunk_ / 2; }

  std::span<const PackSegment> segments_;
  Slices slices_;
  std::int64_t chunk_;
  std::int64_t total_;  // at least 1
  std::size_t next_ = 0;
  std::int32_t taken_ = 0;  // tokens of the next segment
  std::int64_t added_ = 0;
};

/// Interleaves the lists of a tile in proportion to their lengths: common segments, which come from the cache, with
/// those of each half, which come from memory, so that both kinds of reads overlap in time and both halves have work. A
/// chunk comes where the middle of its share of its list is; ties go to the earlier list. If each half has less for
/// itself than twice the common tokens, common chunks come first, so that queries need not wait behind reads from
/// memory.
void interleave(std::span<ChunkList> lists, Packs& packs) {
  for (;;) {
    ChunkList* next = nullptr;
    for (ChunkList& list : lists) {
      if (!list.done() && (next == nullptr || list.behind(*next))) next = &list;
    }
    if (next == nullptr) return;
    next->add_chunk(packs);
  }
}

}  // namespace

void TileSegments::add(const TrunkTile& tile, const TrunkWidth& width, Packs& packs) {
  const auto members =
      std::span<const std::int32_t>(scratch_.order_index).subspan(at(tile.begin), at(tile.end - tile.begin));
  members_ = {members.front(), members.back() + 1};
  middle_ = width.halves ? middle_position(members, input_.tiles.first_half(width.rows, tile.load.queries)) : 0;
  interleave_ = input_.profile.device == Device::kCuda;
  add_queries(members, packs);

  scratch_.common.clear();
  scratch_.own.clear();
  scratch_.own_of_second.clear();
  collect_path(members.front());
  const std::span<const ForestNode> nodes = input_.forest.nodes;
  while (next_node_ < nodes.size() && nodes[next_node_].requests.begin <= members_.begin) ++next_node_;
  for (; next_node_ < nodes.size() && nodes[next_node_].requests.begin < members_.end; ++next_node_) {
    collect_node(next_node_);
  }
  add_interleaved(packs);
}

void TileSegments::add_interleaved(Packs& packs) const {
  // Where the tile works as one, nothing is to be gained by cutting them.
  const std::int64_t own_chunk = middle_ > 0 ? input_.profile.half_chunk_tokens : 0;
  const Slices& slices = packs.slices();
  ChunkList lists[] = {{scratch_.own, slices, own_chunk},
                       {scratch_.own_of_second, slices, own_chunk},
                       {scratch_.common, slices, input_.profile.common_chunk_tokens}};
  interleave(lists, packs);
}

void TileSegments::add_queries(std::span<const std::int32_t> members, Packs& packs) const {
  for (const std::int32_t member : members) packs.add_queries(input_.order.positions_of(member));
}

/// Position of the first query of the second half; past the tile's last where there is none.
std::int32_t TileSegments::middle_position(std::span<const std::int32_t> members, std::int32_t half_queries) const {
  for (const std::int32_t member : members) {
    const Range positions = input_.order.positions_of(member);
    if (positions.size() > half_queries) return positions.begin + half_queries;
    half_queries -= positions.size();
  }
  return input_.order.positions_of(members.back()).end;
}

void TileSegments::collect_path(std::int32_t order_index) {
  scratch_.path.clear();
  const std::int32_t row = input_.forest.order[at(order_index)];
  for (std::int32_t node = input_.forest.requests[at(row)].node; node >= 0;
       node = input_.forest.nodes[at(node)].parent) {
    scratch_.path.push_back(node);
  }
  for (std::size_t i = scratch_.path.size(); i-- > 0;) collect_node(at(scratch_.path[i]));
}

void TileSegments::collect_node(std::size_t index) {
  if (scratch_.hoisted[index] != 0) return;
  const Forest& forest = input_.forest;
  const ForestNode& node = forest.nodes[index];
  const Range readers = input_.order.positions(node.requests);
  if (node.requests.size() == 1) {
    const std::int32_t row = forest.order[at(node.requests.begin)];
    own_of(readers).push_back({row, node.begin, node.end, readers, true});
    return;
  }
  (in_common(node.requests) ? scratch_.common : own_of(readers)).push_back({node.row, node.begin, node.end, readers});
  const Range ending = forest.ending_at(static_cast<std::int32_t>(index));
  for (std::int32_t i = std::max(ending.begin, members_.begin); i < std::min(ending.end, members_.end); ++i) {
    const std::int32_t row = forest.order[at(i)];
    const std::int32_t kv_len = forest.requests[at(row)].kv_len;
    const Range ending_here = input_.order.positions_of(i);
    own_of(ending_here).push_back({row, kv_len, kv_len, ending_here, true});
  }
}

std::vector<PackSegment>& TileSegments::own_of(Range readers) {
  return middle_ > 0 && readers.begin >= middle_ ? scratch_.own_of_second : scratch_.own;
}

/// Whether a node's tokens are streamed by both halves, or by other tiles as well, so that they come from the cache.
bool TileSegments::in_common(Range requests) const {
  if (!interleave_) return false;
  if (middle_ > 0) {
    const Range readers = input_.order.positions(requests);
    return readers.begin < middle_ && middle_ < readers.end;
  }
  return requests.begin < members_.begin || members_.end < requests.end;
}

}  // namespace trunkline
