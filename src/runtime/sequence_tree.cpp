// The nodes of a SequenceTree: forking, appending, pruning. Steps are in tree_step.cpp.
#include "trunkline/runtime/sequence_tree.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "base/check.hpp"
#include "runtime/sequence_tree_state.hpp"

namespace trunkline {
namespace {

std::uint32_t new_tag() {
  static std::atomic<std::uint32_t> last{0};
  return ++last;
}

void check_store(const KvStore* store, const SequenceTreeOptions& options) {
  if (store == nullptr) return;
  const KvStoreShape& shape = store->shape();
  if (shape.page_size != options.page_size) {
    fail(ErrorCode::kInvalidArgument, "options.page_size is ", options.page_size, "; the store's is ", shape.page_size);
  }
  if (shape.num_pages < options.num_pages) {
    fail(ErrorCode::kInvalidArgument, "options.num_pages is ", options.num_pages, "; the store has ", shape.num_pages);
  }
}

std::shared_ptr<LiveBatch> batch_for(const SequenceTreeOptions& options, std::shared_ptr<LiveBatch> given) {
  if (given == nullptr) {
    return std::make_shared<LiveBatch>(LiveBatchOptions{.page_size = options.page_size,
                                                        .num_pages = options.num_pages,
                                                        .expected_requests = options.expected_leaves,
                                                        .expected_pages = options.expected_pages});
  }
  const Batch batch = given->batch();
  if (batch.rows() != 0) {
    fail(ErrorCode::kInvalidArgument, "live has ", batch.rows(), " requests; a tree needs a batch without any");
  }
  if (batch.pages.page_size() != options.page_size || batch.num_pages != options.num_pages) {
    fail(ErrorCode::kInvalidArgument, "live has ", batch.num_pages, " pages of ", batch.pages.page_size(),
         " tokens; the tree has ", options.num_pages, " of ", options.page_size);
  }
  return given;
}

}  // namespace

SequenceTree::State::State(const SequenceTreeOptions& given, KvStore* given_store, std::shared_ptr<LiveBatch> batch)
    : options(given),
      kv({.page_size = given.page_size, .num_pages = given.num_pages}),
      store(given_store),
      live(batch_for(given, std::move(batch))),
      tag(new_tag()) {
  check_store(store, options);
}

std::int32_t SequenceTree::State::index_of(NodeId id, const char* name) const {
  if (id.tree != tag) {
    fail(ErrorCode::kOutOfRange, name, " is node ", id.index, " of tree ", id.tree, "; this is tree ", tag);
  }
  if (id.index < 0 || static_cast<std::size_t>(id.index) >= nodes.size()) {
    fail(ErrorCode::kOutOfRange, name, " is node ", id.index, "; the tree has ", nodes.size(), " nodes");
  }
  return id.index;
}

std::int32_t SequenceTree::State::leaf_of(NodeId id, const char* name) const {
  const std::int32_t index = index_of(id, name);
  if (at(index).state != NodeState::kLeaf) {
    fail(ErrorCode::kStale, name, " is node ", index, ", which is ", name_of(at(index).state), "; a leaf is needed");
  }
  return index;
}

std::int32_t SequenceTree::State::kv_len(const Node& node) const {
  if (!node.sequence) return 0;
  return kv.tokens(*node.sequence) - (node.drafts_computed ? node.drafts() : 0);
}

std::int32_t SequenceTree::State::holder_below(std::int32_t index) const {
  std::int32_t found = -1;
  std::int32_t most = -1;
  std::vector<std::int32_t> open{index};
  while (!open.empty()) {
    const std::int32_t next = open.back();
    open.pop_back();
    const Node& node = at(next);
    if (node.sequence) {
      const std::int32_t held = std::min(kv_len(node), at(index).end());
      if (held > most) {
        found = next;
        most = held;
      }
      if (held == at(index).end()) return next;
    }
    for (std::int32_t child = node.first_child; child >= 0; child = at(child).next_sibling) open.push_back(child);
  }
  return found;
}

void SequenceTree::State::read_tokens(std::int32_t index, std::int32_t begin, std::int32_t end,
                                      std::int32_t* to) const {
  const std::int32_t first = begin;
  for (; begin < end; index = at(index).parent) {
    const Node& node = at(index);
    const std::int32_t from = std::max(begin, node.begin);
    if (from >= end) continue;
    std::copy(node.tokens.begin() + (from - node.begin), node.tokens.begin() + (end - node.begin), to + (from - first));
    end = from;
  }
}

std::vector<std::int32_t> SequenceTree::State::path_tokens(std::int32_t index, std::int32_t end) const {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(end));
  read_tokens(index, 0, end, tokens.data());
  return tokens;
}

