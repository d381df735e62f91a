// Packs: what a policy decides, before anything is cut, given a tile, or laid out as a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

#include "plan/query_order.hpp"
#include "plan/slices.hpp"
#include "plan/tiles.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

/// Entries of one list that the 32-bit indices of packs and plans reach.
inline constexpr std::int64_t kMaxListLength = std::numeric_limits<std::int32_t>::max();

/// \throws Error(kUnsupported): a list of packs is too long.
[[noreturn]] void refuse_list(const char* name, std::int64_t length);

/// The index one past a list's last entry.
/// \throws Error(kUnsupported) naming a list longer than kMaxListLength.
inline std::int32_t end_index(const char* name, std::int64_t length) {
  if (length > kMaxListLength) refuse_list(name, length);
  return static_cast<std::int32_t>(length);
}

/// Value of PackSegment::readers for "every query of the pack".
inline constexpr Range kAllReaders = {0, std::numeric_limits<std::int32_t>::max()};

/// A run of tokens that a pack reads through one request's page table.
struct PackSegment {
  std::int32_t row = 0;         ///< the batch row whose table is read; a reader of the segment
  std::int32_t begin = 0;       ///< token positions at planning time
  std::int32_t end = 0;         ///< the row's kv_len when open-ended
  Range readers = kAllReaders;  ///< positions; the pack's queries among them attend to the segment
  bool open_ended = false;      ///< stays at the row's live end; then all readers are queries of that row
  bool both_halves = false;     ///< Packs says, of a closed pack: queries of both halves of its tile attend to it

  std::int32_t tokens() const { return end - begin; }
};

/// Queries that read segments together; after Packs::close() at most as many as one item holds.
struct Pack {
  Range runs;      ///< into Packs::runs
  Range segments;  ///< into Packs::segments
  std::int32_t queries = 0;
  std::int32_t tile_rows = 0;      ///< m of its tile
  std::int32_t first_half = 0;     ///< queries of the tile's first half; 0 where it works as one
  std::int32_t parts = 1;          ///< the policy's own cut along KV
  Slices slices;                   ///< in which cuts count its segments, each by itself
  std::int64_t tokens = 0;         ///< of all segments
  std::int64_t cut_tokens = 0;     ///< what its slices have room for
  std::int64_t matrix_tokens = 0;  ///< its tokens, but those that both halves need twice
};

/// Collects a policy's packs. A policy calls add_queries and add_segment, then close, for each pack. Rules for
/// policies:
/// - Packs of a query come in the order in which its partials are merged. Segments of a pack come in the order in which
///   a kernel reads them: that of the query's tokens unless there is a reason.
/// - Every query is in the readers of exactly one open-ended segment, the *tail* of its request, which is empty where
/// the
///   request ends with a shared run (add_tail).
/// - A pack may hold any number of queries: close() spreads them over packs that fit. A pack without queries vanishes,
/// so
///   requests without queries need no care.
/// - A request without tokens still has an output: add_empty_requests gives each a pack (policy_input.hpp).
/// Positions, runs and readers are positions in QueryOrder; begin and end of a segment are token positions.
class Packs {
 public:
  /// \param order, tiles outlive the packs.
  void reset(const QueryOrder& order, const TileTable& tiles);

  /// Packs closed from now on get tiles of at least `m` rows, and hold no more queries than one of these; 0: any.
  void use_tile(std::int32_t m) {
    min_rows_ = m;
    max_queries_ = tiles_->max_queries(m);
  }
  /// Segments added from now on count for cuts as much as their slices have room for.
  void count_slices(const Slices& slices) { slices_ = slices; }
  const Slices& slices() const { return slices_; }
  /// Parts of equal length into which the open pack is cut along KV where the policy's own cuts are asked for.
  void cut(std::int32_t parts) { open_parts_ = parts; }

