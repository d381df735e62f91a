// A look at the rows of a step: whether each is as planned (steady_rows.hpp), and what it shares with the row that
// owned what it shared in the last plan. In most steps that are planned anew the owners are the same: then that is what
// rounds of sharing_search.hpp would find, and SharingSearch confirms it by one more step. And mostly, as where rows
// have grown, the forest has the shape that it had: each row parts from its owner or ends where it did, inside of its
// owner or at its end as it did. Then all of the forest but the ends of rows is what it was.
//
// Rows are looked at by a kernel of their own, over all of the GPU: the cluster that plans is in one GPC, which reads
// no more than some 700 GB/s from L2. What it saw is in memory for the kernel that plans, which launches meanwhile.
//
// Cost: three dependent reads (0.3 us each) besides the pages that are more than were shared.
#pragma once

#include <cstdint>
#include <limits>

#include "base/host_device.hpp"
#include "plan/team/page_compare.hpp"
#include "plan/team/row_sharing.hpp"
#include "plan/team/steady_rows.hpp"
#include "plan/team/team.hpp"
#include "plan/team/team_batch.hpp"

namespace trunkline {

/// Rows of any table.
template <class Id>
class AnyRows {
 public:
  using Place = std::int64_t;
  using Entries = TeamEntries;

  TRUNKLINE_HOST_DEVICE explicit AnyRows(const TeamBatch& batch) : table_(batch.table) {}
  TRUNKLINE_HOST_DEVICE Entries of(std::int32_t row) const { return TeamEntries::of(table_, row); }
  TRUNKLINE_HOST_DEVICE bool fits(const Entries& entries, std::int32_t kv_len) const {
    return entries.with(kv_len, table_.page_size).fits;
  }
  /// As first_parting(), and pages behind the end where both rows have entries for whole units.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE std::int32_t first_parting_of(const Lanes& lanes, const Id* a, const Id* b, std::int32_t begin,
                                                      std::int32_t end, Place entries,
                                                      const TeamNullId<Id>& null) const {
    const std::int32_t units_end = ceil_div(end, TeamIds<Id>::kCount) * TeamIds<Id>::kCount;
    return first_parting(lanes, a, b, begin, units_end <= entries ? units_end : end, null);
  }

 private:
  const TeamTable& table_;
};

/// Rows of a dense table that begin and end at units of ids. Of the instructions that are run before pages are asked
/// for, half are of other tables: 0.5 us of a kept step.
template <class Id>
class WholeRows {
 public:
  using Place = std::int32_t;
  struct Entries {
    Place begin;
    Place count;
  };

  TRUNKLINE_HOST_DEVICE explicit WholeRows(const TeamBatch& batch) : width_(static_cast<Place>(batch.table.width)) {
    const std::int64_t tokens = std::int64_t{width_} * batch.table.page_size;
    most_tokens_ = static_cast<std::int32_t>(least(tokens, std::int64_t{kLongestRow}));
  }
  /// Whether a batch's table is such a one.
  TRUNKLINE_HOST_DEVICE static bool are_of(const TeamBatch& batch) {
    const TeamTable& table = batch.table;
    if (table.indptr != nullptr || table.row_map != nullptr) return false;
    if (table.width < 0 || table.width % TeamIds<Id>::kCount != 0) return false;
    const std::int64_t most_ids = least(table.entries, std::int64_t{kMostIds});
    return table.width <= most_ids && batch.rows * table.width <= most_ids &&
           TeamIds<Id>::may_read(static_cast<const Id*>(table.ids));
  }
  TRUNKLINE_HOST_DEVICE Entries of(std::int32_t row) const { return {row * width_, width_}; }
  TRUNKLINE_HOST_DEVICE bool fits(const Entries&, std::int32_t kv_len) const {
    return kv_len >= 0 && kv_len <= most_tokens_;
  }
  /// Pages in the unit before `begin` may be compared again.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE std::int32_t first_parting_of(const Lanes& lanes, const Id* a, const Id* b, std::int32_t begin,
                                                      std::int32_t end, Place, const TeamNullId<Id>& null) const {
    return first_parting_at_once(lanes, a, b, begin / TeamIds<Id>::kCount, ceil_div(end, TeamIds<Id>::kCount), null);
  }

 private:
  static constexpr Place kMostIds = std::numeric_limits<Place>::max();

  Place width_;
  std::int32_t most_tokens_;
};

/// \tparam Rows AnyRows or, where they are such, WholeRows
template <class Id, class Rows>
class RowLook {
 public:
  using Place = typename Rows::Place;
  static constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();

  TRUNKLINE_HOST_DEVICE RowLook(const TeamBatch& batch, const SteadyRows& planned)
      : batch_(batch),
        planned_(planned),
        rows_(batch),
        ids_(static_cast<const Id*>(batch.table.ids)),
        null_(batch.null_page) {}

