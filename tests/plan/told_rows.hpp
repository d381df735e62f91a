// What blocks that have a forest near are told of its rows (NothingBeside::take), found from the forest itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/team/near_forest.hpp"
#include "plan/team/team_forest.hpp"

namespace trunkline::testing {

struct ToldRows {
  explicit ToldRows(const TeamForest& forest) {
    const auto requests_of = [](const ForestNode& node) { return node.requests.end - node.requests.begin; };
    std::vector<std::int32_t> shared(static_cast<std::size_t>(forest.rows));
    for (std::int32_t i = forest.node_count - 1; i >= 0; --i) {  // the topmost that begins at a request is the last
      const ForestNode& node = forest.nodes[i];
      shared[static_cast<std::size_t>(node.requests.begin)] = node.begin;
      if (requests_of(node) > 1) hot += node.end - node.begin;
    }
    for (std::int32_t i = 0; i < forest.rows; ++i) {
      const std::int32_t row = forest.order[i];
      const std::int32_t node = forest.node[row];
      rows.push_back({i, forest.kv_len[row], shared[static_cast<std::size_t>(i)]});
      alike.push_back(node >= 0 && requests_of(forest.nodes[node]) == 1 &&
                      forest.query_begin[row + 1] - forest.query_begin[row] == 1);
    }
  }

  std::vector<NearRow> rows;  ///< by index of Forest::order; right where all are alike
  std::vector<bool> alike;
  std::int64_t hot = 0;
};

}  // namespace trunkline::testing
