// A pack's load, and what cutting it makes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/cut_choice.hpp"
#include "plan/team/plan_growth.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/plan_task.hpp"
#include "plan/team/team.hpp"

namespace trunkline {

/// What packs bring, summed.
struct PackSums {
  enum : std::size_t { kParts, kPartials, kFragments, kCount };
  using Words = TeamWords<kCount>;
};

/// How a pack is cut.
struct PackCut {
  /// What it brings, or several.
  struct Counts {
    std::int32_t parts;
    std::int32_t entries;  ///< parts times queries
    std::int32_t fragments;
    std::int32_t masks;
  };

  TaskLoad load;
  std::int32_t parts;
  std::int64_t spans;  ///< fragments, and above 32 bits, masked ones

  TRUNKLINE_HOST_DEVICE std::int64_t entries() const { return std::int64_t{parts} * load.queries; }
  /// Parts, above 32 bits, and entries.
  TRUNKLINE_HOST_DEVICE std::int64_t items() const { return (std::int64_t{parts} << 32) + entries(); }
  TRUNKLINE_HOST_DEVICE PackSums::Words sums() const {
    return {{parts, parts > 1 ? entries() : 0, static_cast<std::int32_t>(spans)}};
  }
  TRUNKLINE_HOST_DEVICE Counts counts() const { return counts(items(), spans); }
  TRUNKLINE_HOST_DEVICE static Counts counts(std::int64_t items, std::int64_t spans) {
    return {static_cast<std::int32_t>(items >> 32), static_cast<std::int32_t>(items), static_cast<std::int32_t>(spans),
            static_cast<std::int32_t>(spans >> 32)};
  }

  /// Not priced.
  TRUNKLINE_HOST_DEVICE static TaskLoad load_of(const PlanTask& task, const PlannedPack& pack) {
    const PlanMemory& memory = task.memory;
    const std::int32_t queries = size_of(pack.positions);
    const bool alone = pack.tile < 0;
    const std::int64_t tokens = alone ? most(memory.path_tokens[pack.order_index], 0) : memory.sums[pack.tile].tokens;
    const bool halves = pack.first_half > 0 && pack.first_half < queries;
    std::int64_t matrix_tokens = tokens;
    if (!alone && queries == size_of(memory.frames[pack.tile].positions)) {
      matrix_tokens = memory.sums[pack.tile].matrix_tokens;
    } else if (halves) {
      matrix_tokens = 2 * tokens;  // all of one request's queries see all of its tokens
    }
    const std::int32_t rows =
        task.block.state->costs.rows(queries, task.machine.widths[pack.width].rows, pack.first_half > 0);
    return {tokens, matrix_tokens, rows, queries, 0, halves ? HalfChanges::of(tokens, matrix_tokens, queries) : 0};
  }

  /// Of a tile of requests that are alike, before it is known what it streams. Not priced. \param tokens of it
  TRUNKLINE_HOST_DEVICE static TaskLoad alike_load(const PlanTask& task, const PlannedPack& pack, std::int64_t tokens) {
    const std::int32_t queries = size_of(pack.positions);
    const bool halves = pack.first_half > 0 && pack.first_half < queries;
    // What both halves need is what the neighbours on either side of the middle have in common: each request has tokens
    // and one query, so that its position is its place in Forest::order.
    const std::int64_t twice = halves ? task.block.shared[pack.positions.begin + pack.first_half] : 0;
    const std::int32_t rows =
        task.block.state->costs.rows(queries, task.machine.widths[pack.width].rows, pack.first_half > 0);
    const std::int64_t matrix_tokens = tokens + twice;
    return {tokens, matrix_tokens, rows, queries, 0, halves ? HalfChanges::of(tokens, matrix_tokens, queries) : 0};
  }

  TRUNKLINE_HOST_DEVICE static std::int64_t spans_of(const PlanMemory& memory, const PlannedPack& pack) {
    if (pack.tile < 0) return 1;
    const TileSums& tile = memory.sums[pack.tile];
    return tile.fragments + (std::int64_t{tile.masked} << 32);
  }

