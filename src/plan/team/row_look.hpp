// A look at the rows of a step that is planned anew: what each shares with the row that owned what it shared in the
// last plan. In most such steps the owners are the same: then that is what rounds of sharing_search.hpp would find, and
// SharingSearch confirms it by one more step. And mostly, as where rows have grown, the forest has the shape that it
// had: each row parts from its owner or ends where it did, inside of its owner or at its end as it did. Then all of the
// forest but the ends of rows is what it was.
//
// Each block is told what is seen of every row, so that each may confirm it for itself.
//
// Cost: an exchange between blocks and, for a warp's rows together, four dependent reads (0.3 us each) besides the
// pages.
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
  /// \param seen [rows] of the block, to be filled; kSamePages is told
  TRUNKLINE_HOST_DEVICE RowLook(const TeamBatch& batch, const SteadyRows& planned, SeenRow* seen)
      : batch_(batch),
        planned_(planned),
        seen_(seen),
        ids_(static_cast<const Id*>(batch.table.ids)),
        null_(batch.null_page),
        planned_rows_(planned.last->rows) {}

  /// Looks at every `step`-th row from `first` on. All lanes call it alike: first each looks at what is a row's and no
  /// page but one, then all compare the pages of one row after the other, but for those that is_steady() has found the
  /// same. \param tell(lanes, seen) of each row
  template <class Lanes, class Tell>
  TRUNKLINE_HOST_DEVICE void look(const Lanes& lanes, std::int32_t first, std::int32_t step, Tell tell) const {
    for (std::int32_t base = first; base < batch_.rows; base += step * lanes.count()) {
      const std::int32_t row = base + lanes.index() * step;
      const bool same = row < batch_.rows && seen_[row].level == SeenRow::kSamePages;
      Pair pair = row < batch_.rows ? pair_of(row) : Pair{};
      std::int32_t common = 0;
      if (same && pair.pages <= pair.shared_pages) {
        common = pair.pages;
        pair.pages = 0;
      }
      for (std::int32_t lane = 0; lane < lanes.count() && base + lane * step < batch_.rows; ++lane) {
        const std::int32_t pages = lanes.from(pair.pages, lane);
        if (pages == 0) continue;
        const Id* const own = ids_ + lanes.from(pair.begin, lane);
        const Id* const owners = ids_ + lanes.from(pair.owner_begin, lane);
        const std::int32_t found = first_parting(lanes, own, owners, 0, pages, null_);
        if (lanes.index() == lane) common = found;
      }
      if (row < batch_.rows) conclude(seen_[row], pair.begin, common);
      lanes.wait();
      for (std::int32_t lane = 0; lane < lanes.count() && base + lane * step < batch_.rows; ++lane) {
        tell(lanes, &seen_[base + lane * step]);
      }
    }
  }

 private:
  /// Where the pages of a row are, and of the one that is likely to own what it shares. All else waits in the memory of
  /// what is to be told, as comparing needs the registers.
  struct Pair {
    std::int64_t begin = 0;  ///< first entries
    std::int64_t owner_begin = 0;
    std::int32_t pages = 0;  ///< to be compared: those that both have, or fewer where the next is known to differ
    std::int32_t shared_pages = 0;  ///< of what the row shared with its owner
  };

  /// Leaves kv_len, -1 if that does not fit; as shared, what the row shared with its owner; next_id of that; reshaped,
  /// unless the row shares another number of tokens; and tokens.
  TRUNKLINE_HOST_DEVICE Pair pair_of(std::int32_t row) const {
    const PageSize page_size = batch_.table.page_size;
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
      pair.shared_pages = known ? team_pages(shared, page_size) : 0;
      if (goes_on && page < pair.pages) {
        const Id owners = ids_[owner.begin + page];
        if (owners != next_id || null_.is(owners)) pair.pages = page;
      }
    }
    SeenRow seen;
    seen.kv_len = live.fits ? live.kv_len : -1;
    seen.shared = shared;
    seen.owner = likely;
    seen.next_id = next_id;
    seen.reshaped = same ? 0 : 1;
    seen.tokens = tokens;
    store_whole(seen_[row], seen);
    return pair;
  }

  /// \param begin first entry \param common pages of those compared
  TRUNKLINE_HOST_DEVICE void conclude(SeenRow& seen, std::int64_t begin, std::int32_t common) const {
    const PageSize page_size = batch_.table.page_size;
    const std::int32_t tokens = seen.tokens;
    const std::int32_t planned_shared = seen.shared;
    const std::int32_t kv_len = seen.kv_len;
    const std::int32_t shared = common == team_pages(tokens, page_size) ? tokens : common * page_size;
    const bool goes_on = kv_len > shared;
    if (goes_on && shared != planned_shared) seen.next_id = ids_[begin + shared / page_size];
    seen.shared = shared;
    if (shared == 0) seen.owner = -1;
    seen.level = kv_len < 0                                ? RowSharing::kUnfit
                 : !goes_on                                ? RowSharing::kInside
                 : null_.is(static_cast<Id>(seen.next_id)) ? RowSharing::kApart
                                                           : RowSharing::kOpen;
    if (shared != planned_shared) seen.reshaped = 1;
  }

  const TeamBatch& batch_;
  const SteadyRows& planned_;
  SeenRow* seen_;
  const Id* ids_;
  TeamNullId<Id> null_;
  std::int32_t planned_rows_;
};

}  // namespace trunkline
