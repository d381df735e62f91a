// SequenceTree::step: checks all leaves, takes pages for all of them or for none, and edits the batch to match.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.hpp"
#include "runtime/sequence_tree_state.hpp"

namespace trunkline {

void SequenceTree::State::check_step(std::span<const NodeId> leaves, std::int32_t max_queries) {
  if (max_queries < 0) fail(ErrorCode::kInvalidArgument, "max_queries is ", max_queries, "; it must be >= 0");
  ++steps;
  appends.clear();
  appends.reserve(leaves.size());
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    Node& node = at(leaf_of(leaves[i], concat("leaves[", i, "]").c_str()));
    if (std::exchange(node.checked, steps) == steps) {
      fail(ErrorCode::kInvalidArgument, "leaves[", i, "] is node ", leaves[i].index, ", as an earlier one; a leaf may ",
           "come once");
    }
    if (node.drafts_computed) {
      fail(ErrorCode::kInvalidArgument, "leaves[", i, "] is node ", leaves[i].index,
           ", whose drafts a step has had; accept() ends them");
    }
    const std::int64_t pending = std::int64_t{node.end()} - kv_len(node);
    const bool limited = max_queries > 0 && node.drafts() == 0;
    const std::int64_t queries = limited ? std::min<std::int64_t>(pending, max_queries) : pending + node.drafts();
    if (queries == 0) {
      fail(ErrorCode::kInvalidArgument, "leaves[", i, "] is node ", leaves[i].index,
           ", whose tokens all have KV; append() one");
    }
    if (queries > std::numeric_limits<std::int32_t>::max()) {
      fail(ErrorCode::kUnsupported, "leaves[", i, "] has ", queries, " query tokens; at most 2^31 - 1 are supported");
    }
    appends.push_back({*node.sequence, static_cast<std::int32_t>(queries)});
  }
}

void SequenceTree::State::lay_out_step(std::span<const NodeId> leaves) {
  coming.nodes.assign(leaves.begin(), leaves.end());
  coming.query_start.assign(1, 0);
  coming.tokens.clear();
  coming.positions.clear();
  coming.slot_mapping.clear();
  coming.copies.clear();
  query_parents.clear();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Node& node = at(leaves[i].index);
    const std::int32_t begin = kv_len(node);
    const std::int32_t chain = appends[i].tokens - node.drafts();
    const std::size_t first = coming.tokens.size();
    coming.tokens.resize(first + static_cast<std::size_t>(chain));
    read_tokens(leaves[i].index, begin, begin + chain, coming.tokens.data() + first);
    for (std::int32_t token = 0; token < chain; ++token) {
      coming.positions.push_back(begin + token);
      query_parents.push_back(token - 1);
    }
    for (std::size_t draft = 0; draft < node.draft_tokens.size(); ++draft) {
      const std::int32_t parent = chain + node.draft_parents[draft];  // -1: the last token of the chain
      coming.tokens.push_back(node.draft_tokens[draft]);
      coming.positions.push_back(coming.positions[first + static_cast<std::size_t>(parent)] + 1);
      query_parents.push_back(parent);
    }
    coming.query_start.push_back(static_cast<std::int32_t>(coming.tokens.size()));
  }
  coming.slot_mapping.reserve(coming.tokens.size());
  coming.copies.reserve(leaves.size());
}

std::span<const std::int32_t> SequenceTree::State::parents_of(std::size_t row) {
  if (at(last.nodes[row].index).drafts() == 0) return {};
  const auto begin = static_cast<std::size_t>(last.query_start[row]);
  return std::span(query_parents).subspan(begin, static_cast<std::size_t>(last.query_start[row + 1]) - begin);
}

// The rows that stay in the batch: pages that were replaced, then all lengths and new pages in one event.
void SequenceTree::State::lengthen_rows() {
  kv_lens.clear();
  page_indptr.assign(1, 0);
  page_ids.clear();
  for (const std::int32_t index : row_nodes) {
    Node& node = at(index);
    const std::span<const std::int32_t> pages = kv.pages(*node.sequence);
    const auto known = live->request_pages(*node.request).size();
    for (auto page = static_cast<std::size_t>(node.changed_page); page < known; ++page) {
      live->replace_page(*node.request, static_cast<std::int32_t>(page), pages[page]);
    }
    node.changed_page = std::numeric_limits<std::int32_t>::max();
    kv_lens.push_back(kv.tokens(*node.sequence));
    page_ids.insert(page_ids.end(), pages.begin() + static_cast<std::ptrdiff_t>(known), pages.end());
    page_indptr.push_back(static_cast<std::int32_t>(page_ids.size()));
  }
  live->advance(kv_lens, {.indptr = page_indptr, .ids = std::span<const std::int32_t>(page_ids)});
}

