// The first half of planning by a team: the forest of a batch, equal to build_forest()'s.
//
// A barrier of a cluster takes 0.6 us, a step of one block with its barrier 0.3 to 0.8. So where owners are guessed,
// each block finds for itself whether they are right; where rounds are needed, one block does all but the comparing of
// pages, and waits for the others twice a round of sharing_search.hpp. What it costs: docs/planning.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/forest_layout.hpp"
#include "plan/team/near_forest.hpp"
#include "plan/team/owner_repair.hpp"
#include "plan/team/query_starts.hpp"
#include "plan/team/row_ends.hpp"
#include "plan/team/row_sharing.hpp"
#include "plan/team/sharing_search.hpp"
#include "plan/team/steady_rows.hpp"
#include "plan/team/team_batch.hpp"
#include "plan/team/team_forest.hpp"
#include "plan/team/team_memory.hpp"

namespace trunkline {

/// All that the phase keeps in memory, for a number of rows. It is fastest in each block's shared memory: some 108
/// bytes a row.
struct ForestPhaseMemory {
  SeenRow* seen = nullptr;  // where tasks of the search are, before there are any
  ForestPhaseResult* result = nullptr;
  TokenSums* sums = nullptr;
  RowSharing sharing;
  SharingScratch search;
  LayoutScratch layout;  // where tasks and search were, which are done by then
  std::size_t bytes = 0;

  /// \param base aligned to 16 bytes; null to learn `bytes` alone
  TRUNKLINE_HOST_DEVICE ForestPhaseMemory(std::byte* base, std::int32_t rows) {
    constexpr std::int32_t kColumns = RowSharing::kColumns + most(SharingScratch::kColumns, LayoutScratch::kColumns);
    const std::int32_t length = whole_room(rows + 1);  // some sums have an end
    TeamMemory memory(base);
    constexpr std::size_t kTaskBytes = LayoutScratch::kWideColumns * sizeof(std::uint64_t);
    static_assert(sizeof(SeenRow) <= sizeof(SharingTask) && sizeof(SharingTask) <= kTaskBytes);
    auto* const wide = memory.take<std::uint64_t>(LayoutScratch::kWideColumns * std::int64_t{length});
    seen = reinterpret_cast<SeenRow*>(base);
    result = memory.take<ForestPhaseResult>(1);
    sums = memory.take<TokenSums>(1);
    const TeamColumns<std::int32_t> columns = {memory.take<std::int32_t>(kColumns * std::int64_t{length}), length};
    sharing = {columns, rows};
    search = {memory, reinterpret_cast<SharingTask*>(wide), columns, RowSharing::kColumns, rows};
    layout = {wide, columns, RowSharing::kColumns};
    bytes = memory.bytes();
  }
};

/// What a block does for planning beside finding the forest. This one: nothing.
struct NothingBeside {
  /// The step is planned anew.
  TRUNKLINE_HOST_DEVICE void settle() const {}
  /// Whether a plan follows, by the same blocks.
  TRUNKLINE_HOST_DEVICE bool plans() const { return false; }
  /// Of each row of a forest that the block has near; by some thread. \param alike the row has
  /// tokens, its last node alone, and one query: else its index and what it shares may be others
  TRUNKLINE_HOST_DEVICE void take(const NearRow&, bool /*alike*/) const {}
  /// Of such a forest, by one thread. \param hot tokens that several rows have, if all are alike
  TRUNKLINE_HOST_DEVICE void take_hot(std::int64_t /*hot*/) const {}
  /// Where a block may have the forest in its own memory.
  TRUNKLINE_HOST_DEVICE bool has_near() const { return false; }
  TRUNKLINE_HOST_DEVICE NearForest near() const { return {}; }
};

/// A search for the forest of a batch by all of a team: see find_forest().
template <class Hash, class Team, class Beside>
class ForestSearch {
 public:
  TRUNKLINE_HOST_DEVICE ForestSearch(Team& team, const TeamBatch& batch, const LastStep& last,
                                     const SteadyRows& planned, std::byte* own, std::byte* memory,
                                     const TeamForest& forest, const Beside& beside)
      : team_(team),
        batch_(batch),
        planned_(planned),
        own_(own),
        memory_(memory),
        forest_(forest),
        beside_(beside),
        nodes_(last.forest.nodes),
        rows_kept_(last.forest.rows == batch.rows),
        guesses_(last.is_likely()) {}

  template <class Keep, class Finish>
  TRUNKLINE_HOST_DEVICE bool run(Keep keep, Finish finish) {
    if (guesses_) guess_owners();
    const bool near = guesses_ && uses_near() && guess_ == OwnerGuess::kSameShape;
    if (near) {
      update_near(keep, finish);
    } else {
      search_rounds(keep, finish);
    }
    return near;
  }