  /// Adds positions that come after those already in the pack.
  void add_queries(Range positions) {
    if (positions.begin == positions.end) return;
    open_queries_ += positions.size();
    if (static_cast<std::size_t>(open_runs_) < runs_.size() && runs_.back().end == positions.begin) {
      runs_.back().end = positions.end;
    } else {
      runs_.push_back(positions);
    }
  }
  void add_segment(const PackSegment& segment) {
    segments_.push_back(segment);
    open_tokens_ += segment.tokens();
    open_cut_tokens_ += slices_.room(segment.begin, segment.end);
  }
  /// The empty open-ended segment of a request that ends where others go on.
  void add_tail(std::int32_t row, std::int32_t kv_len, Range positions) {
    add_segment({row, kv_len, kv_len, positions, true});
  }
  /// A pack of one range of queries and one segment, as most are. No other may be open.
  void add_pack(Range positions, const PackSegment& segment) {
    open_queries_ = positions.size();
    open_tokens_ = segment.tokens();
    open_cut_tokens_ = slices_.room(segment.begin, segment.end);
    runs_.push_back(positions);
    segments_.push_back(segment);
    close_at(std::int64_t{open_runs_} + 1, std::int64_t{open_segments_} + 1);
  }
  /// Ends the pack. A pack of no query vanishes.
  void close() { close_at(std::ssize(runs_), std::ssize(segments_)); }

  std::span<const Pack> packs() const { return packs_; }
  /// Those of all packs, pack by pack.
  std::span<const Range> all_runs() const { return runs_; }
  /// Positions of a pack's queries: ascending, disjoint ranges.
  std::span<const Range> runs(const Pack& pack) const { return slice(runs_, pack.runs); }
  std::span<const PackSegment> segments(const Pack& pack) const { return slice(segments_, pack.segments); }
  /// Entries of all packs together: a query counts once in each pack that holds it.
  std::int64_t total_queries() const { return total_queries_; }
  /// Segments of all packs together.
  std::int64_t total_segments() const { return open_segments_; }
  /// Tokens that the packs read, each as often as a pack reads it.
  std::int64_t total_tokens() const { return total_tokens_; }
  /// The same, before packs were spread.
  std::int64_t grouped_tokens() const { return grouped_tokens_; }
  const QueryOrder& order() const { return *order_; }

 private:
  template <class T>
  static std::span<const T> slice(const std::vector<T>& all, Range range) {
    return {all.data() + range.begin, static_cast<std::size_t>(range.size())};
  }
  /// \param run_count runs of all packs, this one's included; segments likewise
  void close_at(std::int64_t run_count, std::int64_t segment_count) {
    if (open_queries_ > 0) grouped_tokens_ += open_tokens_;
    if (open_queries_ > 0 && open_queries_ <= max_queries_) {
      push_pack(run_count, segment_count);
    } else {
      close_misfit();
    }
    open_parts_ = 1;
  }
  void push_pack(std::int64_t run_count, std::int64_t segment_count) {
    const std::int32_t runs = end_index("runs of queries", run_count);
    const std::int32_t segments = end_index("segments", segment_count);
    total_queries_ += open_queries_;
    total_tokens_ += open_tokens_;
    const std::int32_t rows = tiles_->rows(open_queries_, min_rows_);
    const std::int32_t half = tiles_->first_half(rows, open_queries_);
    packs_.push_back({{open_runs_, runs},
                      {open_segments_, segments},
                      open_queries_,
                      rows,
                      half,
                      open_parts_,
                      slices_,
                      open_tokens_,
                      open_cut_tokens_,
                      half == 0 ? open_tokens_ : mark_halves(half)});
    open_runs_ = runs;
    open_segments_ = segments;
    open_queries_ = 0;
    open_tokens_ = 0;
    open_cut_tokens_ = 0;
  }
  void close_misfit();
  std::int32_t chunk_end(Range run, std::int32_t wanted) const;
  bool open_pack_reads(const PackSegment& segment) const;
  std::int64_t mark_halves(std::int32_t first_half);

  const QueryOrder* order_ = nullptr;
  const TileTable* tiles_ = nullptr;
  std::int32_t min_rows_ = 0;
  std::int32_t max_queries_ = 0;  // that one pack may hold
  std::vector<Range> runs_;
  std::vector<PackSegment> segments_;
  std::vector<Pack> packs_;
  std::int64_t total_queries_ = 0;
  std::int64_t total_tokens_ = 0;
  std::int64_t grouped_tokens_ = 0;
  std::int32_t open_runs_ = 0;      // first run of the pack being collected
  std::int32_t open_segments_ = 0;  // its first segment
  std::int32_t open_queries_ = 0;
  std::int32_t open_parts_ = 1;
  std::int64_t open_tokens_ = 0;
  std::int64_t open_cut_tokens_ = 0;
  Slices slices_;
  std::vector<Range> wide_runs_;  // a pack too wide for one item, while it is spread
  std::vector<PackSegment> wide_segments_;
};

}  // namespace trunkline
