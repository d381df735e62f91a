#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "forest/batch_check.hpp"
#include "forest/forest_order.hpp"
#include "forest/forest_requests.hpp"
#include "forest/radix_builder.hpp"
#include "trunkline/forest.hpp"

namespace trunkline {

struct ForestBuilder::State {
  SlotScratch slots;
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
