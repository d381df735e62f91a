// How packs are cut, and how long the plan's lists will be: what Division and PlanEmitter::make_room find, by one
// block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/cut_choice.hpp"
#include "plan/team/plan_growth.hpp"
#include "plan/team/plan_memory.hpp"
#include "plan/team/team.hpp"
#include "plan/team/team_cuts.hpp"
#include "plan/team/team_packs.hpp"

namespace trunkline {

template <class Block>
class PackDivider {
 public:
  TRUNKLINE_HOST_DEVICE PackDivider(Block& block, const PlanTask& task)
      : block_(block), task_(task), packs_(task.memory.shape[PlanMemory::kPacks]) {
    // Few are scanned in the block's memory.
    const bool few = packs_ <= least(FewPacks::kMost, task.block.rows);
    in_items_ = few ? task.block.listed : task.memory.pack_sums;
    in_spans_ = few ? task.block.few->sums : task.memory.pack_sums + packs_;
  }

  /// \param cut as CutChoice finds it; else not at all
  TRUNKLINE_HOST_DEVICE void divide(bool cut) {
    if (cut && packs_are_tiles()) {
      const Sums sums = divide_as_tried();
      if (sums.at[kParts] < kOther) return place_packs(sums);
      const PlanMemory& memory = task_.memory;
      block_.once([&memory] { memory.shape[PlanMemory::kOpenEnds] = 1; });
    }
    if (cut && packs_ <= FewCuts::kMostLoads) {
      const CutOutcome outcome = cut_few();
      place_packs(find_lengths(outcome.pieces, outcome.reads.read_tokens));
    } else {
      const std::int64_t read = load_packs();
      const CutChoice::Pieces pieces = cut ? cut_for_balance(read) : price(read);
      place_packs(find_lengths(pieces, read));
    }
  }

 private:
  enum : std::size_t { kParts, kPartials, kFragments, kSums };
  using Sums = TeamWords<kSums>;
  /// Added to the parts for each pack that is not the tile that was tried: more than there are parts.
  static constexpr std::int64_t kOther = std::int64_t{1} << 40;

  /// Whether each pack is a whole tile, so that the cuts of the try are likely to be its own.
  TRUNKLINE_HOST_DEVICE bool packs_are_tiles() const {
    const BlockMemory::State& state = *task_.block.state;
    const std::int32_t listed = state.requests.count;
    return listed > 0 && listed == state.full && state.chosen.tiles == packs_ &&
           state.requests.distinct_tokens == task_.forest.distinct_tokens;
  }

  /// Cuts as the try at tiles did, whose costs the block's memory holds; which is right where all loads are the same.
  TRUNKLINE_HOST_DEVICE Sums divide_as_tried() {
    const PlanTask& task = task_;
    const std::int32_t packs = packs_;
    const Places to{in_items_, in_spans_};
    return block_.sum(most(packs, kTeller + 1), Sums{}, [&task, to, packs](std::int32_t i) {
      const BlockMemory::State& state = *task.block.state;
      if (i == kTeller) tell_batch(task, state.chosen.reads.read_tokens);
      if (i >= packs) return Sums{};
      PlannedPack pack = task.memory.packs[i];
      if (pack.tile < 0) return Sums{{kOther, 0, 0}};
      const Range members = task.memory.frames[pack.tile].members;
      const std::int64_t spans = spans_of(task.memory, pack);  // read before anything is written
      TaskLoad load = load_of(task, pack);
      const std::int32_t widest = least(state.widest, task.machine.max_queries());
      const TrunkWidth width = narrowed_for(widest, task.machine.widths[state.chosen.width]);
      const TaskLoad tried = TrunkTiling(state.costs, state.requests).load(width, members.begin, members.end);
      const bool same = load.tokens == tried.tokens && load.matrix_tokens == tried.matrix_tokens &&
                        load.rows == tried.rows && load.queries == tried.queries && load.changes == tried.changes;
      load.price(state.costs);
      Sums sums = put_lengths(task, i, load, CutChoice::parts(load, state.chosen.pieces), spans, to);
      if (!same) sums.at[kParts] += kOther;
      return sums;
    });
  }

