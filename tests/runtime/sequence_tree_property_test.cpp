// Random controllers over thousands of steps, beside a reference that keeps every sequence by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "runtime/numbered_kv.hpp"
#include "support/test_scale.hpp"
#include "trunkline/error.hpp"
#include "trunkline/runtime/sequence_tree.hpp"

namespace trunkline::testing {
namespace {

using Tokens = std::vector<std::int32_t>;
using ::testing::ElementsAreArray;

class RandomController {
 public:
  explicit RandomController(std::uint64_t seed)
      : random_(seed),
        page_size_(uniform(1, 5)),
        num_pages_(uniform(8, 40)),
        store_(numbered_shape(page_size_, num_pages_)),
        tree_({.page_size = page_size_, .num_pages = num_pages_}, &store_) {}

  void act() {
    switch (uniform(0, 11)) {
      case 0: return add_root();
      case 1: return fork();
      case 2: return prune();
      case 3: return finish();
      case 4: return cache();
      case 5: return save_or_restore();
      case 6: return uniform(0, 5) == 0 ? commit() : fork_inner();
      default: return step();
    }
  }

  void expect_same() {
    std::vector<NodeId> live;
    for (const auto& [index, sequence] : leaves_) live.push_back(tree_.node(index));
    ASSERT_THAT(tree_.leaves(), ElementsAreArray(live));
    for (const auto& [index, sequence] : leaves_) {
      const NodeId leaf = tree_.node(index);
      ASSERT_THAT(tree_.sequence(leaf), ElementsAreArray(sequence)) << "leaf " << index;
      const std::vector<std::int64_t> slots = tree_.slots(leaf);
      for (std::size_t token = 0; token < slots.size(); ++token) {
        ASSERT_EQ(read_number(store_, slots[token]), number_of(std::span(sequence).first(token + 1)))
            << "leaf " << index << ", token " << token;
      }
    }
    for (const auto& [index, sequence] : results_) {
      ASSERT_THAT(tree_.sequence(tree_.node(index)), ElementsAreArray(sequence)) << "result " << index;
    }
  }

  void end() {
    for (std::int32_t index = 0; index < tree_.nodes(); ++index) {
      const NodeInfo info = tree_.info(tree_.node(index));
      if (info.parent.index < 0 && info.state != NodeState::kPruned && info.state != NodeState::kFinished) {
        tree_.prune(tree_.node(index));
      }
    }
    EXPECT_EQ(tree_.kv().sequences(), 0);
    EXPECT_EQ(tree_.kv().free_pages() + tree_.kv().cached_pages(), num_pages_);
    EXPECT_EQ(tree_.live().rows(), 0);
    tree_.clear();
    for (std::int32_t page = 0; page < num_pages_; ++page) EXPECT_LE(tree_.kv().references(page), 1);
  }

  std::int64_t steps() const { return steps_; }
  std::int64_t full() const { return full_; }

 private:
  std::int32_t uniform(std::int32_t low, std::int32_t high) {
    return std::uniform_int_distribution<std::int32_t>(low, high)(random_);
  }
  Tokens some_tokens(std::int32_t max) {
    Tokens tokens(static_cast<std::size_t>(uniform(1, max)));
    for (std::int32_t& token : tokens) token = uniform(0, 2);  // few, so that prompts meet in the cache
    return tokens;
  }
  NodeId any_leaf() {
    return tree_.node(std::next(leaves_.begin(), uniform(0, static_cast<std::int32_t>(leaves_.size()) - 1))->first);
  }

  void add_root() {
    if (leaves_.size() > 4) return;
    const Tokens prompt = some_tokens(14);
    leaves_[tree_.add_root(prompt).index] = prompt;
  }
  void fork() {
    if (leaves_.empty()) return;
    const NodeId parent = any_leaf();
    const bool keep = uniform(0, 3) == 0;
    const Tokens sequence = leaves_[parent.index];
    for (const NodeId child : tree_.fork(parent, uniform(1, 4), keep)) leaves_[child.index] = sequence;
    leaves_.erase(parent.index);
    inner_[parent.index] = sequence;
  }
  void fork_inner() {
    if (inner_.empty()) return;
    const auto parent = std::next(inner_.begin(), uniform(0, static_cast<std::int32_t>(inner_.size()) - 1));
    if (tree_.info(tree_.node(parent->first)).state != NodeState::kInner) return;
    try {
      leaves_[tree_.fork(tree_.node(parent->first), 1).front().index] = parent->second;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kStale) << error.what();
    }
  }
  void forget_pruned() {
    std::erase_if(leaves_,
                  [&](const auto& leaf) { return tree_.info(tree_.node(leaf.first)).state == NodeState::kPruned; });
    std::erase_if(saved_,
                  [&](const auto& leaf) { return tree_.info(tree_.node(leaf.first)).state == NodeState::kPruned; });
  }
  void prune() {
    if (leaves_.empty()) return;
    NodeId node = any_leaf();
    if (uniform(0, 3) == 0 && tree_.info(node).parent.index >= 0) node = tree_.info(node).parent;
    tree_.prune(node);
    forget_pruned();
  }
  void commit() {
    if (leaves_.empty()) return;
    tree_.commit(any_leaf());
    forget_pruned();
  }
  void finish() {
    if (leaves_.empty()) return;
    const NodeId leaf = any_leaf();
    tree_.finish(leaf);
    results_[leaf.index] = leaves_[leaf.index];
    leaves_.erase(leaf.index);
  }
  void cache() {
    if (!leaves_.empty()) tree_.cache(any_leaf());
  }
  void save_or_restore() {
    if (!saved_.empty() && uniform(0, 1) == 0) {
      const auto saved = saved_.begin();
      try {
        tree_.restore(tree_.node(saved->first));
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ErrorCode::kOutOfRange) << error.what();
        return;
      }
      leaves_.insert(*saved);
      saved_.erase(saved);
    } else if (!leaves_.empty()) {
      const NodeId leaf = any_leaf();
      tree_.save(leaf);
      saved_[leaf.index] = leaves_[leaf.index];
      leaves_.erase(leaf.index);
    }
  }

