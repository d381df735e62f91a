// Laying packs out as a plan.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/draft_windows.hpp"
#include "plan/kv_splitter.hpp"
#include "plan/packs.hpp"
#include "plan/query_order.hpp"
#include "plan/slices.hpp"
#include "plan/tiles.hpp"
#include "trunkline/forest.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {

/// \throws Error(kUnsupported) with the lengths, when one is above kMaxListLength.
void check_list_lengths(const ListLengths& lengths);

/// Fills a plan's queries, items, spans, masks, outputs and merge lists; keeps its scratch memory between plans.
class PlanEmitter {
 public:
  /// \throws Error(kUnsupported) when the plan's lists would be too long, before they are made.
  void emit(const Forest& forest, const Packs& packs, const KvSplitter& splitter, const TileTable& tiles, Plan& plan);

 private:
  /// The tokens [first, last) of a pack's segments, laid end to end.
  struct Part {
    std::int64_t first = 0;
    std::int64_t last = 0;
    bool leads = false;  // the pack's first part
    Slices slices;       // in which the pack's segments are counted
  };
  /// The tokens of a segment that a part reads, in token positions at planning time.
  struct Chunk {
    std::int32_t begin = 0;
    std::int32_t end = 0;
    bool holds_begin = false;  // of the segment; one part does, also where it has no token
  };

  void make_room(const Packs& packs, const KvSplitter& splitter, Plan& plan);
  void emit_merge_lists(const QueryOrder& order, Plan& plan);
  void add_span(const KvSpan& span, Plan& plan);
  void emit_whole(const Forest& forest, const Packs& packs, const Pack& pack, Plan& plan);
  void emit_part(const Forest& forest, const Packs& packs, const Pack& pack, const Part& part, Plan& plan);
  void emit_drafts(const Forest& forest, const Packs& packs, const Pack& pack, const PackSegment& segment,
                   const Chunk& chunk, Plan& plan);
  void emit_item_queries(const Packs& packs, const Pack& pack, std::int32_t begin, Plan& plan);

  std::vector<std::int32_t> items_at_;  // [positions + 1] items that hold the query at a position
  std::int32_t spans_ = 0;              // made so far
  DraftWindows windows_;
  std::vector<std::int32_t> next_slot_;  // [queries] the query's next free partial slot, or kDirect
};

}  // namespace trunkline