  TRUNKLINE_HOST_DEVICE static TaskLoad load_of(const PlanTask& task, const PlannedPack& pack) {
    const PlanMemory& memory = task.memory;
    const std::int32_t queries = size_of(pack.positions);
    const bool alone = pack.tile < 0;
    const std::int64_t tokens = alone ? most(memory.path_tokens[pack.order_index], 0) : memory.tiles[pack.tile].tokens;
    const bool halves = pack.first_half > 0 && pack.first_half < queries;
    std::int64_t matrix_tokens = tokens;
    if (!alone && queries == size_of(memory.frames[pack.tile].positions)) {
      matrix_tokens = memory.tiles[pack.tile].matrix_tokens;
    } else if (halves) {
      matrix_tokens = 2 * tokens;  // all of one request's queries see all of its tokens
    }
    const std::int32_t rows =
        task.block.state->costs.rows(queries, task.machine.widths[pack.width].rows, pack.first_half > 0);
    return {tokens, matrix_tokens, rows, queries, 0, halves ? HalfChanges::of(tokens, matrix_tokens, queries) : 0};
  }

  /// \return tokens that they read
  TRUNKLINE_HOST_DEVICE std::int64_t load_packs() {
    const PlanTask& task = task_;
    return block_.sum(packs_, std::int64_t{0}, [&task](std::int32_t i) {
      const TaskLoad load = load_of(task, task.memory.packs[i]);
      task.memory.loads[i] = load;
      return load.tokens;
    });
  }

  /// QueryOrder::needed_tokens.
  TRUNKLINE_HOST_DEVICE std::int64_t needed_tokens() {
    const PlanTask& task = task_;
    const BlockMemory::State& state = *task.block.state;
    if (state.requests.count == state.full) return task.forest.distinct_tokens;
    return block_.sum(task.forest.node_count, std::int64_t{0}, [&task](std::int32_t i) {
      const ForestNode& node = task.forest.nodes[i];
      const std::int32_t* const position = task.memory.position;
      const bool read = position[node.requests.begin] < position[node.requests.end];
      return std::int64_t{read ? node.end - node.begin : 0};
    });
  }

  // All price the loads too.
  TRUNKLINE_HOST_DEVICE CutOutcome cut_few() {
    const PlanTask& task = task_;
    const BlockMemory& own = task_.block;
    const CutOutcome outcome = choose_few_cuts(
        block_, own, task_.memory.loads, packs_, needed_tokens(),
        [&task](std::int32_t i) { return load_of(task, task.memory.packs[i]); }, [](std::int32_t) {});
    block_.once([&own, &outcome] { outcome.reads.put_into(own.state->costs); });
    return outcome;
  }
  TRUNKLINE_HOST_DEVICE CutChoice::Pieces cut_for_balance(std::int64_t read) {
    set_costs(needed_tokens(), read);
    return choose_cuts(block_, task_.block, task_.memory.loads, packs_, read).pieces;
  }
  TRUNKLINE_HOST_DEVICE CutChoice::Pieces price(std::int64_t read) {
    set_costs(needed_tokens(), read);
    const PlanMemory& memory = task_.memory;
    const TaskCosts& costs = task_.block.state->costs;
    block_.each(packs_, [&memory, &costs](std::int32_t i) { memory.loads[i].price(costs); });
    return {};
  }
  TRUNKLINE_HOST_DEVICE void set_costs(std::int64_t needed, std::int64_t read) {
    const BlockMemory& own = task_.block;
    block_.once([&own, read, needed] { own.state->costs.set_rereads(needed, read); });
  }

  /// Where what a pack brings is to be scanned.
  struct Places {
    std::int64_t* items;  ///< and their queries
    std::int64_t* spans;  ///< and masks
  };

  /// Beside that, what others are told of the batch.
  TRUNKLINE_HOST_DEVICE Sums find_lengths(const CutChoice::Pieces& pieces, std::int64_t read) {
    const PlanTask& task = task_;
    const std::int32_t packs = packs_;
    const Places to{in_items_, in_spans_};
    return block_.sum(most(packs, kTeller + 1), Sums{}, [&task, &pieces, to, packs, read](std::int32_t i) {
      if (i == kTeller) tell_batch(task, read);
      if (i >= packs) return Sums{};
      const TaskLoad load = task.memory.loads[i];
      const std::int64_t spans = spans_of(task.memory, task.memory.packs[i]);
      return put_lengths(task, i, load, CutChoice::parts(load, pieces), spans, to);
    });
  }

