// Forests: built from batches and trees, and shown.
#include <algorithm>
#include <memory>
#include <span>

#include "capi/batches.hpp"
#include "capi/convert.hpp"
#include "capi/objects.hpp"
#include "capi/structs.hpp"

using namespace trunkline;
using namespace trunkline::capi;

namespace {

void check_capacity(std::size_t needed, std::size_t capacity) {
  if (needed <= capacity) return;
  fail(ErrorCode::kInvalidArgument, "capacity is ", capacity, "; there are ", needed, " entries");
}

std::span<const std::int32_t> tree_entries(const std::int32_t* array, std::int32_t count, const char* name) {
  if (count < 0) fail(ErrorCode::kInvalidArgument, name, " has ", count, " entries; it must have >= 0");
  if (count > 0) need(array, name);
  return {array, static_cast<std::size_t>(count)};
}

}  // namespace

trunkline_status trunkline_forest_create(trunkline_forest** forest) {
  return guard([&] {
    need(forest, "forest");
    *forest = static_cast<trunkline_forest*>(publish(std::make_shared<ForestObject>()));
  });
}

trunkline_status trunkline_forest_build(trunkline_forest* forest, const trunkline_batch* batch,
                                        trunkline_id_check ids) {
  return guard([&] {
    const auto held = exclusive<ForestObject>(forest);
    check_choice(ids, TRUNKLINE_TRUST_IDS, TRUNKLINE_CHECK_ALL_IDS, "ids");
    held->current = &held->empty;
    held->current = &held->builder.build(batch_of(batch), static_cast<IdCheck>(ids));
  });
}

trunkline_status trunkline_forest_build_tree(trunkline_forest* forest, const trunkline_tree* tree) {
  return guard([&] {
    const auto held = exclusive<ForestObject>(forest);
    held->current = &held->empty;
    const trunkline_tree from = read_struct(tree, "tree");
    held->from_tree = build_forest(ExplicitTree{tree_entries(from.parent, from.nodes, "tree.parent"),
                                                tree_entries(from.tokens, from.nodes, "tree.tokens"),
                                                tree_entries(from.end_node, from.requests, "tree.end_node")});
    held->current = &held->from_tree;
  });
}

trunkline_status trunkline_forest_get_info(const trunkline_forest* forest, trunkline_forest_info* info) {
  return guard([&] {
    const auto held = shared<ForestObject>(forest);
    const Forest& from = held->forest();
    write_struct(info, "info",
                 {.struct_size = 0,
                  .rows = static_cast<std::int32_t>(from.order.size()),
                  .nodes = static_cast<std::int32_t>(from.nodes.size()),
                  .total_tokens = from.total_tokens,
                  .distinct_tokens = from.distinct_tokens});
  });
}

trunkline_status trunkline_forest_nodes(const trunkline_forest* forest, trunkline_forest_node* nodes, size_t capacity) {
  return guard([&] {
    const auto held = shared<ForestObject>(forest);
    const Forest& from = held->forest();
    check_capacity(from.nodes.size(), capacity);
    if (!from.nodes.empty()) need(nodes, "nodes");
    std::transform(from.nodes.begin(), from.nodes.end(), nodes, [](const ForestNode& node) {
      return trunkline_forest_node{.parent = node.parent,
                                   .begin = node.begin,
                                   .end = node.end,
                                   .row = node.row,
                                   .requests_begin = node.requests.begin,
                                   .requests_end = node.requests.end,
                                   .depth = node.depth};
    });
  });
}

trunkline_status trunkline_forest_order(const trunkline_forest* forest, int32_t* rows, size_t capacity) {
  return guard([&] {
    const auto held = shared<ForestObject>(forest);
    const Forest& from = held->forest();
    check_capacity(from.order.size(), capacity);
    if (!from.order.empty()) need(rows, "rows");
    std::copy(from.order.begin(), from.order.end(), rows);
  });
}

trunkline_status trunkline_forest_destroy(trunkline_forest* forest) {
  return destroy<ForestObject>(forest);
}
