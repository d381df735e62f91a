// The checking mode of a planning team: page ids that lead out of the cache.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/team/team_batch.hpp"

namespace trunkline {

/// Planning itself compares ids and never follows them, so it is as right with such ids as without.
struct TeamPageFaults {
  std::int32_t rows = 0;        ///< that have an id out of range
  std::int32_t first_row = -1;  ///< the first of them
  std::int32_t page = 0;        ///< its first such page
  std::int64_t id = 0;          ///< and what is there
};

/// The first page of a row whose id is not in [0, num_pages); `pages` if none. All lanes call it alike.
template <class Id, class Lanes>
TRUNKLINE_HOST_DEVICE std::int32_t first_bad_page(const Lanes& lanes, const Id* ids, std::int32_t pages,
                                                  std::int64_t num_pages) {
  std::int32_t first = pages;
  for (std::int64_t page = lanes.index(); page < first; page += lanes.count()) {
    if (ids[page] < 0 || ids[page] >= num_pages) first = static_cast<std::int32_t>(page);
  }
  return lanes.least(first);
}

/// Looks at every page that the batch's lengths reach; rows that do not fit their table have none.
/// Reads 1 MB of ids in about 1.2 us by 8 blocks: for checking alone.
/// \param faults in memory of the team, to be filled
template <class Team>
TRUNKLINE_HOST_DEVICE void check_page_ids(Team& team, const TeamBatch& batch, std::int64_t num_pages,
                                          TeamPageFaults& faults) {
  const TeamTable& table = batch.table;
  const auto first_in = [&](const auto& lanes, const TeamRow& row) {
    const std::int32_t pages = team_pages(row.kv_len, table.page_size);
    return table.wide
               ? first_bad_page(lanes, static_cast<const std::int64_t*>(table.ids) + row.begin, pages, num_pages)
               : first_bad_page(lanes, static_cast<const std::int32_t*>(table.ids) + row.begin, pages, num_pages);
  };
  team.once([&] { faults = {}; });
  team.each_warp(batch.rows, [&](std::int32_t i, const auto& lanes) {
    const TeamRow row = team_row(batch, i);
    const std::int32_t first = first_in(lanes, row);
    if (lanes.index() != 0 || first == team_pages(row.kv_len, table.page_size)) return;
    team.fetch_add(faults.rows, 1);
    // No row, -1, is the greatest of unsigned numbers.
    team.fetch_least(reinterpret_cast<std::uint32_t&>(faults.first_row), static_cast<std::uint32_t>(i));
  });
  if (faults.rows == 0) return;
  const std::int32_t row = faults.first_row;
  team.each_warp(1, [&](std::int32_t, const auto& lanes) {
    const std::int32_t page = first_in(lanes, team_row(batch, row));
    if (lanes.index() != 0) return;
    faults.page = page;
    faults.id = team_page_id(batch, row, page);
  });
}

}  // namespace trunkline