std::int64_t SequenceTree::State::slot_of(SequenceId sequence, std::int32_t token) const {
  const std::int64_t page = kv.pages(sequence)[static_cast<std::size_t>(token / options.page_size)];
  return page * options.page_size + token % options.page_size;
}

std::int32_t SequenceTree::State::add_node(std::int32_t parent, std::int32_t begin) {
  if (nodes.size() >= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    fail(ErrorCode::kUnsupported, "the tree has ", nodes.size(), " nodes; at most 2^31 - 1 are supported");
  }
  const auto index = static_cast<std::int32_t>(nodes.size());
  Node& node = nodes.emplace_back();
  node.parent = parent;
  node.begin = begin;
  if (parent >= 0) node.next_sibling = std::exchange(at(parent).first_child, index);
  return index;
}

void SequenceTree::State::leave_batch(Node& node) noexcept {
  if (!node.request) return;
  const std::int32_t row = live->row(*node.request);
  live->leave(*node.request);
  row_nodes.erase(row_nodes.begin() + row);
  node.request.reset();
}

void SequenceTree::State::release(Node& node) noexcept {
  leave_batch(node);
  if (node.sequence) kv.free(*node.sequence);
  node.sequence.reset();
  node.draft_tokens.clear();
  node.draft_parents.clear();
  node.drafts_computed = false;
  node.saved = {};
  node.saved_tokens = 0;
}

// Without recursion or memory: a search may be thousands of nodes deep, and pruning is how memory is got back.
void SequenceTree::State::prune_below(std::int32_t index) noexcept {
  std::int32_t next = index;
  while (true) {
    Node& node = at(next);
    release(node);
    if (node.state != NodeState::kFinished) node.state = NodeState::kPruned;
    if (node.first_child >= 0) {
      next = node.first_child;
      continue;
    }
    while (next != index && at(next).next_sibling < 0) next = at(next).parent;
    if (next == index) return;
    next = at(next).next_sibling;
  }
}

SequenceTree::SequenceTree(const SequenceTreeOptions& options, KvStore* store, std::shared_ptr<LiveBatch> live)
    : state_(std::make_unique<State>(options, store, std::move(live))) {}
SequenceTree::~SequenceTree() = default;
SequenceTree::SequenceTree(SequenceTree&&) noexcept = default;
SequenceTree& SequenceTree::operator=(SequenceTree&&) noexcept = default;

NodeId SequenceTree::add_root(std::span<const std::int32_t> tokens) {
  State& state = *state_;
  if (tokens.empty()) fail(ErrorCode::kInvalidArgument, "tokens is empty; a root has at least one token");
  if (tokens.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    fail(ErrorCode::kUnsupported, "tokens has ", tokens.size(), " entries; at most 2^31 - 1 are supported");
  }
  std::vector<std::int32_t> copy(tokens.begin(), tokens.end());
  const SequenceId sequence = state.kv.match(tokens.first(tokens.size() - 1));
  try {
    const std::int32_t index = state.add_node(-1, 0);
    state.at(index).sequence = sequence;
    state.at(index).tokens = std::move(copy);
    return state.id_of(index);
  } catch (...) {
    state.kv.free(sequence);
    throw;
  }
}

