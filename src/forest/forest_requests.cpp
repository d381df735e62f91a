#include "forest/forest_requests.hpp"

#include <cstddef>
#include <cstdint>

namespace trunkline {
namespace {

bool has_tree(const Batch& batch, std::int32_t row) {
  for (std::int32_t i = 0; i < batch.query_count(row); ++i) {
    if (batch.query_parent(row, i) != i - 1) return true;
  }
  return false;
}

/// Marks the requests with draft trees.
void fill_trees(const Batch& batch, Forest& forest) {
  forest.query_parents.clear();
  if (batch.query_parents.empty()) return;
  bool trees = false;
  for (std::int32_t row = 0; row < batch.rows(); ++row) {
    bool& tree = forest.requests[static_cast<std::size_t>(row)].tree;
    tree = has_tree(batch, row);
    trees = trees || tree;
  }
  if (trees) forest.query_parents.assign(batch.query_parents.begin(), batch.query_parents.end());
}

}  // namespace

void fill_requests(const Batch& batch, Forest& forest) {
  forest.requests.resize(batch.kv_lens.size());
  std::int64_t tokens = 0;
  for (std::int32_t row = 0; row < batch.rows(); ++row) {
    const std::int32_t length = batch.kv_lens[static_cast<std::size_t>(row)];
    const std::int32_t begin = batch.query_begin(row);
    const std::int32_t queries = batch.query_begin(row + 1) - begin;
    forest.requests[static_cast<std::size_t>(row)] = {batch.slot(row), batch.generation(row), length, begin, queries};
    tokens += length;
  }
  forest.total_tokens = tokens;
  fill_trees(batch, forest);
}

}  // namespace trunkline
