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
      : block_(block), task_(task), packs_(task.memory.shape[PlanMemory::kPacks]) {}

  /// \param cut as CutChoice finds it; else not at all
  TRUNKLINE_HOST_DEVICE void divide(bool cut) {
    const std::int64_t read = load_packs();
    const CutChoice::Pieces pieces = cut ? cut_for_balance(read) : price();
    if (find_lengths(pieces, read)) place_packs();
  }

 private:
  /// \return tokens that they read
  TRUNKLINE_HOST_DEVICE std::int64_t load_packs() {
    const PlanTask& task = task_;
    const std::int64_t read = block_.sum(packs_, std::int64_t{0}, [&task](std::int32_t i) {
      const PlanMemory& memory = task.memory;
      const PlannedPack pack = memory.packs[i];
      const Range held = pack.positions;
      const std::int32_t queries = size_of(held);
      const bool alone = pack.tile < 0;
      const std::int64_t tokens =
          alone ? most(memory.path_tokens[pack.order_index], 0) : memory.tiles[pack.tile].tokens;
      std::int64_t matrix_tokens = tokens;
      if (!alone && queries == size_of(memory.tiles[pack.tile].positions)) {
        matrix_tokens = memory.tiles[pack.tile].matrix_tokens;
      } else if (pack.first_half > 0 && pack.first_half < queries) {
        matrix_tokens = 2 * tokens;  // all of one request's queries see all of its tokens
      }
      const bool halves = pack.first_half > 0 && pack.first_half < queries;
      const std::int32_t rows =
          task.block.state->costs.rows(queries, task.machine.widths[pack.width].rows, pack.first_half > 0);
      memory.loads[i] = {
          tokens, matrix_tokens, rows, queries, 0, halves ? HalfChanges::of(tokens, matrix_tokens, queries) : 0};
      memory.packs[i].tokens = tokens;
      return tokens;
    });
    const std::int64_t needed = needed_tokens();
    const BlockMemory& own = task_.block;
    block_.once([&own, &task, read, needed] {
      own.state->costs.set_rereads(needed, read);
      task.memory.shape[PlanMemory::kOpenEnds] = 1;
    });
    return read;
  }

  /// QueryOrder::needed_tokens.
  TRUNKLINE_HOST_DEVICE std::int64_t needed_tokens() {
    const PlanTask& task = task_;
    const std::int32_t* const shape = task.memory.shape;
    if (shape[PlanMemory::kListed] == shape[PlanMemory::kFull]) return task.forest.distinct_tokens;
    return block_.sum(task.forest.node_count, std::int64_t{0}, [&task](std::int32_t i) {
      const ForestNode& node = task.forest.nodes[i];
      const std::int32_t* const position = task.memory.position;
      const bool read = position[node.requests.begin] < position[node.requests.end];
      return std::int64_t{read ? node.end - node.begin : 0};
    });
  }

  TRUNKLINE_HOST_DEVICE CutChoice::Pieces cut_for_balance(std::int64_t read) {
    return choose_cuts(block_, task_.block, task_.memory.loads, packs_, read).pieces;
  }
  TRUNKLINE_HOST_DEVICE CutChoice::Pieces price() {
    const PlanMemory& memory = task_.memory;
    const TaskCosts& costs = task_.block.state->costs;
    block_.each(packs_, [&memory, &costs](std::int32_t i) { memory.loads[i].price(costs); });
    return {};
  }

  /// Beside that, what others are told of the batch.
  /// \return whether they fit, as far as that is known before it is known how many spans are cut
  TRUNKLINE_HOST_DEVICE bool find_lengths(const CutChoice::Pieces& pieces, std::int64_t read) {
    enum : std::size_t { kItems, kPartials, kFragments, kSums };
    const PlanTask& task = task_;
    const PlanMemory& memory = task_.memory;
    const std::int32_t packs = packs_;
    std::int64_t* const in_items = memory.pack_sums;
    std::int64_t* const in_spans = memory.pack_sums + packs_;
    using Sums = TeamWords<kSums>;
    const Sums sums =
        block_.sum(most(packs, kTeller + 1), Sums{}, [&task, &pieces, in_items, in_spans, packs, read](std::int32_t i) {
          if (i == kTeller) tell_batch(task, read);
          if (i >= packs) return Sums{};
          PlannedPack& pack = task.memory.packs[i];
          const std::int64_t parts = CutChoice::parts(task.memory.loads[i], pieces);
          const std::int64_t spans = spans_of(task.memory, pack);  // reads before anything is written
          const std::int64_t entries = parts * size_of(pack.positions);
          in_items[i] = (parts << 32) + entries;
          in_spans[i] = spans;
          pack.parts = static_cast<std::int32_t>(parts);
          if (pack.tile >= 0) {
            const std::int32_t ends = PlanGrowth::open_ends(task.memory.tiles[pack.tile], pack.parts);
            if (ends > 1) Block::fetch_greatest(task.memory.shape[PlanMemory::kOpenEnds], ends);
          }
          return Sums{{parts, parts > 1 ? entries : 0, static_cast<std::int32_t>(spans)}};
        });
    const PlanCapacity& room = task_.machine.capacity;
    const bool fits =
        sums.at[kItems] <= room.items && sums.at[kPartials] <= room.partials && sums.at[kFragments] <= room.spans;
    block_.once([&memory, &sums, fits] {
      memory.shape[PlanMemory::kFits] = fits ? 1 : 0;
      if (!fits) return;
      memory.shape[PlanMemory::kItems] = static_cast<std::int32_t>(sums.at[kItems]);
      memory.shape[PlanMemory::kPartials] = static_cast<std::int32_t>(sums.at[kPartials]);
      memory.shape[PlanMemory::kFragments] = static_cast<std::int32_t>(sums.at[kFragments]);
      memory.shape[PlanMemory::kSplits] = 0;
      memory.shape[PlanMemory::kMaskedSplits] = 0;
      memory.shape[PlanMemory::kMerges] = 0;
    });
    return fits;
  }

  static constexpr std::int32_t kTeller = 32;  ///< not of the first warp, which has packs to do
  TRUNKLINE_HOST_DEVICE static void tell_batch(const PlanTask& task, std::int64_t read) {
    *task.memory.costs = task.block.state->costs;
    TeamPlanStatus& status = *task.memory.status;
    status.read_tokens = read;
    status.total_tokens = task.forest.total_tokens;
    status.distinct_tokens = task.forest.distinct_tokens;
  }

  /// Where the items of each pack, their queries, spans and masks begin; and, unless some are cut, all of items.
  TRUNKLINE_HOST_DEVICE void place_packs() {
    const PlanMemory& memory = task_.memory;
    const std::int32_t packs = packs_;
    const bool cut = memory.shape[PlanMemory::kPartials] > 0;
    const std::int64_t* const items = memory.pack_sums;
    const std::int64_t* const spans = memory.pack_sums + packs_;
    block_.template scan<TeamWords<2>>(
        packs,
        [items, spans](std::int32_t i) {
          return TeamWords<2>{{items[i], spans[i]}};
        },
        [&memory, packs, cut](std::int32_t i, const TeamWords<2>& before) {
          if (i == packs) {
            memory.item_splits[before.at[0] >> 32] = 0;
            memory.shape[PlanMemory::kEntries] = static_cast<std::int32_t>(before.at[0]);
            memory.shape[PlanMemory::kMasks] = static_cast<std::int32_t>(before.at[1] >> 32);
            return;
          }
          PlannedPack& pack = memory.packs[i];
          const auto first_item = static_cast<std::int32_t>(before.at[0] >> 32);
          if (!cut) memory.place_item(first_item, i, memory.loads[i].whole);
          pack.first_item = first_item;
          pack.first_entry = static_cast<std::int32_t>(before.at[0]);
          pack.first_fragment = static_cast<std::int32_t>(before.at[1]);
          pack.first_mask = static_cast<std::int32_t>(before.at[1] >> 32);
        });
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
};

}  // namespace trunkline