void SequenceTree::State::join_rows() {
  row_nodes.reserve(last.nodes.size());
  for (std::size_t row = 0; row < last.nodes.size(); ++row) {
    Node& node = at(last.nodes[row].index);
    const std::int32_t queries = last.query_start[row + 1] - last.query_start[row];
    if (node.request) {
      live->set_queries(*node.request, queries, parents_of(row));
      continue;
    }
    node.request = live->join({.kv_len = kv.tokens(*node.sequence),
                               .pages = kv.pages(*node.sequence),
                               .queries = queries,
                               .query_parents = parents_of(row)});
    node.changed_page = std::numeric_limits<std::int32_t>::max();
    row_nodes.push_back(last.nodes[row].index);
  }
}

void SequenceTree::State::order_rows() {
  const auto same = [](std::int32_t index, NodeId node) { return index == node.index; };
  if (std::ranges::equal(row_nodes, last.nodes, same)) return;
  kv_lens.clear();  // here: the present row of each row to be
  for (const NodeId node : last.nodes) kv_lens.push_back(live->row(*at(node.index).request));
  live->reorder(kv_lens);
  row_nodes.clear();
  for (const NodeId node : last.nodes) row_nodes.push_back(node.index);
}

void SequenceTree::State::edit_batch() {
  for (std::size_t row = row_nodes.size(); row-- > 0;) {
    Node& node = at(row_nodes[row]);
    const bool goes = node.checked != steps;
    if (goes || live->kv_len(*node.request) > kv.tokens(*node.sequence)) leave_batch(node);
  }
  lengthen_rows();
  join_rows();
  order_rows();
}

const TreeStep& SequenceTree::step(std::span<const NodeId> leaves, std::int32_t max_queries) {
  State& state = *state_;
  state.check_step(leaves, max_queries);
  state.lay_out_step(leaves);
  const AppendResult& result = state.kv.append(state.appends);
  try {
    state.coming.slot_mapping.assign(result.slot_mapping.begin(), result.slot_mapping.end());
    for (const PageCopy& copy : result.copies) {
      State::Node& node = state.at(leaves[static_cast<std::size_t>(copy.append)].index);
      node.changed_page = std::min(node.changed_page, copy.page_index);
    }
    if (state.store != nullptr) {
      state.store->copy_pages(result.copies);
    } else {
      state.coming.copies.assign(result.copies.begin(), result.copies.end());
    }
    std::swap(state.last, state.coming);
    for (const NodeId leaf : leaves) state.at(leaf.index).drafts_computed = state.at(leaf.index).drafts() > 0;
    state.edit_batch();
  } catch (...) {
    // Their pages hold no KV yet, so no later step may build on them.
    for (const NodeId leaf : leaves) state.prune_below(leaf.index);
    throw;
  }
  return state.last;
}

const TreeStep& SequenceTree::last_step() const {
  return state_->last;
}

void SequenceTree::cancel_step() {
  State& state = *state_;
  for (std::size_t row = 0; row < state.last.nodes.size(); ++row) {
    State::Node& node = state.at(state.last.nodes[row].index);
    if (node.state != NodeState::kLeaf || !node.sequence) continue;
    const std::int32_t queries = state.last.query_start[row + 1] - state.last.query_start[row];
    const std::int32_t begin = state.last.positions[static_cast<std::size_t>(state.last.query_start[row])];
    if (state.kv.tokens(*node.sequence) != begin + queries) continue;  // restored, or accepted drafts, since
    state.leave_batch(node);
    state.kv.truncate(*node.sequence, begin);
    node.draft_tokens.clear();
    node.draft_parents.clear();
    node.drafts_computed = false;
  }
  state.last = {};
}

ExplicitTree SequenceTree::explicit_tree() {
  State& state = *state_;
  const TreeStep& step = state.last;
  for (std::size_t row = 0; row < step.nodes.size(); ++row) {
    const std::int32_t queries = step.query_start[row + 1] - step.query_start[row];
    if (queries == 1) continue;
    fail(ErrorCode::kUnsupported, "row ", row, " of the last step has ", queries,
         " query tokens; an explicit tree has one for each row");
  }
  state.tree_parent.clear();
  state.tree_tokens.clear();
  state.tree_end.clear();
  std::vector<std::int32_t> listed(state.nodes.size(), -1);
  for (const NodeId leaf : step.nodes) {
    std::int32_t below = -1;
    for (std::int32_t index = leaf.index; index >= 0; index = state.at(index).parent) {
      const bool known = listed[static_cast<std::size_t>(index)] >= 0;
      if (!known) {
        listed[static_cast<std::size_t>(index)] = static_cast<std::int32_t>(state.tree_parent.size());
        state.tree_parent.push_back(-1);
        state.tree_tokens.push_back(static_cast<std::int32_t>(state.at(index).tokens.size()));
      }
      if (below >= 0) state.tree_parent[static_cast<std::size_t>(below)] = listed[static_cast<std::size_t>(index)];
      below = listed[static_cast<std::size_t>(index)];
      if (known) break;
    }
    state.tree_end.push_back(listed[static_cast<std::size_t>(leaf.index)]);
  }
  return {.parent = state.tree_parent, .tokens = state.tree_tokens, .end_node = state.tree_end};
}

}  // namespace trunkline