  /// A row, and the one that is likely to own what it shares.
  struct Row {
    // Read before pages are compared.
    Place begin = 0;  ///< first entries
    Place owner_begin = 0;
    Place entries = 0;
    Place owner_entries = 0;
    SteadyRow planned;
    Id next_id{};  ///< the page of the token behind those that it shared, where it has one
    Id owners_next_id{};
    std::int32_t kv_len = 0;
    std::int32_t owners_kv_len = 0;
    std::int32_t owners_planned_len = 0;
    std::int32_t owner = -1;       ///< likely
    std::int32_t shared = -1;      ///< tokens, when it was planned; -1: it is new
    std::int32_t first_pages = 0;  ///< of those, to be compared at once
    std::int32_t growth = 0;
    std::int32_t queries = 0;
    bool fits = false;  ///< its length and entries
    // Known of what was read.
    std::int32_t tokens = 0;  ///< that both have
    std::int32_t pages = 0;   ///< all to be compared: what both have, or fewer where the next is known to differ
  };

  /// All lanes of each warp that looks at the row read the same. What is read last is not looked at here, so that
  /// pages are asked for meanwhile.
  TRUNKLINE_HOST_DEVICE Row read(std::int32_t row) const {
    const PageSize page_size = batch_.table.page_size;
    Row found;
    found.planned = load_whole(planned_.rows[row]);
    found.growth = planned_.growth == nullptr ? kLongestRow : load_whole(*planned_.growth);
    const std::int32_t kv_len = load_whole(batch_.kv_lens[row]);
    const std::int32_t planned_rows = load_whole(planned_.last->rows);
    found.queries = 1;
    if (batch_.query_start != nullptr) {
      const std::int32_t end = load_whole(batch_.query_start[row + 1]);
      found.queries = end - load_whole(batch_.query_start[row]);
    }
    const typename Rows::Entries entries = rows_.of(row);
    const SteadyRow& planned = found.planned;
    const bool known = row < planned_rows && planned.owner < row && planned.owner >= -1 && planned.shared >= 0;
    found.begin = entries.begin;
    found.entries = entries.count;
    found.fits = rows_.fits(entries, kv_len);
    found.kv_len = found.fits ? kv_len : 0;
    // Of a row that is new the first is likely to own what it shares: of most batches that share, all share one prefix.
    found.owner = known ? planned.owner : row > 0 ? 0 : -1;
    found.shared = known ? planned.shared : -1;
    const std::int32_t page = most(found.shared, 0) / page_size;
    const bool goes_on = found.kv_len > most(found.shared, 0);
    if (goes_on) found.next_id = ids_[found.begin + page];
    if (found.owner >= 0) read_owner(found, page, goes_on);
    return found;
  }