  /// Of a tile of a try. Not priced. \param requests among those that tiles hold
  TRUNKLINE_HOST_DEVICE static TaskLoad tried_load(const PlanTask& task, std::int32_t width, Range requests) {
    const BlockMemory::State& state = *task.block.state;
    const std::int32_t widest = least(state.widest, task.machine.max_queries());
    const TrunkWidth kind = narrowed_for(widest, task.machine.widths[width]);
    return TrunkTiling(state.costs, state.requests).load(kind, requests.begin, requests.end);
  }
  /// As the try at tiles did, whose costs the block's memory holds. \param[out] same the load is that of the try
  TRUNKLINE_HOST_DEVICE static PackCut as_tried(const PlanTask& task, const PlannedPack& pack, bool& same) {
    const BlockMemory::State& state = *task.block.state;
    const Range members = task.memory.frames[pack.tile].members;
    PackCut cut{load_of(task, pack), 0, spans_of(task.memory, pack)};
    same = cut.load.costs_as(tried_load(task, state.chosen.width, members));
    cut.load.price(state.costs);
    cut.parts = CutChoice::parts(cut.load, state.chosen.pieces);
    return cut;
  }

  /// What later steps need of the i-th pack, but for where its lists begin.
  template <class Team>
  TRUNKLINE_HOST_DEVICE void put(const PlanMemory& memory, std::int32_t i) const {
    memory.loads[i] = load;
    PlannedPack& pack = memory.packs[i];
    pack.tokens = load.tokens;
    pack.cut_tokens = load.tokens;
    pack.parts = parts;
    if (pack.tile >= 0) put_tile<Team>(memory, i, parts);
  }
  /// The same of a pack that is a whole tile, but for its load.
  template <class Team>
  TRUNKLINE_HOST_DEVICE static void put_tile(const PlanMemory& memory, std::int32_t i, std::int32_t parts) {
    PlannedPack& pack = memory.packs[i];
    const TileSums& tile = memory.sums[pack.tile];
    pack.tokens = tile.tokens;
    pack.cut_tokens = tile.cut_tokens;
    pack.parts = parts;
    note_open_ends<Team>(memory, pack);
  }
  template <class Team>
  TRUNKLINE_HOST_DEVICE static void note_open_ends(const PlanMemory& memory, const PlannedPack& pack) {
    const std::int32_t members = size_of(memory.frames[pack.tile].members);
    const std::int32_t ends = PlanGrowth::open_ends(memory.sums[pack.tile], members, pack.parts);
    if (ends > 1) Team::fetch_greatest(memory.shape[PlanMemory::kOpenEnds], ends);
  }
  /// What a pack that is a whole tile brings.
  TRUNKLINE_HOST_DEVICE static Counts counts_of(const PlanMemory& memory, const PlannedPack& pack, std::int32_t parts) {
    const std::int64_t spans = spans_of(memory, pack);
    return {parts, parts * size_of(pack.positions), static_cast<std::int32_t>(spans),
            static_cast<std::int32_t>(spans >> 32)};
  }
  /// Where they begin. \param before of the packs before it
  TRUNKLINE_HOST_DEVICE static void place(PlannedPack& pack, const Counts& before) {
    pack.first_item = before.parts;
    pack.first_entry = before.entries;
    pack.first_fragment = before.fragments;
    pack.first_mask = before.masks;
  }
  /// Whether lists have room. \param partials entries of packs that are cut
  TRUNKLINE_HOST_DEVICE static bool fit(std::int64_t parts, std::int64_t partials, std::int64_t fragments,
                                        const PlanCapacity& room) {
    return parts <= room.items && partials <= room.partials && fragments <= room.spans;
  }
  /// \param all of all packs
  TRUNKLINE_HOST_DEVICE static void tell(const Counts& all, std::int32_t partials, std::int32_t* shape) {
    shape[PlanShape::kFits] = 1;
    shape[PlanShape::kItems] = all.parts;
    shape[PlanShape::kPartials] = partials;
    shape[PlanShape::kFragments] = all.fragments;
    shape[PlanShape::kEntries] = all.entries;
    shape[PlanShape::kMasks] = all.masks;
  }
};

/// What others are told of the batch. By one thread. \param read tokens that all packs read
TRUNKLINE_HOST_DEVICE inline void tell_batch(const PlanTask& task, std::int64_t read) {
  *task.memory.costs = task.block.state->costs;
  TeamPlanStatus& status = *task.memory.status;
  status.read_tokens = read;
  status.total_tokens = task.forest.total_tokens;
  status.distinct_tokens = task.forest.distinct_tokens;
}

}  // namespace trunkline