  /// Some leaves get tokens, some of these drafts, of which some are accepted.
  void step() {
    std::vector<NodeId> nodes;
    for (auto& [index, sequence] : leaves_) {
      if (uniform(0, 3) == 0) continue;
      const NodeId leaf = tree_.node(index);
      if (tree_.info(leaf).kv_len == tree_.info(leaf).end) {
        const Tokens tokens = some_tokens(2);
        tree_.append(leaf, tokens);
        sequence.insert(sequence.end(), tokens.begin(), tokens.end());
      }
      nodes.push_back(leaf);
    }
    std::ranges::shuffle(nodes, random_);
    if (nodes.empty()) return;
    std::map<std::int32_t, std::pair<Tokens, Tokens>> drafts;
    for (const NodeId leaf : nodes) {
      if (uniform(0, 3) != 0) continue;
      auto& [tokens, parents] = drafts[leaf.index];
      tokens = some_tokens(6);
      for (std::int32_t i = 0; i < static_cast<std::int32_t>(tokens.size()); ++i) parents.push_back(uniform(-1, i - 1));
      tree_.draft(leaf, tokens, parents);
    }
    try {
      tree_.step(nodes, uniform(0, 1) * 3);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kOutOfRange) << error.what();
      ++full_;
      for (const auto& [index, drafted] : drafts) tree_.accept(tree_.node(index), {});
      return prune();
    }
    ++steps_;
    write_step(tree_, store_);
    expect_batch();
    for (const auto& [index, drafted] : drafts) {
      Tokens path;
      for (std::int32_t at = uniform(-1, static_cast<std::int32_t>(drafted.first.size()) - 1); at >= 0;
           at = drafted.second[static_cast<std::size_t>(at)]) {
        path.insert(path.begin(), at);
      }
      tree_.accept(tree_.node(index), path);
      for (const std::int32_t at : path) leaves_[index].push_back(drafted.first[static_cast<std::size_t>(at)]);
    }
  }

  /// The batch has the pages and lengths of the leaves, and the forest that a new one would have.
  void expect_batch() {
    const Batch batch = tree_.live().batch();
    const TreeStep& step = tree_.last_step();
    ASSERT_EQ(batch.rows(), static_cast<std::int32_t>(step.nodes.size()));
    check_batch(batch, IdCheck::kAllPages);
    for (std::int32_t row = 0; row < batch.rows(); ++row) {
      const auto begin = static_cast<std::size_t>(step.query_start[static_cast<std::size_t>(row)]);
      const std::int32_t queries = batch.query_count(row);
      ASSERT_EQ(queries, step.query_start[static_cast<std::size_t>(row) + 1] - static_cast<std::int32_t>(begin));
      const std::int32_t length = batch.kv_lens[static_cast<std::size_t>(row)];
      for (std::int32_t i = 0; i < queries; ++i) {
        const std::int32_t token = length - queries + i;
        const std::int64_t slot = batch.pages.id(row, token / page_size_) * page_size_ + token % page_size_;
        ASSERT_EQ(step.slot_mapping[begin + static_cast<std::size_t>(i)], slot) << "row " << row;
      }
      const std::vector<std::int64_t> slots = tree_.slots(step.nodes[static_cast<std::size_t>(row)]);
      for (std::size_t token = 0; token < slots.size(); ++token) {
        const auto at = static_cast<std::int32_t>(token);
        ASSERT_EQ(batch.pages.id(row, at / page_size_), slots[token] / page_size_) << "row " << row;
      }
    }
    const Forest built = build_forest(batch);
    ASSERT_EQ(tree_.live().forest().distinct_tokens, built.distinct_tokens);
    ASSERT_EQ(tree_.live().forest().nodes.size(), built.nodes.size());
  }

  std::mt19937_64 random_;
  std::int32_t page_size_;
  std::int64_t num_pages_;
  KvStore store_;
  SequenceTree tree_;
  std::map<std::int32_t, Tokens> leaves_;  // by node index
  std::map<std::int32_t, Tokens> inner_;
  std::map<std::int32_t, Tokens> saved_;
  std::map<std::int32_t, Tokens> results_;
  std::int64_t steps_ = 0;
  std::int64_t full_ = 0;
};

TEST(SequenceTreeProperty, RandomControllersKeepEverySequenceApart) {
  std::int64_t steps = 0;
  std::int64_t full = 0;
  const int runs = scaled(400);
  for (int seed = 0; seed < runs; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomController controller(static_cast<std::uint64_t>(seed));
    for (int i = 0; i < 150; ++i) {
      controller.act();
      if (HasFatalFailure()) return;
      controller.expect_same();
      if (HasFatalFailure()) return;
    }
    controller.end();
    steps += controller.steps();
    full += controller.full();
  }
  EXPECT_GT(steps, 10 * runs);
  EXPECT_GT(full, 0);
}

}  // namespace
}  // namespace trunkline::testing
