#include "plan/packs.hpp"

#include <algorithm>
#include <iterator>

#include "base/check.hpp"

namespace trunkline {

void refuse_list(const char* name, std::int64_t length) {
  fail(ErrorCode::kUnsupported, "the policy's packs have ", length, " ", name, "; supported are up to ",
       kMaxListLength);
}

namespace {

/// Whether some positions touch a run; those of a request without queries do inside it.
inline bool touch(std::span<const Range> runs, Range positions) {
  for (const Range run : runs) {
    if (positions.begin < run.end && run.begin < positions.end) return true;
  }
  return false;
}

/// Position of the `index`-th query of runs; the end where they have no more.
std::int32_t position_of(std::span<const Range> runs, std::int32_t index) {
  for (const Range run : runs) {
    if (index < run.size()) return run.begin + index;
    index -= run.size();
  }
  return runs.back().end;
}

}  // namespace

void Packs::reset(const QueryOrder& order, const TileTable& tiles) {
  order_ = &order;
  tiles_ = &tiles;
  use_tile(0);
  count_slices({});
  runs_.clear();
  segments_.clear();
  packs_.clear();
  total_queries_ = 0;
  total_tokens_ = 0;
  grouped_tokens_ = 0;
  open_runs_ = 0;
  open_segments_ = 0;
  open_queries_ = 0;
  open_parts_ = 1;
  open_tokens_ = 0;
  open_cut_tokens_ = 0;
}

// Chunks are as even as requests allow: a full chunk and a nearly empty one would cost as much as two full ones where
// rows are padded, and make an uneven pair of tasks everywhere.
void Packs::close_misfit() {
  std::int32_t queries = open_queries_;
  wide_runs_.assign(runs_.begin() + open_runs_, runs_.end());
  wide_segments_.assign(segments_.begin() + open_segments_, segments_.end());
  runs_.resize(static_cast<std::size_t>(open_runs_));
  segments_.resize(static_cast<std::size_t>(open_segments_));
  open_queries_ = 0;
  open_tokens_ = 0;
  open_cut_tokens_ = 0;

  std::size_t run = 0;
  while (queries > 0) {
    const std::int32_t chunks = (queries + max_queries_ - 1) / max_queries_;
    const std::int32_t target = (queries + chunks - 1) / chunks;
    while (run < wide_runs_.size() && open_queries_ < target) {
      Range& rest = wide_runs_[run];
      const std::int32_t end = chunk_end(rest, target - open_queries_);
      add_queries({rest.begin, end});
      rest.begin = end;
      if (rest.size() > 0) break;
      ++run;
    }
    queries -= open_queries_;
    for (const PackSegment& segment : wide_segments_) {
      if (open_pack_reads(segment)) add_segment(segment);
    }
    push_pack(std::ssize(runs_), std::ssize(segments_));
  }
}

// Where the open chunk, which still wants some queries, stops in a run: between requests, unless a request alone is
// wider than an item.
std::int32_t Packs::chunk_end(Range run, std::int32_t wanted) const {
  if (run.size() <= wanted) return run.end;
  const std::int32_t between = order_->request_begin(run.begin + wanted);
  if (between > run.begin) return between;
  if (open_queries_ > 0) return run.begin;
  return std::min({order_->request_end(run.begin), run.end, run.begin + max_queries_});
}

/// Marks the segments of the open pack that both halves attend to. \return the tokens that are multiplied
std::int64_t Packs::mark_halves(std::int32_t first_half) {
  const std::span<const Range> runs(runs_.begin() + open_runs_, runs_.end());
  const std::int32_t middle = position_of(runs, first_half);
  std::int64_t tokens = 0;
  for (auto segment = segments_.begin() + open_segments_; segment != segments_.end(); ++segment) {
    const Range of_first = {segment->readers.begin, std::min(segment->readers.end, middle)};
    const Range of_second = {std::max(segment->readers.begin, middle), segment->readers.end};
    const bool first = of_first.size() > 0 && touch(runs, of_first);
    const bool second = of_second.size() > 0 && touch(runs, of_second);
    segment->both_halves = first && second;
    tokens += std::int64_t{segment->tokens()} * ((first ? 1 : 0) + (second ? 1 : 0));
  }
  return tokens;
}

bool Packs::open_pack_reads(const PackSegment& segment) const {
  return touch(std::span(runs_).subspan(static_cast<std::size_t>(open_runs_)), segment.readers);
}

}  // namespace trunkline