 private:
  TRUNKLINE_HOST_DEVICE bool uses_near() const { return rows_kept_ && beside_.has_near() && team_.has_own(own_); }
  TRUNKLINE_HOST_DEVICE ForestPhaseMemory arrays_in(std::byte* memory) const {
    return {Team::forgotten(memory), batch_.rows};
  }
  template <class Id>
  TRUNKLINE_HOST_DEVICE SharingSearch<Id, Hash> search_in(const ForestPhaseMemory& arrays) const {
    return {batch_, arrays.sharing, arrays.search};
  }

  /// Each block confirms for itself what was seen of rows.
  TRUNKLINE_HOST_DEVICE void guess_owners() {
    team_.own_or_lead(team_.has_own(own_), [this](auto& block) {
      if (uses_near()) {
        copy_seen(block);
        beside_.near().copy(block, forest_, nodes_, false);
      }
      search_in<std::int32_t>(arrays_in(own_)).clear_slots(block);
      finish_copies();
      block.each(0, [](std::int32_t) {});
      if (batch_.table.wide) {
        confirm_first<std::int64_t>(block);
      } else {
        confirm_first<std::int32_t>(block);
      }
    });
  }
  template <class Block>
  TRUNKLINE_HOST_DEVICE void copy_seen(Block& block) const {
    SeenRow* const to = arrays_in(own_).seen;
    const SeenRow* const from = planned_.seen;
    block.each_at_last(batch_.rows, [to, from](std::int32_t row) { copy_ahead<16>(to[row], from[row]); });
  }
  template <class Id, class Block>
  TRUNKLINE_HOST_DEVICE void confirm_first(Block& block) {
    const ForestPhaseMemory arrays = arrays_in(own_);
    SharingSearch<Id, Hash> search = search_in<Id>(arrays);
    std::int32_t* const near = uses_near() ? beside_.near().query_begin : nullptr;
    std::int32_t* const all = team_.leads() ? forest_.query_begin : nullptr;
    block.each_at_last(1, [&](std::int32_t) {
      arrays.result->faults = {};
      arrays.result->node_count = nodes_;
      arrays.result->unlike = 1;  // until rows are told
      *arrays.sums = {};
    });
    guess_ = search.confirm_seen(block, uses_near() ? arrays.seen : planned_.seen,
                                 [near, all](std::int32_t i, std::int32_t begin) {
                                   if (near != nullptr) near[i] = begin;
                                   if (all != nullptr) all[i] = begin;
                                 });
  }

  /// The last forest, which each block has near, but for the ends of rows. Another block's copy of it may still be on
  /// its way while these are written for all: it will have the same ends, as that block writes them itself.
  template <class Keep, class Finish>
  TRUNKLINE_HOST_DEVICE void update_near(Keep keep, Finish finish) {
    team_.meet();
    team_.own([&](auto& block, bool) {
      const ForestPhaseMemory arrays = arrays_in(own_);
      const NearForest near = beside_.near();
      update_ends(
          block, arrays.sharing, near.nodes, near.node, forest_, *arrays.sums,
          [this](std::int32_t row) { return team_.takes(row); },
          [&](std::int32_t row, bool alone) { keep(arrays, row, alone); },
          [&](std::int32_t row, const ForestNode* node, bool alone) {
            const bool alike = alone && near.query_begin[row + 1] - near.query_begin[row] == 1;
            const std::int32_t index = node == nullptr ? 0 : node->requests.begin;
            beside_.take({index, arrays.sharing.kv_len(row), arrays.sharing.shared(row)}, alike);
          });
      block.each_at_last(1, [&](std::int32_t) {
        tell_tokens(arrays);
        beside_.take_hot(arrays.sums->of(TokenSums::kDistinct) - arrays.sums->of(TokenSums::kAlone));
        if (team_.leads()) finish(arrays, OwnerGuess::kSameShape);
      });
    });
  }
  TRUNKLINE_HOST_DEVICE static void tell_tokens(const ForestPhaseMemory& arrays) {
    const TokenSums sums = *arrays.sums;
    arrays.result->total_tokens = sums.of(TokenSums::kTotal);
    arrays.result->distinct_tokens = sums.of(TokenSums::kDistinct);
  }

