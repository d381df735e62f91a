// The forest of a batch as teams hold it: the arrays of Forest, in memory that somebody else owns.
#pragma once

#include <cstdint>

#include "plan/team/team_batch.hpp"
#include "trunkline/forest.hpp"

namespace trunkline {

/// Of `rows` batch rows. Equal to the members of the same names of Forest and ForestRequest, for batches whose slots
/// are their rows and which have no draft trees.
struct TeamForest {
  ForestNode* nodes = nullptr;          ///< [node_count], room for 2 * rows; aligned to 16 bytes
  std::int32_t* order = nullptr;        ///< [rows] rows in depth-first order, empty ones last
  std::int32_t* kv_len = nullptr;       ///< [rows] clamped to what the table holds
  std::int32_t* query_begin = nullptr;  ///< [rows + 1] prefix sums of query tokens
  std::int32_t* node = nullptr;         ///< [rows] the node that each ends in; -1 for an empty one
  std::int32_t* tokens = nullptr;       ///< [rows] kv_len by index of `order`, where rows are alike; null: not told
  std::int32_t* shared = nullptr;       ///< [rows] by that, too: those in common with the row before it there
  std::int32_t rows = 0;
  std::int32_t node_count = 0;
  std::int64_t total_tokens = 0;
  std::int64_t distinct_tokens = 0;
};

/// What else the forest phase finds.
struct ForestPhaseResult {
  TeamFaults faults;
  std::int32_t node_count = 0;
  std::int64_t total_tokens = 0;
  std::int64_t distinct_tokens = 0;
  std::int64_t hot_tokens = 0;  ///< that several rows have, where all are alike
  std::int32_t unlike = 1;      ///< 0: all rows have tokens, their last node alone, and one query, and are told
};

}  // namespace trunkline
