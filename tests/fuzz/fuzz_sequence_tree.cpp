// Any bytes as calls of a sequence tree, beside a plain list of its leaves: each call is refused with an Error and
// changes nothing, or leaves the leaves, tokens and KV that the list says. Keys and values name the tokens that they
// were made of (numbered_kv.hpp).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "fuzz/byte_reader.hpp"
#include "runtime/numbered_kv.hpp"
#include "trunkline/error.hpp"
#include "trunkline/runtime/sequence_tree.hpp"

namespace trunkline::testing {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

class Calls {
 public:
  explicit Calls(ByteReader& reader)
      : reader_(reader),
        page_size_(1 + reader.byte() % 4),
        num_pages_(8 + reader.byte() % 24),
        store_(numbered_shape(page_size_, num_pages_)),
        tree_({.page_size = page_size_, .num_pages = num_pages_}, &store_) {}

  void play() {
    const std::map<std::int32_t, Numbers> before = leaves_;
    try {
      call();
    } catch (const Error&) {
      leaves_ = before;
    }
    check();
  }

  /// After all are gone no page is held.
  void end() {
    tree_.clear();
    leaves_.clear();
    require(tree_.leaves().empty() && tree_.live().rows() == 0 && tree_.kv().sequences() == 0, "all are gone");
    require(tree_.kv().free_pages() + tree_.kv().cached_pages() == num_pages_, "every page is free or cached");
  }

 private:
  /// Mostly one that was made; else one of another tree, or that never was.
  NodeId any_node() {
    const std::uint8_t byte = reader_.byte();
    if (byte == 255) return {byte, tree_.tag() + 1};
    if (byte >= 250 || tree_.nodes() == 0) return {byte % 64 - 2, tree_.tag()};
    return {byte % tree_.nodes(), tree_.tag()};
  }
  NodeId any_leaf() {
    const std::uint8_t byte = reader_.byte();
    if (byte >= 240 || leaves_.empty()) return any_node();
    return tree_.node(std::next(leaves_.begin(), byte % static_cast<int>(leaves_.size()))->first);
  }
  Numbers some_tokens(std::size_t max) {
    Numbers tokens(reader_.byte() % (max + 1));
    for (std::int32_t& token : tokens) token = reader_.byte() % 3;  // few, so that prompts meet in the cache
    return tokens;
  }
  void forget_gone() {
    std::erase_if(leaves_,
                  [&](const auto& leaf) { return tree_.info(tree_.node(leaf.first)).state != NodeState::kLeaf; });
  }

