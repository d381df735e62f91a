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

}  // namespace

void fill_requests(const Batch& batch, Forest& forest) {
  forest.requests.resize(batch.kv_lens.size());
  forest.total_tokens = 0;
  forest.query_parents.clear();
  bool trees = false;
  for (std::int32_t row = 0; row < batch.rows(); ++row) {
    ForestRequest& request = forest.requests[static_cast<std::size_t>(row)];
    request.slot = batch.slot(row);
    request.generation = batch.generation(row);
    request.kv_len = batch.kv_lens[static_cast<std::size_t>(row)];
    request.query_begin = batch.query_begin(row);
    request.queries = batch.query_count(row);
    request.tree = !batch.query_parents.empty() && has_tree(batch, row);
    trees = trees || request.tree;
    forest.total_tokens += request.kv_len;
  }
  if (trees) forest.query_parents.assign(batch.query_parents.begin(), batch.query_parents.end());
}

}  // namespace trunkline
