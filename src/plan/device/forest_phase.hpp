// First phase of planning: builds the prefix forest of a batch, lists the requests that tiles hold, and keeps the rows
// that a later step is compared with to reuse the plan.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/device/arena.hpp"
#include "plan/device/device_batch.hpp"
#include "plan/device/forest_layout.hpp"
#include "plan/device/prefix_search.hpp"
#include "plan/device/row_diff.hpp"
#include "plan/device/thread_group.hpp"

namespace trunkline {

struct ForestScratch {
  RowPrefixes prefixes;
  ForestLayout::Scratch layout;

  TRUNKLINE_HOST_DEVICE void lay_out(Arena& arena, std::int32_t rows) {
    prefixes.lay_out(arena, rows);
    layout.lay_out(arena, rows);
  }
};

/// Whether the last plan is right for this batch as well. \param diffs of all rows
template <class Group>
TRUNKLINE_HOST_DEVICE bool may_reuse(Group& group, const DeviceBatch& batch, const RowDiff* diffs,
                                     const PlannedRows& planned) {
  const bool changed = any(group, batch.rows, [&](std::int32_t row) { return diffs[row].changed; });
  const bool first_query = batch.query_start == nullptr || batch.query_start[0] == 0;
  return !changed && first_query && planned.step->rows == batch.rows;
}

template <class Group>
TRUNKLINE_HOST_DEVICE BatchFaults find_faults(Group& group, const DeviceBatch& batch, const RowDiff* diffs) {
  struct Counts {
    std::int32_t lengths = 0;
    std::int32_t queries = 0;
    std::int32_t first_length = kNotFound;
    std::int32_t first_queries = kNotFound;
  };
  const Counts all = group.reduce(
      batch.rows, Counts{},
      [&](std::int32_t row) {
        const bool misfit = !diffs[row].fits;
        const bool unsound = !diffs[row].sound_queries;
        return Counts{misfit ? 1 : 0, unsound ? 1 : 0, misfit ? row : kNotFound, unsound ? row : kNotFound};
      },
      [](const Counts& a, const Counts& b) {
        return Counts{a.lengths + b.lengths, a.queries + b.queries, min(a.first_length, b.first_length),
                      min(a.first_queries, b.first_queries)};
      });
  BatchFaults faults;
  faults.lengths = all.lengths;
  faults.queries = all.queries;
  if (faults.lengths > 0) {
    faults.first_length = all.first_length;
    faults.length = batch.kv_lens[faults.first_length];
  }
  if (faults.queries > 0) {
    faults.first_queries = all.first_queries;
    if (batch.query_start != nullptr) faults.query_start = batch.query_start[faults.first_queries + 1];
  }
  return faults;
}

/// Builds the forest. \param[in,out] forest its `rows` is set \return the faults of the batch
template <class Group>
TRUNKLINE_HOST_DEVICE BatchFaults find_forest(Group& group, const DeviceBatch& batch, const RowDiff* diffs,
                                              const ForestScratch& scratch, DeviceForest& forest) {
  const BatchFaults faults = find_faults(group, batch, diffs);
  const RowPrefixes& prefixes = scratch.prefixes;
  // query_start is a prefix sum: if one entry is wrong, none can be trusted.
  const bool queries = faults.queries == 0;
  group.for_each(batch.rows + 1, [&](std::int32_t i) {
    forest.query_begin[i] = queries ? batch.query_begin(i) : 0;
    if (i == batch.rows) return;
    const RowDiff& diff = diffs[i];
    forest.kv_len[i] = prefixes.kv_len[i] = diff.kv_len;
    forest.tree[i] = queries && diff.tree ? 1 : 0;
    prefixes.sharable[i] = queries ? diff.sharable : diff.kv_len;
  });
  forest.query_parents = batch.query_parents;
  forest.has_trees = queries && any(group, batch.rows, [&](std::int32_t row) { return diffs[row].tree; });
  find_prefixes(group, batch, diffs, queries, prefixes);
  ForestLayout(prefixes, scratch.layout, forest).run(group);
  return faults;
}

/// Returns the maximal growth of a row in tokens under which `invariant` cuts it into the same chunks.
TRUNKLINE_HOST_DEVICE inline std::int32_t growth_within_chunk(std::int32_t chunk, std::int32_t kv_len,
                                                              std::int32_t drafts) {
  // The last chunk is open-ended: it holds up to `chunk` tokens, or drafts behind fewer.
  const std::int32_t past = kv_len - max(drafts, 1);
  return past < 0 ? 0 : chunk - 1 - past % chunk;
}

/// Keeps the planned rows, with which later steps are compared. \param growth maximal growth of a row in tokens
/// \param invariant_chunk PlannerMachine's
template <class Group>
TRUNKLINE_HOST_DEVICE void keep_planned_rows(Group& group, const DeviceForest& forest, const RowPrefixes& prefixes,
                                             std::int32_t growth, std::int32_t invariant_chunk, const PlannedRows& to) {
  group.for_each(forest.rows, [&](std::int32_t row) {
    PlannedRow kept;
    kept.kv_len = kept.max_kv_len = forest.kv_len[row];
    const std::int32_t node = forest.node[row];
    const bool alone = node >= 0 && forest.nodes[node].requests.end - forest.nodes[node].requests.begin == 1;
    std::int32_t max_growth = min(growth, std::int32_t{INT32_MAX} - kept.kv_len);
    if (invariant_chunk > 0) {
      max_growth = min(max_growth, growth_within_chunk(invariant_chunk, kept.kv_len, forest.drafts(row)));
    }
    if (alone) kept.max_kv_len += max_growth;
    kept.parent = prefixes.parent[row];
    kept.shared = prefixes.shared[row];
    kept.goes_on = prefixes.sharable[row] > kept.shared;
    kept.next_id = kept.goes_on ? prefixes.next_id[row] : 0;
    kept.queries = forest.queries(row);
    kept.tree = forest.tree[row] != 0;
    to.rows[row] = kept;
  });
  group.for_each(forest.rows + 1, [&](std::int32_t i) { to.query_begin[i] = forest.query_begin[i]; });
  if (forest.query_parents == nullptr) return;
  group.for_each(forest.query_begin[forest.rows],
                 [&](std::int32_t i) { to.query_parents[i] = forest.query_parents[i]; });
}

}  // namespace trunkline
