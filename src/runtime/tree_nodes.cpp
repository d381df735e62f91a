// What is known of the nodes of a SequenceTree, now and after they are gone.
#include "base/check.hpp"
#include "runtime/sequence_tree_state.hpp"

namespace trunkline {

const char* name_of(NodeState state) {
  switch (state) {
    case NodeState::kLeaf: return "leaf";
    case NodeState::kInner: return "inner";
    case NodeState::kFinished: return "finished";
    case NodeState::kPruned: return "pruned";
    case NodeState::kSaved: break;
  }
  return "saved";
}

void SequenceTree::set_score(NodeId node, double score) {
  state_->at(state_->index_of(node)).score = score;
}

void SequenceTree::set_user_data(NodeId node, std::int64_t user_data) {
  state_->at(state_->index_of(node)).user_data = user_data;
}

LiveBatch& SequenceTree::live() {
  return *state_->live;
}

const LiveBatch& SequenceTree::live() const {
  return *state_->live;
}

const KvManager& SequenceTree::kv() const {
  return state_->kv;
}

NodeInfo SequenceTree::info(NodeId node) const {
  const State::Node& found = state_->at(state_->index_of(node));
  NodeInfo info;
  info.parent = found.parent < 0 ? NodeId{-1, state_->tag} : state_->id_of(found.parent);
  info.state = found.state;
  info.begin = found.begin;
  info.end = found.end();
  info.kv_len = state_->kv_len(found);
  info.drafts = found.drafts();
  info.score = found.score;
  info.user_data = found.user_data;
  return info;
}

std::span<const std::int32_t> SequenceTree::tokens(NodeId node) const {
  return state_->at(state_->index_of(node)).tokens;
}

std::vector<std::int32_t> SequenceTree::sequence(NodeId node) const {
  const std::int32_t index = state_->index_of(node);
  return state_->path_tokens(index, state_->at(index).end());
}

std::vector<std::int64_t> SequenceTree::slots(NodeId node) const {
  const std::int32_t index = state_->index_of(node);
  const State::Node& found = state_->at(index);
  if (!found.sequence) fail(ErrorCode::kStale, "node is node ", index, ", which holds no KV");
  std::vector<std::int64_t> slots(static_cast<std::size_t>(state_->kv_len(found)));
  for (std::size_t token = 0; token < slots.size(); ++token) {
    slots[token] = state_->slot_of(*found.sequence, static_cast<std::int32_t>(token));
  }
  return slots;
}

std::uint32_t SequenceTree::tag() const {
  return state_->tag;
}

std::int32_t SequenceTree::nodes() const {
  return static_cast<std::int32_t>(state_->nodes.size());
}

NodeId SequenceTree::node(std::int32_t index) const {
  if (index < 0 || index >= nodes()) {
    fail(ErrorCode::kOutOfRange, "index is ", index, "; the tree has ", nodes(), " nodes");
  }
  return state_->id_of(index);
}

std::vector<NodeId> SequenceTree::leaves() const {
  std::vector<NodeId> found;
  for (std::int32_t index = 0; index < nodes(); ++index) {
    if (state_->at(index).state == NodeState::kLeaf) found.push_back(state_->id_of(index));
  }
  return found;
}

}  // namespace trunkline