  /// The first page in a part of those to be compared, of 1 << log_parts, that differs in both rows or is null; kNone
  /// if none. All lanes of a warp call it alike.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE std::int32_t first_parting_in(const Lanes& lanes, Row& row, std::int32_t part,
                                                      std::int32_t log_parts) const {
    const std::int32_t found = compare(lanes, row, part, log_parts, 0, row.first_pages);
    count_pages(row);
    // Few rows share more than when they were planned.
    if (found < kNone || row.pages <= row.first_pages) return found;
    return compare(lanes, row, part, log_parts, row.first_pages, row.pages);
  }

  /// \param parting the least of all parts \param seen to be written \return whether the row is as planned
  TRUNKLINE_HOST_DEVICE bool conclude(const Row& row, std::int32_t parting, SeenRow& seen) const {
    const PageSize page_size = batch_.table.page_size;
    const std::int32_t common = least(parting, row.pages);
    const std::int32_t shared = common == team_pages(row.tokens, page_size) ? row.tokens : common * page_size;
    const bool goes_on = row.kv_len > shared;
    const bool as_planned = shared == row.shared;
    // Its owner ends there, if it did.
    const bool same_end = row.owner < 0 || (owners_tokens(row) == row.shared) == (row.owners_planned_len == row.shared);
    SeenRow found;
    Id next_id = row.next_id;
    if (goes_on && !as_planned) next_id = ids_[row.begin + shared / page_size];
    found.next_id = next_id;
    found.kv_len = row.fits ? row.kv_len : -1;
    found.shared = shared;
    found.owner = shared == 0 ? -1 : row.owner;
    found.level = !row.fits           ? RowSharing::kUnfit
                  : !goes_on          ? RowSharing::kInside
                  : null_.is(next_id) ? RowSharing::kApart
                                      : RowSharing::kOpen;
    const SteadyRow& planned = row.planned;
    found.reshaped = as_planned && goes_on == (planned.planned_len > shared) && same_end ? 0 : 1;
    store_whole(seen, found);
    return row.fits && as_planned && std::int64_t{next_id} == planned.next_id && row.kv_len >= planned.least_len &&
           row.kv_len <= planned.most_len && row.kv_len - planned.planned_len <= row.growth &&
           row.queries == planned.queries;
  }

 private:
  /// Whatever the owner's length is, its next page is read where the table has such an entry, and pages that were
  /// shared are compared.
  TRUNKLINE_HOST_DEVICE void read_owner(Row& found, std::int32_t page, bool goes_on) const {
    const bool known = found.shared >= 0;
    const typename Rows::Entries entries = rows_.of(found.owner);
    found.owner_begin = entries.begin;
    found.owner_entries = entries.count;
    found.owners_kv_len = batch_.kv_lens[found.owner];
    if (known) found.owners_planned_len = planned_.rows[found.owner].planned_len;
    if (goes_on && page < entries.count) found.owners_next_id = ids_[entries.begin + page];
    if (!known) return;
    const std::int32_t own = team_pages(least(found.kv_len, found.shared), batch_.table.page_size);
    found.first_pages = own <= entries.count ? own : 0;
  }
  TRUNKLINE_HOST_DEVICE std::int32_t owners_tokens(const Row& row) const {
    return rows_.fits({row.owner_begin, row.owner_entries}, row.owners_kv_len) ? row.owners_kv_len : 0;
  }
  TRUNKLINE_HOST_DEVICE void count_pages(Row& row) const {
    if (row.owner < 0) return;
    const PageSize page_size = batch_.table.page_size;
    const std::int32_t page = most(row.shared, 0) / page_size;
    row.tokens = least(row.kv_len, owners_tokens(row));
    row.pages = team_pages(row.tokens, page_size);
    const bool goes_on = row.kv_len > most(row.shared, 0);
    if (!goes_on || page >= row.pages) return;
    if (row.owners_next_id != row.next_id || null_.is(row.next_id)) row.pages = page;
  }

  /// Of pages [begin, end), and some beside them that may be read.
  template <class Lanes>
  TRUNKLINE_HOST_DEVICE std::int32_t compare(const Lanes& lanes, const Row& row, std::int32_t part,
                                             std::int32_t log_parts, std::int32_t begin, std::int32_t end) const {
    constexpr std::int32_t kAtOnce = 32 * TeamIds<Id>::kCount;  // what a warp reads of a row by one instruction
    const std::int32_t instructions = ceil_div(end - begin, kAtOnce);
    const std::int32_t each = ((instructions + (1 << log_parts) - 1) >> log_parts) * kAtOnce;
    const std::int32_t own_begin = begin + part * each;
    const std::int32_t own_end = least(own_begin + each, end);
    if (own_begin >= own_end) return kNone;
    const std::int32_t found = rows_.first_parting_of(lanes, ids_ + row.begin, ids_ + row.owner_begin, own_begin,
                                                      own_end, least(row.entries, row.owner_entries), null_);
    return found < own_end ? found : kNone;
  }

  const TeamBatch& batch_;
  const SteadyRows& planned_;
  Rows rows_;
  const Id* ids_;
  TeamNullId<Id> null_;
};

/// Looks at all rows of a batch. Devices do it by a kernel of its own (exec/cuda/planner/look_kernel.cu).
/// \param log_parts of a row's pages, compared each by itself
template <class Team>
void look_at_rows(Team& team, const TeamBatch& batch, const SteadyRows& planned, std::int32_t log_parts) {
  team.each(LookShare::kMostBlocks, [&](std::int32_t block) { planned.changed->of_block[block] = 0; });
  const std::int32_t rows_each = LookShare::rows_each(batch.rows);
  const auto look = [&](const auto& rows, const auto& lanes, std::int32_t row) {
    auto read = rows.read(row);
    std::int32_t parting = rows.kNone;
    for (std::int32_t part = 0; part < 1 << log_parts; ++part) {
      parting = least(parting, rows.first_parting_in(lanes, read, part, log_parts));
    }
    if (!rows.conclude(read, parting, planned.seen[row])) {
      Team::fetch_greatest(planned.changed->of_four[row / rows_each / 4], std::uint32_t{1});
    }
  };
  const auto look_of = [&](auto id) {
    using Id = decltype(id);
    team.each_warp(batch.rows, [&](std::int32_t row, const auto& lanes) {
      if (WholeRows<Id>::are_of(batch)) {
        look(RowLook<Id, WholeRows<Id>>(batch, planned), lanes, row);
      } else {
        look(RowLook<Id, AnyRows<Id>>(batch, planned), lanes, row);
      }
    });
  };
  if (batch.table.wide) {
    look_of(std::int64_t{});
  } else {
    look_of(std::int32_t{});
  }
}

}  // namespace trunkline
