#include "support/forest_invariants.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.hpp"

namespace trunkline::testing {
namespace {

using Violation = std::optional<std::string>;

std::size_t at(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

Violation check_order(const Forest& forest) {
  std::vector<std::int32_t> sorted = forest.order;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.size() != forest.requests.size()) return concat("order has ", sorted.size(), " rows");
  for (std::size_t row = 0; row < sorted.size(); ++row) {
    if (sorted[row] != static_cast<std::int32_t>(row)) return concat("order is no permutation at row ", row);
  }
  return {};
}

Violation check_node(const Forest& forest, std::int32_t index) {
  const ForestNode& node = forest.nodes[at(index)];
  const auto nodes = static_cast<std::int32_t>(forest.nodes.size());
  if (node.tokens() <= 0) return concat("node ", index, " has no tokens");
  if (node.last <= index || node.last > nodes) return concat("node ", index, " has last ", node.last);
  if (node.requests.size() <= 0) return concat("node ", index, " has no members");
  if (node.parent < 0) {
    if (node.begin != 0 || node.depth != 0) return concat("root ", index, " does not begin at 0, or has a depth");
  } else {
    if (node.parent >= index) return concat("node ", index, " comes before its parent ", node.parent);
    const ForestNode& parent = forest.nodes[at(node.parent)];
    if (node.begin != parent.end || node.depth != parent.depth + 1 || node.last > parent.last) {
      return concat("node ", index, " does not follow its parent ", node.parent);
    }
    if (node.requests.begin < parent.requests.begin || node.requests.end > parent.requests.end ||
        node.requests.size() == parent.requests.size()) {
      return concat("node ", index, " does not have fewer members than its parent ", node.parent);
    }
  }
  const auto first = forest.order.begin() + node.requests.begin;
  const auto last = forest.order.begin() + node.requests.end;
  if (node.row != *std::min_element(first, last)) return concat("node ", index, " is not read by its first member");
  return {};
}

/// The members of a node are those that end in it, by rising row, then those of its children, in the order of their
/// rows.
Violation check_members(const Forest& forest, std::int32_t index) {
  const ForestNode& node = forest.nodes[at(index)];
  const Range ending = forest.ending_at(index);
  if (ending.begin != node.requests.begin) return concat("ends of node ", index, " are not its first members");
  for (std::int32_t i = ending.begin; i < ending.end; ++i) {
    const std::int32_t row = forest.order[at(i)];
    if (forest.requests[at(row)].node != index) return concat("row ", row, " does not know that it ends in ", index);
    if (forest.requests[at(row)].kv_len != node.end) return concat("row ", row, " ends elsewhere than node ", index);
    if (i > ending.begin && forest.order[at(i) - 1] > row) return concat("ends of node ", index, " are not sorted");
  }
  std::int32_t next = ending.end;
  std::int32_t last_row = -1;
  for (std::int32_t child = index + 1; child < node.last; child = forest.nodes[at(child)].last) {
    if (forest.nodes[at(child)].parent != index) return concat("node ", child, " is no child of ", index);
    if (forest.nodes[at(child)].requests.begin != next) return concat("members of node ", child, " are misplaced");
    if (forest.nodes[at(child)].row <= last_row) return concat("node ", child, " is not after its sibling by row");
    next = forest.nodes[at(child)].requests.end;
    last_row = forest.nodes[at(child)].row;
  }
  if (next != node.requests.end) return concat("node ", index, " has members that neither end nor go on");
  return {};
}

Violation check_totals(const Forest& forest) {
  std::int64_t total = 0;
  std::int64_t distinct = 0;
  std::int64_t ending = 0;
  for (const ForestNode& node : forest.nodes) distinct += node.tokens();
  for (std::size_t i = 0; i < forest.nodes.size(); ++i) {
    ending += forest.ending_at(static_cast<std::int32_t>(i)).size();
  }
  std::int64_t nonempty = 0;
  for (const ForestRequest& request : forest.requests) {
    total += request.kv_len;
    nonempty += request.kv_len > 0 ? 1 : 0;
    if ((request.node < 0) != (request.kv_len == 0)) return concat("slot ", request.slot, " is empty or is not");
  }
  if (ending != nonempty) return concat(nonempty, " requests have tokens, ", ending, " end in a node");
  if (total != forest.total_tokens) return concat("total_tokens is ", forest.total_tokens, ", not ", total);
  if (distinct != forest.distinct_tokens)
    return concat("distinct_tokens is ", forest.distinct_tokens, ", not ", distinct);
  return {};
}

/// Drafts of a tree lie in a node of their request alone.
Violation check_trees(const Forest& forest) {
  bool any = false;
  for (std::size_t row = 0; row < forest.requests.size(); ++row) {
    const ForestRequest& request = forest.requests[row];
    bool tree = false;
    // Without parents all are chains, and a request may claim two billion query tokens.
    const std::int32_t drafts = forest.query_parents.empty() ? 0 : request.queries;
    for (std::int32_t i = 0; i < drafts; ++i) tree = tree || forest.query_parent(request, i) != i - 1;
    if (tree != request.tree) return concat("row ", row, " does not know whether its query tokens are a tree");
    any = any || tree;
    if (!tree || request.kv_len == 0) continue;
    const ForestNode& node = forest.nodes[at(request.node)];
    if (node.requests.size() != 1) return concat("row ", row, " shares its draft tree");
    if (node.tokens() < request.queries) return concat("row ", row, " has drafts outside of its own node");
  }
  if (!any && !forest.query_parents.empty()) return "query_parents is kept without a tree";
  return {};
}

}  // namespace

std::optional<std::string> find_forest_violation(const Forest& forest) {
  if (Violation violation = check_order(forest)) return violation;
  for (std::int32_t index = 0; index < static_cast<std::int32_t>(forest.nodes.size()); ++index) {
    if (Violation violation = check_node(forest, index)) return violation;
    if (Violation violation = check_members(forest, index)) return violation;
  }
  // Empty requests come last, so the first one after the roots ends the members.
  for (std::size_t i = 1; i < forest.order.size(); ++i) {
    const bool empty_before = forest.requests[at(forest.order[i - 1])].kv_len == 0;
    if (empty_before && forest.requests[at(forest.order[i])].kv_len > 0)
      return concat("order[", i, "] follows an empty request");
  }
  if (Violation violation = check_trees(forest)) return violation;
  return check_totals(forest);
}

}  // namespace trunkline::testing
