// A first look at the rows of a step: whether the plan that is kept still fits them, and what each shares with the row
// that owned what it shared in that plan. Of most steps that are planned anew the owners are the same: then that is
// what rounds of row_sharing.hpp would find, and RowSharing proves it by one more step.
//
// Cost: a barrier and, for a warp's rows together, four dependent reads (0.3 us each) besides the pages.
#pragma once

#include <cstdint>

#include "plan/team/page_compare.hpp"
#include "plan/team/row_sharing.hpp"
#include "plan/team/steady_rows.hpp"
#include "plan/team/team_batch.hpp"

namespace trunkline {

template <class Id>
class RowLook {
 public:
  /// \param planned with null rows nothing is known
  TRUNKLINE_HOST_DEVICE RowLook(const TeamBatch& batch, const SteadyRows& planned, const RowSharing& to,
                                const SharingScratch& scratch)
      : batch_(batch),
        planned_(planned),
        to_(to),
        s_(scratch),
        ids_(static_cast<const Id*>(batch.table.ids)),
        null_(batch.null_page),
        planned_rows_(planned.rows == nullptr ? 0 : *planned.count),
        growth_(planned.growth == nullptr ? kLongestRow : *planned.growth) {}

  /// Looks at every `step`-th row from `first` on. All lanes call it alike and get the result: first each looks at what
  /// is a row's and no page but one, then all compare the pages of one row after the other.
  /// \return whether all are as planned
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE bool look(const Lanes& lanes, std::int32_t first, std::int32_t step) const {
    bool steady = true;
    for (std::int32_t base = first; base < batch_.rows; base += step * lanes.count()) {
      const std::int32_t row = base + lanes.index() * step;
      Pair pair = row < batch_.rows ? pair_of(row) : Pair{};
      std::int32_t common = 0;
      for (std::int32_t lane = 0; lane < lanes.count() && base + lane * step < batch_.rows; ++lane) {
        const std::int32_t count = lanes.from(pair.parting, lane);
        if (count == 0) continue;
        const Id* const own = ids_ + lanes.from(pair.begin, lane);
        const Id* const owners = ids_ + lanes.from(pair.owner_begin, lane);
        const std::int32_t found = first_parting(lanes, own, owners, 0, count, null_);
        if (lanes.index() == lane) common = found;
      }
      if (row < batch_.rows) steady = tell(row, pair, common) && steady;
    }
    return !lanes.any(!steady);
  }

 private:
  /// A row and the one that is likely to own what it shares.
  struct Pair {
    std::int64_t begin;  ///< their first entries
    std::int64_t owner_begin;
    Id next_id;  ///< the row's page at `planned_page`, if it has that
    std::int32_t kv_len;
    std::int32_t tokens;  ///< that both have
    std::int32_t owner;
    std::int32_t parting;  ///< pages to be compared: those that both have, or fewer where the next is known to differ
    std::int32_t planned_page;  ///< -1: the row has no page there
    std::int32_t planned_shared;
    bool fits;
    bool may_be_steady;
  };

  TRUNKLINE_HOST_DEVICE Pair pair_of(std::int32_t row) const {
    const std::int32_t page_size = batch_.table.page_size;
    SteadyRow planned;
    if (planned_.rows != nullptr) planned = planned_.rows[row];
    const TeamRow live = team_row(batch_, row);
    const bool known = row < planned_rows_ && planned.owner < row && planned.owner >= -1 && planned.shared >= 0;
    Pair pair{};
    pair.begin = live.begin;
    pair.kv_len = live.kv_len;
    pair.fits = live.fits;
    // Of a row that is new the first is likely to be: of most batches that share, all share one prefix.
    pair.owner = known ? planned.owner : row > 0 ? 0 : -1;
    pair.planned_shared = known ? planned.shared : 0;
    pair.planned_page = pair.planned_shared < live.kv_len ? pair.planned_shared / page_size : -1;
    pair.may_be_steady = known && is_within_bounds(row, live, planned);
    if (pair.planned_page >= 0) {
      pair.next_id = ids_[live.begin + pair.planned_page];
      pair.may_be_steady = pair.may_be_steady && std::int64_t{pair.next_id} == planned.next_id;
    }
    if (pair.owner < 0) return pair;
    const TeamRow owner = team_row(batch_, pair.owner);
    pair.owner_begin = owner.begin;
    pair.tokens = least(live.kv_len, owner.kv_len);
    pair.parting = team_pages(pair.tokens, page_size);
    if (pair.planned_page >= 0 && pair.planned_page < pair.parting) {
      const Id owners = ids_[owner.begin + pair.planned_page];
      if (owners != pair.next_id || null_.is(owners)) pair.parting = pair.planned_page;
    }
    return pair;
  }
  TRUNKLINE_HOST_DEVICE bool is_within_bounds(std::int32_t row, const TeamRow& live, const SteadyRow& planned) const {
    const std::int32_t queries =
        batch_.query_start == nullptr ? 1 : batch_.query_start[row + 1] - batch_.query_start[row];
    return live.fits && live.kv_len >= planned.least_len && live.kv_len <= planned.most_len &&
           live.kv_len - planned.planned_len <= growth_ && queries == planned.queries;
  }

  /// \param common pages of those compared \return whether the row is as planned
  TRUNKLINE_HOST_DEVICE bool tell(std::int32_t row, const Pair& pair, std::int32_t common) const {
    const std::int32_t page_size = batch_.table.page_size;
    const bool all = common == team_pages(pair.tokens, page_size);
    const std::int32_t shared = all ? pair.tokens : common * page_size;
    const bool goes_on = pair.kv_len > shared;
    const std::int32_t page = shared / page_size;
    const Id next = !goes_on ? Id{0} : page == pair.planned_page ? pair.next_id : ids_[pair.begin + page];
    to_.kv_len(row) = pair.kv_len;
    to_.shared(row) = shared;
    to_.owner(row) = shared > 0 ? pair.owner : -1;
    to_.level(row) = !pair.fits       ? RowSharing::kUnfit
                     : !goes_on       ? RowSharing::kInside
                     : null_.is(next) ? RowSharing::kApart
                                      : RowSharing::kOpen;
    to_.next_id(row) = next;
    return pair.may_be_steady && shared == pair.planned_shared;
  }

  const TeamBatch& batch_;
  const SteadyRows& planned_;
  const RowSharing& to_;
  const SharingScratch& s_;
  const Id* ids_;
  TeamNullId<Id> null_;
  std::int32_t planned_rows_;
  std::int32_t growth_;
};

}  // namespace trunkline
