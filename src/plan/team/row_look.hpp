// A look at the rows of a step that is planned anew: what each shares with the row that owned what it shared in the
// last plan. In most such steps the owners are the same: then that is what rounds of row_sharing.hpp would find, and
// SharingSearch confirms it by one more step. And mostly, as where rows have grown, the forest has the shape that it
// had: each row parts from its owner or ends where it did, inside of its owner or at its end as it did. Then all of the
// forest but the ends of rows is what it was.
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
  TRUNKLINE_HOST_DEVICE RowLook(const TeamBatch& batch, const SteadyRows& planned, const RowSharing& to,
                                const SharingScratch& scratch)
      : batch_(batch),
        planned_(planned),
        to_(to),
        s_(scratch),
        ids_(static_cast<const Id*>(batch.table.ids)),
        null_(batch.null_page),
        planned_rows_(planned.last->rows) {}

  /// Looks at every `step`-th row from `first` on. All lanes call it alike: first each looks at what is a row's and no
  /// page but one, then all compare the pages of one row after the other.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE void look(const Lanes& lanes, std::int32_t first, std::int32_t step) const {
    for (std::int32_t base = first; base < batch_.rows; base += step * lanes.count()) {
      const std::int32_t row = base + lanes.index() * step;
      const Pair pair = row < batch_.rows ? pair_of(row) : Pair{};
      std::int32_t common = 0;
      for (std::int32_t lane = 0; lane < lanes.count() && base + lane * step < batch_.rows; ++lane) {
        const std::int32_t pages = lanes.from(pair.pages, lane);
        if (pages == 0) continue;
        const Id* const own = ids_ + lanes.from(pair.begin, lane);
        const Id* const owners = ids_ + lanes.from(pair.owner_begin, lane);
        const std::int32_t found = first_parting(lanes, own, owners, 0, pages, null_);
        if (lanes.index() == lane) common = found;
      }
      if (row < batch_.rows) tell(row, pair.begin, common);
    }
  }

 private:
  /// Where the pages of a row are, and of the one that is likely to own what it shares. All else waits in the memory of
  /// what is to be told, as comparing needs the registers.
  struct Pair {
    std::int64_t begin = 0;  ///< first entries
    std::int64_t owner_begin = 0;
    std::int32_t pages = 0;  ///< to be compared: those that both have, or fewer where the next is known to differ
  };

  /// Leaves RowSharing::kv_len, -1 if that does not fit; as shared, what the row shared with its owner; next_id of
  /// that; SharingScratch::reshaped, unless the row shares another number of tokens; and as place, tokens that both
  /// have.
  TRUNKLINE_HOST_DEVICE Pair pair_of(std::int32_t row) const {
    const std::int32_t page_size = batch_.table.page_size;
    const SteadyRow planned = planned_.rows[row];
    const TeamRow live = team_row(batch_, row);
    const bool known = row < planned_rows_ && planned.owner < row && planned.owner >= -1 && planned.shared >= 0;
    // Of a row that is new the first is likely to be: of most batches that share, all share one prefix.
    const std::int32_t likely = known ? planned.owner : row > 0 ? 0 : -1;
    const std::int32_t shared = known ? planned.shared : 0;
    const bool goes_on = live.kv_len > shared;
    const std::int32_t page = shared / page_size;
    Id next_id{};
    if (goes_on) next_id = ids_[live.begin + page];
    bool same = known && goes_on == (planned.planned_len > shared);
    Pair pair;
    pair.begin = live.begin;
    std::int32_t tokens = 0;
    if (likely >= 0) {
      const std::int32_t planned_owner_len = known ? planned_.rows[likely].planned_len : 0;
      const TeamRow owner = team_row(batch_, likely);
      same = same && (owner.kv_len == shared) == (planned_owner_len == shared);
      pair.owner_begin = owner.begin;
      tokens = least(live.kv_len, owner.kv_len);
      pair.pages = team_pages(tokens, page_size);
      if (goes_on && page < pair.pages) {
        const Id owners = ids_[owner.begin + page];
        if (owners != next_id || null_.is(owners)) pair.pages = page;
      }
    }
    to_.kv_len(row) = live.fits ? live.kv_len : -1;
    to_.shared(row) = shared;
    to_.owner(row) = likely;
    to_.next_id(row) = next_id;
    s_.reshaped(row) = same ? 0 : 1;
    s_.place(row) = tokens;
    return pair;
  }

  /// \param begin first entry \param common pages of those compared
  TRUNKLINE_HOST_DEVICE void tell(std::int32_t row, std::int64_t begin, std::int32_t common) const {
    const std::int32_t page_size = batch_.table.page_size;
    const std::int32_t tokens = s_.place(row);
    const std::int32_t planned_shared = to_.shared(row);
    const std::int32_t kv_len = to_.kv_len(row);
    const std::int32_t shared = common == team_pages(tokens, page_size) ? tokens : common * page_size;
    const bool goes_on = kv_len > shared;
    if (goes_on && shared != planned_shared) to_.next_id(row) = ids_[begin + shared / page_size];
    to_.shared(row) = shared;
    if (shared == 0) to_.owner(row) = -1;
    to_.level(row) = kv_len < 0                                    ? RowSharing::kUnfit
                     : !goes_on                                    ? RowSharing::kInside
                     : null_.is(static_cast<Id>(to_.next_id(row))) ? RowSharing::kApart
                                                                   : RowSharing::kOpen;
    if (shared != planned_shared) s_.reshaped(row) = 1;
  }

  const TeamBatch& batch_;
  const SteadyRows& planned_;
  const RowSharing& to_;
  const SharingScratch& s_;
  const Id* ids_;
  TeamNullId<Id> null_;
  std::int32_t planned_rows_;
};

}  // namespace trunkline
