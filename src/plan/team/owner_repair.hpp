// Owners that looking at the rows (row_look.hpp) has guessed wrong, as where a request has joined in the place of one
// that owned what others share.
//
// What has been looked at is right all the same: how many tokens a row has in common with the row that it was compared
// with. Where these do not reach what that row owns, the row parts from that one's owner at the same token, and so on
// up to the row that owns its last shared token: no page is read. And where rows part from one owner at one token with
// the same page, they are compared with the least of them, as in a round of sharing_search.hpp. By turns of both,
// owners come to be what SharingSearch::confirm asks for; where only some were wrong, in one comparison or two, where
// rounds would take one a branching.
#pragma once

#include <cstdint>

#include "plan/team/row_sharing.hpp"
#include "plan/team/sharing_search.hpp"
#include "plan/team/team_batch.hpp"

namespace trunkline {

template <class Id>
class OwnerRepair {
 public:
  /// Beyond so many turns, rounds are left to find it.
  static constexpr std::int32_t kMostTurns = 8;

  TRUNKLINE_HOST_DEVICE OwnerRepair(const TeamBatch& batch, const RowSharing& rows, const SharingScratch& scratch)
      : batch_(batch), null_(batch.null_page), ids_(static_cast<const Id*>(batch.table.ids)), to_(rows), s_(scratch) {}

  /// After SharingSearch::confirm has found some owners wrong. \return rows that are to be compared (SharingTask)
  /// before owners are confirmed again; -1: rounds are faster, or name what is wrong with rows
  template <class Block>
  TRUNKLINE_HOST_DEVICE std::int32_t next(Block& block) {
    const std::int32_t worst =
        block.greatest(to_.rows, std::int32_t{kStays}, [&](std::int32_t row) { return climb(row); });
    if (worst == kUnfit) return -1;
    const bool climbed = worst == kClimbs;
    const std::int32_t tasks = block.select(
        to_.rows, [&](std::int32_t row) { return take(row, climbed); },
        [&](std::int32_t k, std::int32_t row) { s_.tasks[k] = task_of(row, climbed); });
    if (climbed) return tasks;
    return tasks == 0 || tasks > to_.rows / 2 ? -1 : tasks;
  }

 private:
  enum Step : std::int32_t { kStays, kClimbs, kUnfit };

  /// Where a row's owner will be, until take(): others read the owners there are now.
  TRUNKLINE_HOST_DEVICE std::int32_t& found(std::int32_t row) const { return s_.listed(1, row); }
  /// How an owner is written from whom it is not known yet where the row parts.
  TRUNKLINE_HOST_DEVICE static std::int32_t unknown(std::int32_t owner) { return -2 - owner; }

  TRUNKLINE_HOST_DEVICE Step climb(std::int32_t row) const {
    if (to_.level(row) == RowSharing::kUnfit) return kUnfit;
    const std::int32_t shared = to_.shared(row);
    const std::int32_t owner = to_.owner(row);
    std::int32_t above = owner;
    while (above >= 0 && shared <= to_.shared(above)) {
      const std::int32_t next = to_.owner(above);
      // Both part from the owner above at one token: this row may go along with that one.
      if (shared == to_.shared(above) && next >= 0 && goes_along(row, next, shared)) {
        found(row) = unknown(next);
        return kClimbs;
      }
      above = next;
    }
    found(row) = above;
    return above == owner ? kStays : kClimbs;
  }
  TRUNKLINE_HOST_DEVICE bool goes_along(std::int32_t row, std::int32_t owner, std::int32_t shared) const {
    if (to_.kv_len(row) <= shared || to_.kv_len(owner) <= shared) return false;
    const Id id = ids_[team_row(batch_, owner).begin + shared / batch_.table.page_size];
    return !null_.is(id) && std::int64_t{id} == to_.next_id(row);
  }

  /// \return whether the row is to be compared
  TRUNKLINE_HOST_DEVICE bool take(std::int32_t row, bool climbed) const {
    const std::int32_t level = to_.level(row);
    const bool conflicts = level == RowSharing::kOpen && SharingSlots::row_in(s_.slots[s_.place(row)]) != row;
    if (level >= 0)
      to_.level(row) = null_.is(static_cast<Id>(to_.next_id(row))) ? RowSharing::kApart : RowSharing::kOpen;
    if (!climbed) return conflicts;
    const std::int32_t owner = found(row);
    to_.owner(row) = owner <= unknown(0) ? unknown(owner) : owner;
    return owner <= unknown(0);
  }
  TRUNKLINE_HOST_DEVICE SharingTask task_of(std::int32_t row, bool climbed) const {
    const std::int32_t head = climbed ? to_.owner(row) : SharingSlots::row_in(s_.slots[s_.place(row)]);
    return {team_row(batch_, row).begin,
            team_row(batch_, head).begin,
            row,
            head,
            to_.kv_len(row),
            to_.kv_len(head),
            to_.shared(row) / batch_.table.page_size + 1,
            0};
  }

  const TeamBatch& batch_;
  TeamNullId<Id> null_;
  const Id* ids_;
  RowSharing to_;
  SharingScratch s_;
};

}  // namespace trunkline