  /// By the lead, whose memory the arrays are; all compare pages.
  template <class Keep, class Finish>
  TRUNKLINE_HOST_DEVICE void search_rounds(Keep keep, Finish finish) {
    std::int32_t tasks = 0;
    std::int32_t first_round = guesses_ ? -1 : 0;  // of the search by rounds; -1: owners are guessed
    std::int32_t turn = 0;                         // at guessing
    team_.lead_rounds(
        [&](auto& block, std::int32_t round) {
          const ForestPhaseMemory arrays = arrays_in(memory_);
          if (round == 0 && first_round == 0) block.once([&] { *arrays.result = {}; });
          const auto next = [&](auto search, auto repair) -> std::int32_t {
            while (first_round < 0) {
              if (turn > 0) guess_ = search.confirm(block, turn);
              if (is_right(guess_)) return 0;
              const std::int32_t compared = ++turn < repair.kMostTurns ? repair.next(block) : -1;
              if (compared > 0) return compared;
              if (compared < 0) first_round = round;
            }
            return search.next(block, round - first_round, tasks, forest_.query_begin, arrays.result->faults);
          };
          tasks = batch_.table.wide ? next(search_in<std::int64_t>(arrays),
                                           OwnerRepair<std::int64_t>(batch_, arrays.sharing, arrays.search))
                                    : next(search_in<std::int32_t>(arrays),
                                           OwnerRepair<std::int32_t>(batch_, arrays.sharing, arrays.search));
          return tasks;
        },
        [&](std::int32_t i, const auto& lanes) {
          const ForestPhaseMemory arrays = arrays_in(memory_);
          if (batch_.table.wide) {
            search_in<std::int64_t>(arrays).compare(lanes, i);
          } else {
            search_in<std::int32_t>(arrays).compare(lanes, i);
          }
        },
        [&](auto& block) {
          const ForestPhaseMemory arrays = arrays_in(memory_);
          lay_out(block, arrays, [&](std::int32_t row, bool alone) { keep(arrays, row, alone); });
          block.once([&] {
            name_faults(batch_, arrays.result->faults);
            finish(arrays, guess_);
          });
        });
  }
  template <class Block, class Keep>
  TRUNKLINE_HOST_DEVICE void lay_out(Block& block, const ForestPhaseMemory& arrays, Keep keep) {
    if (guess_ == OwnerGuess::kSameShape && rows_kept_) {
      update_ends(
          block, arrays.sharing, forest_.nodes, forest_.node, forest_, *arrays.sums, [](std::int32_t) { return true; },
          keep, [](std::int32_t, const ForestNode*, bool) {});
      block.each_at_last(1, [&](std::int32_t) { tell_tokens(arrays); });
      return;
    }
    const LaidOutForest laid_out = ForestLayout(arrays.sharing, arrays.layout, forest_).run(block, keep);
    block.each_at_last(1, [&](std::int32_t) {
      arrays.result->node_count = laid_out.nodes;
      arrays.result->total_tokens = laid_out.total_tokens;
      arrays.result->distinct_tokens = laid_out.distinct_tokens;
      arrays.result->hot_tokens = laid_out.hot_tokens;
      arrays.result->unlike = laid_out.unlike;
    });
  }

  Team& team_;
  const TeamBatch& batch_;
  const SteadyRows& planned_;
  std::byte* own_;
  std::byte* memory_;
  const TeamForest& forest_;
  const Beside& beside_;
  std::int32_t nodes_;
  bool rows_kept_;
  bool guesses_;
  OwnerGuess guess_ = OwnerGuess::kNone;
};

/// Fills the arrays of `forest`, which has room for the batch's rows.
/// Whatever the table, lengths and query_start hold, only entries of the table are read, and the result is a forest.
/// \tparam Hash of groups of rows, for tests
/// \param last of the step whose forest the arrays still hold; before all blocks have come here, as those that meet()
/// know, nothing of that step is overwritten
/// \param planned of which only what look_at_rows() has seen is read
/// \param own each block's memory, as ForestPhaseMemory has it for the batch's rows, or the same for all
/// \param memory the lead's
/// \param keep(arrays, row, alone) of each row, by some thread; alone: it ends in a node that no other row is in
/// \param finish(arrays, guess) by one thread; `arrays.result` has the counts and faults
/// \return to all threads, whether each block has the forest in its beside.near(), and the result in its own memory;
/// else both are known to all
/// When all return, blocks have nothing to do with each other any more.
template <class Hash = SharingHash, class Team, class Keep, class Finish, class Beside = NothingBeside>
TRUNKLINE_HOST_DEVICE bool find_forest(Team& team, const TeamBatch& batch, const LastStep& last,
                                       const SteadyRows& planned, std::byte* own, std::byte* memory,
                                       const TeamForest& forest, Keep keep, Finish finish, const Beside& beside = {}) {
  return ForestSearch<Hash, Team, Beside>(team, batch, last, planned, own, memory, forest, beside).run(keep, finish);
}

}  // namespace trunkline
