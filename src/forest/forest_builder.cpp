#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "forest/batch_check.hpp"
#include "forest/forest_order.hpp"
#include "forest/id_map.hpp"
#include "forest/radix_builder.hpp"
#include "trunkline/forest.hpp"

namespace trunkline {
namespace {

bool has_tree(const Batch& batch, std::int32_t row) {
  for (std::int32_t i = 0; i < batch.query_count(row); ++i) {
    if (batch.query_parent(row, i) != i - 1) return true;
  }
  return false;
}

/// Copies what a plan needs of each row.
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

}  // namespace

struct ForestBuilder::State {
  IdMap slots;
  RadixBuilder radix;
  ForestOrder order;
  Forest forest;
};

ForestBuilder::ForestBuilder() : state_(std::make_unique<State>()) {}
ForestBuilder::~ForestBuilder() = default;
ForestBuilder::ForestBuilder(ForestBuilder&&) noexcept = default;
ForestBuilder& ForestBuilder::operator=(ForestBuilder&&) noexcept = default;

const Forest& ForestBuilder::build(const Batch& batch, IdCheck ids) {
  check_batch(batch, ids, state_->slots);
  Forest& forest = state_->forest;
  fill_requests(batch, forest);
  state_->radix.build(batch, forest.requests);
  state_->order.emit(state_->radix.nodes(), state_->radix.end_node(), forest);
  return forest;
}

Forest build_forest(const Batch& batch, IdCheck ids) {
  ForestBuilder builder;
  return builder.build(batch, ids);
}

Range Forest::ending_at(std::int32_t node) const {
  const ForestNode& at = nodes[static_cast<std::size_t>(node)];
  // In pre-order a first child is the next node.
  const bool leaf = at.last == node + 1;
  return {at.requests.begin, leaf ? at.requests.end : nodes[static_cast<std::size_t>(node) + 1].requests.begin};
}

}  // namespace trunkline
