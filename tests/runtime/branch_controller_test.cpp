// run_tree and decisions: what is carried out, what is refused, and that failures leak nothing.
#include "trunkline/runtime/branch_controller.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "runtime/toy_model.hpp"
#include "support/expect_error.hpp"

namespace trunkline::testing {
namespace {

using ::testing::ElementsAre;
using Tokens = std::vector<std::int32_t>;

/// Forks, goes on, waits, ends and wakes at random; checks logits against whole sequences.
class RandomBranches final : public BranchController {
 public:
  RandomBranches(const ToyWeights& weights, std::uint64_t seed) : weights_(weights), random_(seed) {}
  void decide(SequenceTree& tree, std::span<const NodeId> leaves, const LogitsView& logits,
              Decisions& decisions) override {
    if (fail_in == 0) throw std::runtime_error("the controller has failed");
    if (fail_in > 0) --fail_in;
    std::vector<NodeId> woken = std::move(waiting_);
    waiting_.clear();
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const std::vector<float> expected = weights_.after(tree.sequence(leaves[i]));
      for (std::size_t token = 0; token < expected.size(); ++token) {
        worst = std::max(worst, std::abs(logits.row(static_cast<std::int32_t>(i))[token] - expected[token]));
      }
      const auto leaf = static_cast<std::int32_t>(i);
      const int choice = uniform(0, 9);
      if (choice == 0) {
        decisions.prune.push_back(leaf);
      } else if (choice == 1) {
        decisions.finish.push_back(leaf);
      } else if (choice == 2) {
        waiting_.push_back(leaves[i]);
      } else {
        const int count = choice < 5 && leaves.size() < 8 ? uniform(2, 3) : 1;
        for (int k = 0; k < count; ++k)
          decisions.continuations.push_back({leaf, uniform(0, 19), 0, uniform(0, 9) == 0});
      }
    }
    for (const NodeId node : woken) {
      tree.append(node, uniform(0, 19));
      decisions.nodes.push_back(node);
    }
  }
  int fail_in = -1;
  float worst = 0;

 private:
  int uniform(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  const ToyWeights& weights_;
  std::mt19937_64 random_;
  std::vector<NodeId> waiting_;
};

TEST(RunTree, LogitsAreThoseOfWholeSequences) {
  const ToyWeights weights(20, 1);
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    ToyTreeModel model(weights, 1 + static_cast<std::int32_t>(seed) % 6, 400);
    SequenceTree tree({.page_size = model.store.shape().page_size, .num_pages = 400}, &model.store);
    RandomBranches controller(weights, seed);
    const std::vector<NodeId> roots{tree.add_root(Tokens{1, 2, 3, 4, 5, 6, 7}), tree.add_root(Tokens{9, 8})};
    run_tree(tree, model, controller, roots, {.max_steps = 25, .max_queries = 3});
    EXPECT_LT(controller.worst, 2e-4) << "seed " << seed;
    for (const NodeId leaf : tree.leaves()) tree.prune(leaf);
    EXPECT_EQ(tree.kv().free_pages(), 400);
  }
}

TEST(RunTree, FailuresLeakNothingAndTheTreeGoesOn) {
  const ToyWeights weights(20, 1);
  for (int fail_in = 0; fail_in < 10; ++fail_in) {
    ToyTreeModel model(weights, 4, 400);
    SequenceTree tree({.page_size = 4, .num_pages = 400}, &model.store);
    RandomBranches controller(weights, 3);
    (fail_in % 2 == 0 ? model.fail_in : controller.fail_in) = fail_in / 2;
    const NodeId root = tree.add_root(Tokens{1, 2, 3, 4, 5, 6});
    EXPECT_THROW(run_tree(tree, model, controller, {&root, 1}, {.max_steps = 30}), std::runtime_error);
    model.fail_in = controller.fail_in = -1;
    std::vector<NodeId> leaves;
    for (const NodeId leaf : tree.leaves()) {
      if (tree.info(leaf).kv_len == tree.info(leaf).end) tree.append(leaf, 1);
      leaves.push_back(leaf);
    }
    ASSERT_FALSE(leaves.empty());
    RandomBranches other(weights, 4);
    run_tree(tree, model, other, leaves, {.max_steps = 5});
    EXPECT_LT(other.worst, 2e-4);
    for (const NodeId leaf : tree.leaves()) tree.prune(leaf);
    EXPECT_EQ(tree.kv().free_pages(), 400);
    EXPECT_EQ(tree.kv().sequences(), 0);
  }
}

TEST(Decisions, AreCarriedOutInOrder) {
  SequenceTree tree({.page_size = 4, .num_pages = 8});
  const NodeId root = tree.add_root(Tokens{1, 2});
  tree.step({&root, 1});
  Decisions decisions;
  decisions.continuations = {{0, 5, -1, true}, {0, 6, -2, false}, {0, 7, -3, false}};
  const std::vector<NodeId> next = apply_decisions(tree, {&root, 1}, decisions);
  ASSERT_EQ(next.size(), 2u);
  EXPECT_THAT(tree.sequence(next[0]), ElementsAre(1, 2, 6));
  EXPECT_EQ(tree.info(next[1]).score, -3);
  EXPECT_EQ(tree.info(tree.node(1)).state, NodeState::kFinished);
  EXPECT_THAT(tree.sequence(tree.node(1)), ElementsAre(1, 2, 5));
}

TEST(Decisions, RefusesWhatCannotBe) {
  SequenceTree tree({.page_size = 4, .num_pages = 8});
  const NodeId root = tree.add_root(Tokens{1, 2});
  tree.step({&root, 1});
  const auto refuse = [&](ErrorCode code, const std::string& text, const Decisions& decisions) {
    expect_error(code, text, [&] { apply_decisions(tree, {&root, 1}, decisions); });
    EXPECT_EQ(tree.nodes(), 1);
    EXPECT_EQ(tree.info(root).state, NodeState::kLeaf);
  };
  refuse(ErrorCode::kOutOfRange, "decisions.continuations[1] is about leaf 1; the step had leaves 0 to 0",
         {.continuations = {{0, 1, 0, false}, {1, 1, 0, false}}});
  refuse(ErrorCode::kInvalidArgument, "decisions.prune[0] is about leaf 0, of which another decision says otherwise",
         {.continuations = {{0, 1, 0, false}}, .prune = {0}});
  tree.prune(root);
  expect_error(ErrorCode::kStale, "leaves[0] is node 0, which is pruned; a leaf is needed", [&] {
    apply_decisions(tree, {&root, 1}, {.finish = {0}});
  });
}

}  // namespace
}  // namespace trunkline::testing