  void call() {
    constexpr std::size_t kMaxLeaves = 12;
    switch (reader_.byte() % 13) {
      case 0: {
        if (leaves_.size() >= kMaxLeaves) return;
        const Numbers prompt = some_tokens(14);
        leaves_[tree_.add_root(prompt).index] = prompt;
        return;
      }
      case 1: {
        if (leaves_.size() >= kMaxLeaves) return;
        const NodeId node = any_node();
        const std::int32_t count = reader_.byte() == 255 ? -1 : reader_.byte() % 4;
        const std::vector<NodeId> children = tree_.fork(node, count, reader_.byte() % 4 == 0);
        const Numbers sequence = tree_.sequence(node);
        leaves_.erase(node.index);
        for (const NodeId child : children) leaves_[child.index] = sequence;
        return;
      }
      case 2: return append();
      case 3: tree_.prune(any_node()); return forget_gone();
      case 4: tree_.finish(any_leaf()); return forget_gone();
      case 5: tree_.commit(any_node()); return forget_gone();
      case 6: return tree_.cache(any_leaf());
      case 7: tree_.save(any_leaf()); return forget_gone();
      case 8: {
        const NodeId node = any_node();
        tree_.restore(node);
        leaves_[node.index] = tree_.sequence(node);
        return;
      }
      case 9: return cancel();
      case 10: tree_.set_score(any_node(), 1); return tree_.set_user_data(any_node(), 2);
      default: return step();
    }
  }
  void append() {
    const NodeId leaf = any_leaf();
    const Numbers tokens = some_tokens(3);
    tree_.append(leaf, tokens);
    Numbers& sequence = leaves_.at(leaf.index);
    sequence.insert(sequence.end(), tokens.begin(), tokens.end());
  }
  /// A step whose model failed; the tree may have none to take back.
  void cancel() {
    const std::vector<NodeId> nodes = step_nodes();
    tree_.step(nodes);
    tree_.cancel_step();
  }
  std::vector<NodeId> step_nodes() {
    std::vector<NodeId> nodes;
    for (const auto& [index, sequence] : leaves_) {
      if (reader_.byte() % 4 != 0) nodes.push_back(tree_.node(index));
    }
    if (reader_.byte() >= 250) nodes.push_back(any_node());
    return nodes;
  }
  void step() {
    const std::vector<NodeId> nodes = step_nodes();
    struct Drafts {
      NodeId leaf;
      Numbers tokens;
    };
    std::vector<Drafts> drafts;
    for (const NodeId leaf : nodes) {
      if (reader_.byte() % 4 != 0) continue;
      const Numbers tokens = some_tokens(5);
      Numbers parents(reader_.count(tokens.size()));
      for (std::size_t i = 0; i < parents.size(); ++i) {
        parents[i] = static_cast<std::int32_t>(reader_.byte() % (i + 2)) - 1;  // i itself is refused
      }
      try {
        tree_.draft(leaf, tokens, parents);
      } catch (const Error&) {
        continue;
      }
      drafts.push_back({leaf, tokens});
    }
    bool written = false;
    try {
      tree_.step(nodes, reader_.byte() % 2 * 3);
      write_step(tree_, store_);
      written = true;
    } catch (const Error&) {
    }
    for (const Drafts& drafted : drafts) {
      Numbers accepted;
      if (written) {
        for (std::int32_t i = 0; i < static_cast<std::int32_t>(drafted.tokens.size()); ++i) {
          if (reader_.byte() % 2 == 0) accepted.push_back(i);
        }
      }
      try {
        tree_.accept(drafted.leaf, accepted);
      } catch (const Error&) {  // not a path of the tree
        tree_.accept(drafted.leaf, {});
        continue;
      }
      Numbers& sequence = leaves_.at(drafted.leaf.index);
      for (const std::int32_t at : accepted) sequence.push_back(drafted.tokens[static_cast<std::size_t>(at)]);
    }
  }

  void check() {
    const std::vector<NodeId> leaves = tree_.leaves();
    require(leaves.size() == leaves_.size(), "leaves");
    for (const NodeId leaf : leaves) {
      const auto found = leaves_.find(leaf.index);
      require(found != leaves_.end(), "a leaf that was made");
      require(tree_.sequence(leaf) == found->second, "a leaf's tokens");
      require(tree_.info(leaf).drafts == 0, "no drafts are left");
      const std::vector<std::int64_t> slots = tree_.slots(leaf);
      require(static_cast<std::int32_t>(slots.size()) == tree_.info(leaf).kv_len, "a leaf's slots");
      for (std::size_t token = 0; token < slots.size(); ++token) {
        require(read_number(store_, slots[token]) == number_of(std::span(found->second).first(token + 1)),
                "keys and values of a leaf's tokens");
      }
    }
    require(tree_.kv().free_pages() >= 0, "pages");
  }

  ByteReader& reader_;
  std::int32_t page_size_;
  std::int64_t num_pages_;
  KvStore store_;
  SequenceTree tree_;
  std::map<std::int32_t, Numbers> leaves_;  // by node index
};

}  // namespace
}  // namespace trunkline::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trunkline::testing::ByteReader reader({data, size});
  trunkline::testing::Calls calls(reader);
  constexpr int kMaxCalls = 60;
  for (int call = 0; call < kMaxCalls && !reader.empty(); ++call) calls.play();
  calls.end();
  return 0;
}