std::vector<NodeId> SequenceTree::fork(NodeId node, std::int32_t count, bool keep) {
  State& state = *state_;
  const std::int32_t index = state.index_of(node);
  const NodeState before = state.at(index).state;
  if (before != NodeState::kLeaf && before != NodeState::kInner) {
    fail(ErrorCode::kStale, "node is node ", index, ", which is ", name_of(before),
         "; a leaf or an inner node is needed");
  }
  if (count < 1) fail(ErrorCode::kInvalidArgument, "count is ", count, "; it must be at least 1");
  if (state.at(index).drafts() > 0) {
    fail(ErrorCode::kInvalidArgument, "node is node ", index, ", which has ", state.at(index).drafts(),
         " drafts; accept() ends them");
  }
  const std::int32_t holder = state.holder_below(index);
  if (holder < 0) {
    fail(ErrorCode::kStale, "node is node ", index, ", and neither it nor a leaf below it holds KV");
  }
  // A leaf's KV passes to its first child, so that a chain of forks takes no page more than a chain of tokens.
  const bool pass = before == NodeState::kLeaf && !keep;
  const std::size_t first = state.nodes.size();
  std::vector<NodeId> children;
  children.reserve(static_cast<std::size_t>(count));
  std::vector<SequenceId> made;
  made.reserve(static_cast<std::size_t>(count));
  const std::int32_t child_of_index = state.at(index).first_child;
  const std::int32_t end = state.at(index).end();
  const std::int32_t held = std::min(state.kv_len(state.at(holder)), end);
  try {
    for (std::int32_t i = pass ? 1 : 0; i < count; ++i) {
      made.push_back(state.kv.fork(*state.at(holder).sequence));
      state.kv.truncate(made.back(), held);
    }
    for (std::int32_t i = 0; i < count; ++i) children.push_back(state.id_of(state.add_node(index, end)));
  } catch (...) {
    for (const SequenceId sequence : made) state.kv.free(sequence);
    state.nodes.resize(first);
    state.at(index).first_child = child_of_index;
    throw;
  }
  auto sequence = made.begin();
  for (const NodeId child : children) {
    State::Node& leaf = state.at(child.index);
    leaf.score = state.at(index).score;
    if (pass && child == children.front()) {
      leaf.sequence = std::exchange(state.at(index).sequence, std::nullopt);
      leaf.request = std::exchange(state.at(index).request, std::nullopt);
      leaf.changed_page = state.at(index).changed_page;
      if (leaf.request) state.row_nodes[static_cast<std::size_t>(state.live->row(*leaf.request))] = child.index;
    } else {
      leaf.sequence = *sequence++;
    }
  }
  if (!pass) state.leave_batch(state.at(index));
  state.at(index).state = NodeState::kInner;
  return children;
}

void SequenceTree::append(NodeId leaf, std::span<const std::int32_t> tokens) {
  State& state = *state_;
  State::Node& node = state.at(state.leaf_of(leaf));
  if (node.drafts() > 0) {
    fail(ErrorCode::kInvalidArgument, "leaf is node ", leaf.index, ", which has ", node.drafts(),
         " drafts; accept() ends them");
  }
  if (tokens.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max() - node.end())) {
    fail(ErrorCode::kInvalidArgument, "tokens has ", tokens.size(), " entries, and the sequence has ", node.end(),
         "; at most 2^31 - 1 tokens of a sequence are supported");
  }
  node.tokens.insert(node.tokens.end(), tokens.begin(), tokens.end());
}

void SequenceTree::append(NodeId leaf, std::int32_t token) {
  append(leaf, {&token, 1});
}

void SequenceTree::prune(NodeId node) {
  const std::int32_t index = state_->index_of(node);
  const NodeState before = state_->at(index).state;
  if (before == NodeState::kPruned || before == NodeState::kFinished) {
    fail(ErrorCode::kStale, "node is node ", index, ", which is ", name_of(before), " already");
  }
  state_->prune_below(index);
}

void SequenceTree::finish(NodeId leaf) {
  State::Node& node = state_->at(state_->leaf_of(leaf));
  state_->release(node);
  node.state = NodeState::kFinished;
}

void SequenceTree::commit(NodeId node) {
  State& state = *state_;
  const std::int32_t index = state.index_of(node);
  const NodeState before = state.at(index).state;
  if (before == NodeState::kPruned) fail(ErrorCode::kStale, "node is node ", index, ", which is pruned");
  for (std::int32_t kept = index; state.at(kept).parent >= 0; kept = state.at(kept).parent) {
    const std::int32_t parent = state.at(kept).parent;
    for (std::int32_t child = state.at(parent).first_child; child >= 0; child = state.at(child).next_sibling) {
      if (child != kept) state.prune_below(child);
    }
    state.release(state.at(parent));
  }
}

void SequenceTree::clear() {
  State& state = *state_;
  for (State::Node& node : state.nodes) state.release(node);
  state.nodes.clear();
  state.last = {};
  state.tag = new_tag();
}

}  // namespace trunkline