  TRUNKLINE_HOST_DEVICE static Sums put_lengths(const PlanTask& task, std::int32_t i, const TaskLoad& load,
                                                std::int64_t parts, std::int64_t spans, const Places& to) {
    const std::int64_t entries = parts * load.queries;
    to.items[i] = (parts << 32) + entries;
    to.spans[i] = spans;
    task.memory.loads[i] = load;
    PlannedPack& pack = task.memory.packs[i];
    pack.tokens = load.tokens;
    pack.cut_tokens = pack.tile < 0 ? load.tokens : task.memory.tiles[pack.tile].cut_tokens;
    pack.parts = static_cast<std::int32_t>(parts);
    const std::int32_t ends = pack.tile < 0 ? 1 : PlanGrowth::open_ends(task.memory.tiles[pack.tile], pack.parts);
    if (ends > 1) Block::fetch_greatest(task.memory.shape[PlanMemory::kOpenEnds], ends);
    return Sums{{parts, parts > 1 ? entries : 0, static_cast<std::int32_t>(spans)}};
  }

  static constexpr std::int32_t kTeller = 32;  ///< not of the first warp, which has packs to do
  TRUNKLINE_HOST_DEVICE static void tell_batch(const PlanTask& task, std::int64_t read) {
    *task.memory.costs = task.block.state->costs;
    TeamPlanStatus& status = *task.memory.status;
    status.read_tokens = read;
    status.total_tokens = task.forest.total_tokens;
    status.distinct_tokens = task.forest.distinct_tokens;
  }

  /// Where the items of each pack, their queries, spans and masks begin; and, unless some are cut, their classes. Where
  /// lists are too long for their room, that alone is told; how many spans are cut is not known yet.
  TRUNKLINE_HOST_DEVICE void place_packs(const Sums& sums) {
    const PlanMemory& memory = task_.memory;
    const PlanCapacity& room = task_.machine.capacity;
    if (sums.at[kParts] > room.items || sums.at[kPartials] > room.partials || sums.at[kFragments] > room.spans) {
      block_.once([&memory] { memory.shape[PlanMemory::kFits] = 0; });
      return;
    }
    const std::int32_t packs = packs_;
    const bool cut = sums.at[kPartials] > 0;
    const std::int64_t* const items = in_items_;
    const std::int64_t* const spans = in_spans_;
    block_.template scan<TeamWords<2>>(
        packs,
        [items, spans](std::int32_t i) {
          return TeamWords<2>{{items[i], spans[i]}};
        },
        [&memory, sums, packs, cut](std::int32_t i, const TeamWords<2>& before) {
          if (i == packs) return put_shape(memory, sums, before);
          PlannedPack& pack = memory.packs[i];
          if (!cut) memory.classes[i] = static_cast<std::uint16_t>(CostClasses::class_of(memory.loads[i].whole));
          if (!cut && packs > FewPacks::kMost) memory.item_place[i] = 0;  // counted for more items than one thread sees
          pack.first_item = static_cast<std::int32_t>(before.at[0] >> 32);
          pack.first_entry = static_cast<std::int32_t>(before.at[0]);
          pack.first_fragment = static_cast<std::int32_t>(before.at[1]);
          pack.first_mask = static_cast<std::int32_t>(before.at[1] >> 32);
        });
  }
  /// \param all of what scans found
  TRUNKLINE_HOST_DEVICE static void put_shape(const PlanMemory& memory, const Sums& sums, const TeamWords<2>& all) {
    std::int32_t* const shape = memory.shape;
    shape[PlanMemory::kFits] = 1;
    shape[PlanMemory::kItems] = static_cast<std::int32_t>(sums.at[kParts]);
    shape[PlanMemory::kPartials] = static_cast<std::int32_t>(sums.at[kPartials]);
    shape[PlanMemory::kFragments] = static_cast<std::int32_t>(sums.at[kFragments]);
    shape[PlanMemory::kEntries] = static_cast<std::int32_t>(all.at[0]);
    shape[PlanMemory::kMasks] = static_cast<std::int32_t>(all.at[1] >> 32);
  }

  /// Fragments of a pack, and above 32 bits, masked ones.
  TRUNKLINE_HOST_DEVICE static std::int64_t spans_of(const PlanMemory& memory, const PlannedPack& pack) {
    if (pack.tile < 0) return 1;
    std::int32_t fragments = 0;
    std::int32_t masks = 0;
    for (const DealtList& list : memory.tiles[pack.tile].lists) {
      fragments += list.fragments;
      masks += list.masked;
    }
    return fragments + (std::int64_t{masks} << 32);
  }

  Block& block_;
  const PlanTask& task_;
  std::int32_t packs_;
  std::int64_t* in_items_;
  std::int64_t* in_spans_;
};

}  // namespace trunkline
