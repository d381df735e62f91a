// The requests that tiles hold, in depth-first order, and the positions of their query tokens. Equal to the host's
// QueryOrder and TrunkRequests.
#pragma once

#include <cstdint>

#include "base/host_device.hpp"
#include "plan/device/arena.hpp"
#include "plan/device/forest_layout.hpp"
#include "plan/device/planner_machine.hpp"
#include "plan/device/thread_group.hpp"
#include "plan/policies/trunk_core.hpp"

namespace trunkline {

/// Totals of a batch.
struct BatchTotals {
  std::int32_t queries = 0;
  std::int32_t listed = 0;         ///< requests with tokens and queries
  std::int32_t with_tokens = 0;    ///< requests
  std::int32_t widest = 1;         ///< maximum of the queries of one request, at most as many as the widest tile holds
  std::int64_t needed_tokens = 0;  ///< tokens of nodes that some query reads
  std::int64_t repeated_tokens = 0;  ///< tokens of nodes with several requests
};

struct DeviceRequests {
  // Indexed like DeviceForest::order. A query position is its number in this order.
  std::int32_t* position = nullptr;  ///< [rows + 1] position of a request's first query
  std::int32_t* query_at = nullptr;  ///< [queries] the query at a position
  // Lists of the requests that have tokens and queries, in the same order.
  std::int32_t* place = nullptr;         ///< [listed] index in DeviceForest::order
  std::int32_t* tokens = nullptr;        ///< [listed], as in TrunkRequests
  std::int32_t* shared = nullptr;        ///< [listed]
  std::int64_t* fresh_before = nullptr;  ///< [listed + 1]
  std::int32_t* query_begin = nullptr;   ///< [listed + 1]
  BatchTotals* totals = nullptr;         ///< [1]

  TRUNKLINE_HOST_DEVICE void lay_out(Arena& arena, std::int32_t rows, std::int32_t queries) {
    arena.take(fresh_before, std::int64_t{rows} + 1);
    arena.take(position, std::int64_t{rows} + 1);
    arena.take(query_begin, std::int64_t{rows} + 1);
    arena.take(query_at, queries);
    for (std::int32_t** list : {&place, &tokens, &shared}) arena.take(*list, rows);
    arena.take(totals, 1);
  }
  TRUNKLINE_HOST_DEVICE TrunkRequests trunk() const {
    const std::int32_t count = totals->listed;
    return {tokens, shared, fresh_before, query_begin, count, fresh_before[count], false};
  }
  /// Returns the query positions of a range of DeviceForest::order.
  TRUNKLINE_HOST_DEVICE Range positions(Range requests) const {
    return {position[requests.begin], position[requests.end]};
  }
};

/// Returns the number of tokens that two requests share. \param node in which the later one ends \param earlier index
/// in DeviceForest::order
TRUNKLINE_HOST_DEVICE inline std::int32_t tokens_in_common(const DeviceForest& forest, std::int32_t node,
                                                           std::int32_t earlier) {
  TRUNKLINE_ROLLED
  while (node >= 0 && forest.nodes[node].requests.begin > earlier) node = forest.nodes[node].parent;
  return node < 0 ? 0 : forest.nodes[node].end;
}

/// Lists the requests of a forest. \param max_queries of the widest tile
template <class Group>
TRUNKLINE_HOST_DEVICE void list_requests(Group& group, const DeviceForest& forest, std::int32_t max_queries,
                                         const DeviceRequests& to) {
  const std::int32_t rows = forest.rows;
  BatchTotals totals;
  totals.queries = group.exclusive_scan(
      rows, [&](std::int32_t i) { return forest.queries(forest.order[i]); },
      [&](std::int32_t i, std::int32_t before) { to.position[i] = before; });
  group.once([&] { to.position[rows] = totals.queries; });
  group.for_each(rows, [&](std::int32_t i) {
    const std::int32_t row = forest.order[i];
    const std::int32_t queries = forest.queries(row);
    for (std::int32_t k = 0; k < queries; ++k) to.query_at[to.position[i] + k] = forest.query_begin[row] + k;
  });
  totals.listed = select_if(
      group, rows,
      [&](std::int32_t i) { return forest.kv_len[forest.order[i]] > 0 && forest.queries(forest.order[i]) > 0; },
      [&](std::int32_t k, std::int32_t i) { to.place[k] = i; });
  group.for_each(totals.listed, [&](std::int32_t k) {
    const std::int32_t row = forest.order[to.place[k]];
    to.tokens[k] = forest.kv_len[row];
    to.shared[k] = k == 0 ? 0 : tokens_in_common(forest, forest.node[row], to.place[k - 1]);
    to.query_begin[k] = to.position[to.place[k]];
  });
  const std::int64_t fresh = group.exclusive_scan(
      totals.listed, [&](std::int32_t k) { return std::int64_t{to.tokens[k]} - to.shared[k]; },
      [&](std::int32_t k, std::int64_t before) { to.fresh_before[k] = before; });

  struct Rows {
    std::int32_t with_tokens = 0;
    std::int32_t widest = 1;
  };
  const Rows all_rows = group.reduce(
      rows, Rows{},
      [&](std::int32_t row) {
        return Rows{forest.kv_len[row] > 0 ? 1 : 0, min(forest.queries(row), max_queries)};
      },
      [](const Rows& a, const Rows& b) {
        return Rows{a.with_tokens + b.with_tokens, max(a.widest, b.widest)};
      });
  totals.with_tokens = all_rows.with_tokens;
  totals.widest = all_rows.widest;
  struct Tokens {
    std::int64_t needed = 0;
    std::int64_t repeated = 0;
    TRUNKLINE_HOST_DEVICE Tokens operator+(const Tokens& b) const { return {needed + b.needed, repeated + b.repeated}; }
  };
  const Tokens tokens = sum(group, forest.node_count, [&](std::int32_t i) {
    const ForestNode& node = forest.nodes[i];
    const Range held = to.positions(node.requests);
    const std::int64_t length = std::int64_t{node.end} - node.begin;
    return Tokens{held.begin < held.end ? length : 0, node.requests.end - node.requests.begin > 1 ? length : 0};
  });
  totals.needed_tokens = tokens.needed;
  totals.repeated_tokens = tokens.repeated;
  group.once([&] {
    to.fresh_before[totals.listed] = fresh;
    // Requests without tokens come last, and have queries too.
    const std::int32_t end = totals.listed == 0 ? 0 : to.place[totals.listed - 1];
    to.query_begin[totals.listed] = totals.listed == 0 ? 0 : to.position[end + 1];
    *to.totals = totals;
  });
}

}  // namespace trunkline
