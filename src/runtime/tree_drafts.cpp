// The draft tokens of a SequenceTree: adding them behind a leaf, and ending them once a model has verified them.
#include <algorithm>

#include "base/check.hpp"
#include "runtime/sequence_tree_state.hpp"

namespace trunkline {
namespace {

void check_drafts(std::span<const std::int32_t> tokens, std::span<const std::int32_t> parents) {
  if (tokens.empty()) fail(ErrorCode::kInvalidArgument, "tokens is empty; a draft has at least one token");
  if (parents.size() != tokens.size()) {
    fail(ErrorCode::kInvalidArgument, "parents has ", parents.size(), " entries; tokens has ", tokens.size());
  }
  for (std::size_t i = 0; i < parents.size(); ++i) {
    if (parents[i] >= -1 && parents[i] < static_cast<std::int32_t>(i)) continue;
    fail(ErrorCode::kInvalidArgument, "parents[", i, "] is ", parents[i],
         "; it must be -1 or the index of an earlier draft");
  }
}

}  // namespace

void SequenceTree::draft(NodeId leaf, std::span<const std::int32_t> tokens, std::span<const std::int32_t> parents) {
  State& state = *state_;
  State::Node& node = state.at(state.leaf_of(leaf));
  check_drafts(tokens, parents);
  if (node.drafts() > 0) {
    fail(ErrorCode::kInvalidArgument, "leaf is node ", leaf.index, ", which has ", node.drafts(),
         " drafts; accept() ends them");
  }
  if (state.kv_len(node) == node.end()) {
    fail(ErrorCode::kInvalidArgument, "leaf is node ", leaf.index, ", whose tokens all have KV; append() the token ",
         "that the drafts follow");
  }
  std::vector<std::int32_t> copy(parents.begin(), parents.end());
  node.draft_tokens.assign(tokens.begin(), tokens.end());
  node.draft_parents = std::move(copy);
}

std::span<const TokenMove> SequenceTree::accept(NodeId leaf, std::span<const std::int32_t> accepted) {
  State& state = *state_;
  State::Node& node = state.at(state.leaf_of(leaf));
  if (!node.drafts_computed && !accepted.empty()) {
    fail(ErrorCode::kInvalidArgument, "accepted has ", accepted.size(), " drafts; no step has had drafts of node ",
         leaf.index);
  }
  std::int32_t before = -1;
  for (std::size_t i = 0; i < accepted.size(); ++i) {
    const std::int32_t draft = accepted[i];
    if (draft < 0 || draft >= node.drafts()) {
      fail(ErrorCode::kOutOfRange, "accepted[", i, "] is ", draft, "; the leaf has drafts 0 to ", node.drafts() - 1);
    }
    const std::int32_t parent = node.draft_parents[static_cast<std::size_t>(draft)];
    if (parent != before) {
      fail(ErrorCode::kInvalidArgument, "accepted[", i, "] is ", draft, ", a child of ", parent, "; expected: of ",
           before);
    }
    before = draft;
  }
  state.moves.clear();
  if (node.drafts_computed) {
    const std::int32_t past = node.end();
    const auto count = static_cast<std::int32_t>(accepted.size());
    node.tokens.reserve(node.tokens.size() + accepted.size());
    for (std::int32_t i = 0; i < count; ++i) {
      const std::int32_t draft = accepted[static_cast<std::size_t>(i)];
      if (draft == i) continue;
      state.moves.push_back({state.slot_of(*node.sequence, past + draft), state.slot_of(*node.sequence, past + i)});
    }
    if (state.store != nullptr) state.store->move_tokens(state.moves);
    node.changed_page = std::min(node.changed_page, (past + count) / state.options.page_size);
    for (const std::int32_t draft : accepted) {
      node.tokens.push_back(node.draft_tokens[static_cast<std::size_t>(draft)]);
    }
    state.kv.truncate(*node.sequence, past + count);
  }
  node.draft_tokens.clear();
  node.draft_parents.clear();
  node.drafts_computed = false;
  if (state.store != nullptr) state.moves.clear();
  return state.moves;
}

}  // namespace trunkline
