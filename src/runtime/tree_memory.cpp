// Where the KV of a SequenceTree outlives its leaves: in the prefix cache, and in memory outside the pool.
#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "runtime/sequence_tree_state.hpp"

namespace trunkline {

void SequenceTree::cache(NodeId node) {
  State& state = *state_;
  const std::int32_t index = state.index_of(node);
  State::Node& cached = state.at(index);
  if (!cached.sequence) fail(ErrorCode::kStale, "node is node ", index, ", which holds no KV");
  const std::vector<std::int32_t> tokens = state.path_tokens(index, state.kv_len(cached));
  for (const std::int32_t page : state.kv.insert(*cached.sequence, tokens)) {
    if (!cached.request) continue;
    state.live->replace_page(*cached.request, page, state.kv.pages(*cached.sequence)[static_cast<std::size_t>(page)]);
  }
}

void SequenceTree::save(NodeId leaf) {
  State& state = *state_;
  State::Node& node = state.at(state.leaf_of(leaf));
  if (node.drafts() > 0) {
    fail(ErrorCode::kInvalidArgument, "leaf is node ", leaf.index, ", which has ", node.drafts(),
         " drafts; accept() ends them");
  }
  const std::vector<std::int64_t> from = slots(leaf);
  std::vector<std::byte> bytes;
  if (state.store != nullptr) {
    bytes.resize(from.size() * state.store->bytes_per_token());
    state.store->save(from, bytes);
  }
  state.release(node);
  node.saved = std::move(bytes);
  node.saved_tokens = static_cast<std::int32_t>(from.size());
  node.state = NodeState::kSaved;
}

const RestoredKv& SequenceTree::restore(NodeId leaf) {
  State& state = *state_;
  const std::int32_t index = state.index_of(leaf, "leaf");
  State::Node& node = state.at(index);
  if (node.state != NodeState::kSaved) {
    fail(ErrorCode::kStale, "leaf is node ", index, ", which is ", name_of(node.state), "; a saved one is needed");
  }
  // Of all nodes that hold KV, the one with the most tokens in common is below the nearest ancestor that has any.
  std::int32_t holder = -1;
  std::int32_t common = 0;
  for (std::int32_t above = node.parent; above >= 0 && holder < 0; above = state.at(above).parent) {
    holder = state.holder_below(above);
    if (holder >= 0) common = std::min({state.at(above).end(), state.kv_len(state.at(holder)), node.saved_tokens});
  }
  const std::vector<std::int32_t> tokens = state.path_tokens(index, node.saved_tokens);
  const SequenceId sequence = holder >= 0 ? state.kv.fork(*state.at(holder).sequence) : state.kv.match(tokens);
  try {
    if (holder < 0) common = state.kv.tokens(sequence);
    if (state.kv.tokens(sequence) > common) state.kv.truncate(sequence, common);
    const AppendResult& result = state.kv.append(sequence, node.saved_tokens - common);
    if (state.store == nullptr) {
      state.restored = {common, result.slot_mapping, result.copies};
    } else {
      state.restored = {};
      state.store->copy_pages(result.copies);
      const std::size_t skipped = static_cast<std::size_t>(common) * state.store->bytes_per_token();
      state.store->restore(result.slot_mapping, std::span(node.saved).subspan(skipped));
    }
  } catch (...) {
    state.kv.free(sequence);
    throw;
  }
  node.sequence = sequence;
  node.saved = {};
  node.saved_tokens = 0;
  node.state = NodeState::kLeaf;
  return state.restored;
}

}  // namespace trunkline
