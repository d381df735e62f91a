// SequenceTree: one behaviour a test, and the refusals.
#include "trunkline/runtime/sequence_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "runtime/numbered_kv.hpp"
#include "support/expect_error.hpp"

namespace trunkline::testing {
namespace {

using ::testing::ElementsAre;

std::vector<std::int32_t> counting(std::int32_t count, std::int32_t first = 0) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

class SequenceTreeTest : public ::testing::Test {
 protected:
  static constexpr std::int32_t kPageSize = 4;
  static constexpr std::int64_t kPages = 32;

  void step(const std::vector<NodeId>& leaves, std::int32_t max_queries = 0) {
    tree.step(leaves, max_queries);
    write_step(tree, store);
  }
  NodeId prompt(std::int32_t tokens) {
    const NodeId root = tree.add_root(counting(tokens));
    step({root});
    return root;
  }
  void expect_kv(NodeId node) {
    const std::vector<std::int32_t> sequence = tree.sequence(node);
    const std::vector<std::int64_t> slots = tree.slots(node);
    for (std::size_t token = 0; token < slots.size(); ++token) {
      ASSERT_EQ(read_number(store, slots[token]), number_of(std::span(sequence).first(token + 1)))
          << "node " << node.index << ", token " << token;
    }
  }
  std::int64_t pages_in_use() { return kPages - tree.kv().free_pages() - tree.kv().cached_pages(); }

  KvStore store{numbered_shape(kPageSize, kPages)};
  SequenceTree tree{{.page_size = kPageSize, .num_pages = kPages}, &store};
};

TEST_F(SequenceTreeTest, ForksShareFullPagesAndCopyThePartFilledOne) {
  const NodeId root = prompt(10);
  EXPECT_EQ(pages_in_use(), 3);
  const std::vector<NodeId> children = tree.fork(root, 3);
  for (std::int32_t i = 0; i < 3; ++i) tree.append(children[static_cast<std::size_t>(i)], 100 + i);
  step(children);
  EXPECT_EQ(pages_in_use(), 5) << "two pages are everyone's, the third has two copies";
  for (const NodeId child : children) expect_kv(child);
  EXPECT_EQ(tree.live().forest().distinct_tokens, 8 + 3 * 3);
  EXPECT_THAT(tree.last_step().positions, ElementsAre(10, 10, 10));
}

TEST_F(SequenceTreeTest, LongPromptsTakeSeveralSteps) {
  const NodeId root = tree.add_root(counting(10));
  step({root}, 4);
  EXPECT_THAT(tree.last_step().tokens, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(tree.info(root).kv_len, 4);
  step({root}, 4);
  step({root}, 4);
  EXPECT_THAT(tree.last_step().positions, ElementsAre(8, 9));
  expect_kv(root);
}

TEST_F(SequenceTreeTest, RowsAreInTheOrderGivenAndOthersWait) {
  const std::vector<NodeId> leaves = tree.fork(prompt(5), 3);
  for (const NodeId leaf : leaves) tree.append(leaf, 7);
  step({leaves[2], leaves[0]});
  EXPECT_EQ(tree.live().rows(), 2);
  EXPECT_THAT(tree.last_step().nodes, ElementsAre(leaves[2], leaves[0]));
  tree.append(leaves[0], 8);
  step({leaves[0], leaves[1]});
  EXPECT_THAT(tree.live().batch().kv_lens, ElementsAre(7, 6));
  for (const NodeId leaf : leaves) expect_kv(leaf);
}

TEST_F(SequenceTreeTest, AnInnerNodeIsForkedAgainFromWhatIsBelowIt) {
  const NodeId root = prompt(6);
  const NodeId child = tree.fork(root, 1).front();
  tree.append(child, counting(5, 50));
  step({child});
  const NodeId other = tree.fork(root, 1).front();
  EXPECT_EQ(tree.info(other).kv_len, 6);
  tree.append(other, 9);
  step({other});
  expect_kv(child);
  expect_kv(other);
  tree.prune(child);
  tree.prune(other);
  EXPECT_EQ(pages_in_use(), 0);
  expect_error(ErrorCode::kStale, "neither it nor a leaf below it holds KV", [&] { tree.fork(root, 1); });
}

TEST_F(SequenceTreeTest, AKeptNodeIsForkedAfterItsChildrenAreGone) {
  const NodeId root = prompt(6);
  tree.prune(tree.fork(root, 1, true).front());
  const NodeId again = tree.fork(root, 1).front();
  tree.append(again, 3);
  step({again});
  expect_kv(again);
  tree.prune(root);
  EXPECT_EQ(pages_in_use(), 0);
}

TEST_F(SequenceTreeTest, PrunedPagesAreReusedAtOnce) {
  const NodeId root = prompt(4 * 30);
  const std::vector<NodeId> leaves = tree.fork(root, 2);
  tree.append(leaves[0], counting(8));
  step({leaves[0]});
  tree.append(leaves[1], counting(8));
  expect_error(ErrorCode::kOutOfRange, "appends need 2 pages; of the pool's 32, 0 are free",
               [&] { step({leaves[1]}); });
  EXPECT_EQ(tree.info(leaves[1]).kv_len, 120) << "nothing has changed";
  const std::vector<std::int64_t> freed = tree.slots(leaves[0]);
  tree.prune(leaves[0]);
  step({leaves[1]});
  const std::int64_t page = tree.slots(leaves[1]).back() / kPageSize;
  EXPECT_THAT(page, ::testing::AnyOf(freed[120] / kPageSize, freed.back() / kPageSize));
  expect_kv(leaves[1]);
}

TEST_F(SequenceTreeTest, ResultsStayAfterTheirKv) {
  const std::vector<NodeId> leaves = tree.fork(prompt(4), 2);
  for (const NodeId leaf : leaves) {
    tree.append(leaf, 40 + leaf.index);
    tree.set_score(leaf, -leaf.index);
    tree.set_user_data(leaf, 70 + leaf.index);
  }
  step(leaves);
  tree.finish(leaves[0]);
  tree.prune(tree.node(0));
  EXPECT_EQ(pages_in_use(), 0);
  EXPECT_EQ(tree.live().rows(), 0);
  EXPECT_THAT(tree.sequence(leaves[0]), ElementsAre(0, 1, 2, 3, 41));
  EXPECT_EQ(tree.info(leaves[0]).state, NodeState::kFinished);
  EXPECT_EQ(tree.info(leaves[1]).state, NodeState::kPruned);
  EXPECT_EQ(tree.info(leaves[1]).score, -2);
  EXPECT_EQ(tree.info(leaves[1]).user_data, 72);
}

TEST_F(SequenceTreeTest, CommitKeepsOneBranch) {
  const std::vector<NodeId> leaves = tree.fork(prompt(4), 3);
  for (const NodeId leaf : leaves) tree.append(leaf, leaf.index);
  step(leaves);
  const std::vector<NodeId> below = tree.fork(leaves[1], 2);
  tree.commit(leaves[1]);
  EXPECT_THAT(tree.leaves(), ElementsAre(below[0], below[1]));
  EXPECT_EQ(tree.info(leaves[0]).state, NodeState::kPruned);
  EXPECT_EQ(pages_in_use(), 2);
}

TEST_F(SequenceTreeTest, AcceptedDraftsBecomeTokens) {
  const NodeId root = prompt(6);
  tree.append(root, 10);
  tree.draft(root, std::vector<std::int32_t>{11, 12, 13, 14}, std::vector<std::int32_t>{-1, -1, 1, 2});
  step({root});
  EXPECT_THAT(tree.last_step().tokens, ElementsAre(10, 11, 12, 13, 14));
  EXPECT_THAT(tree.last_step().positions, ElementsAre(6, 7, 7, 8, 9));
  EXPECT_THAT(tree.live().batch().query_parents, ElementsAre(-1, 0, 0, 2, 3));
  tree.accept(root, std::vector<std::int32_t>{1, 2});
  EXPECT_THAT(tree.sequence(root), ElementsAre(0, 1, 2, 3, 4, 5, 10, 12, 13));
  EXPECT_EQ(tree.info(root).kv_len, 9);
  expect_kv(root);
  tree.append(root, 15);
  tree.draft(root, std::vector<std::int32_t>{16, 17, 18, 19}, std::vector<std::int32_t>{-1, -1, 1, 2});
  step({root});
  tree.accept(root, {});
  expect_kv(root);
  EXPECT_EQ(tree.sequence(root).back(), 15);
}

TEST_F(SequenceTreeTest, MovesAreListedWithoutAStore) {
  SequenceTree bare({.page_size = kPageSize, .num_pages = kPages});
  const NodeId root = bare.add_root(counting(6));
  bare.draft(root, std::vector<std::int32_t>{1, 2, 3}, std::vector<std::int32_t>{-1, -1, 1});
  bare.step({&root, 1});
  const std::vector<std::int64_t> slots = bare.last_step().slot_mapping;
  EXPECT_THAT(bare.accept(root, std::vector<std::int32_t>{1, 2}),
              ElementsAre(TokenMove{slots[7], slots[6]}, TokenMove{slots[8], slots[7]}));
  const std::vector<NodeId> leaves = bare.fork(root, 2);
  for (const NodeId leaf : leaves) bare.append(leaf, counting(2));
  bare.append(leaves[0], counting(3));
  EXPECT_EQ(bare.step(leaves).copies.size(), 0u) << "the last page was full";
}

TEST_F(SequenceTreeTest, APlanOfTheSameDraftsIsKept) {
  LivePlanner planner(generic_cpu_profile(1), AttentionShape::uniform(2, 1, 64, kPageSize, DType::kF32));
  const NodeId root = prompt(40);
  for (std::int32_t i = 0; i < 6; ++i) {
    tree.append(root, i);
    tree.draft(root, std::vector<std::int32_t>{1, 2, 3}, std::vector<std::int32_t>{-1, -1, 1});
    step({root});
    planner.plan(tree.live());
    tree.accept(root, std::vector<std::int32_t>{1});
    expect_kv(root);
  }
  EXPECT_GE(planner.counts().reused, 5);
}

TEST_F(SequenceTreeTest, RootsFindCachedPrompts) {
  const NodeId root = prompt(10);
  tree.cache(root);
  const NodeId again = tree.add_root(counting(10));
  EXPECT_EQ(tree.info(again).kv_len, 8);
  const NodeId exact = tree.add_root(counting(8));
  EXPECT_EQ(tree.info(exact).kv_len, 4) << "the last token is computed for its logits";
  step({again, exact});
  expect_kv(again);
  expect_kv(exact);
  EXPECT_EQ(tree.live().forest().distinct_tokens, 12 + 2);
}

TEST_F(SequenceTreeTest, ASavedLeafComesBack) {
  const std::vector<NodeId> leaves = tree.fork(prompt(10), 2);
  for (const NodeId leaf : leaves) tree.append(leaf, counting(7, leaf.index));
  step(leaves);
  tree.save(leaves[1]);
  EXPECT_EQ(tree.info(leaves[1]).state, NodeState::kSaved);
  EXPECT_EQ(pages_in_use(), 5);
  expect_error(ErrorCode::kStale, "which is saved", [&] { tree.append(leaves[1], 3); });
  tree.append(leaves[0], counting(8));
  step({leaves[0]});
  tree.restore(leaves[1]);
  EXPECT_EQ(pages_in_use(), 7 + 3) << "two full pages are shared";
  for (const NodeId leaf : leaves) {
    tree.append(leaf, 5);
    expect_kv(leaf);
  }
  step(leaves);
  for (const NodeId leaf : leaves) expect_kv(leaf);

  tree.save(leaves[1]);
  tree.prune(leaves[0]);
  tree.restore(leaves[1]);
  expect_kv(leaves[1]);
}

TEST(SequenceTreeWithoutStore, TheCallerWritesARestoredLeaf) {
  SequenceTree tree({.page_size = 4, .num_pages = 8});
  const NodeId root = tree.add_root(std::vector<std::int32_t>(10, 3));
  tree.step({&root, 1});
  const std::vector<NodeId> leaves = tree.fork(root, 2);
  for (const NodeId leaf : leaves) tree.append(leaf, leaf.index);
  tree.step(leaves);
  tree.save(leaves[1]);
  EXPECT_EQ(tree.info(leaves[1]).state, NodeState::kSaved);
  EXPECT_EQ(tree.kv().free_pages(), 5);
  const RestoredKv& restored = tree.restore(leaves[1]);
  EXPECT_EQ(restored.begin, 10) << "the prompt is shared with the other leaf";
  EXPECT_EQ(restored.slots, (std::vector{tree.slots(leaves[1]).back()}));
  ASSERT_EQ(restored.copies.size(), 1U) << "the prompt's last page is part-filled";
  EXPECT_EQ(restored.copies[0].tokens, 2);
  tree.save(leaves[1]);
  tree.prune(leaves[0]);
  const std::vector<std::int64_t> all = tree.restore(leaves[1]).slots;
  EXPECT_EQ(all, tree.slots(leaves[1]));
}

TEST_F(SequenceTreeTest, TheExplicitTreeHasTheSameForest) {
  const std::vector<NodeId> leaves = tree.fork(prompt(8), 2);
  for (const NodeId leaf : leaves) tree.append(leaf, 50 + leaf.index);
  step(leaves);
  const std::vector<NodeId> below = tree.fork(leaves[0], 2);
  for (const NodeId leaf : below) tree.append(leaf, 60 + leaf.index);
  tree.append(leaves[1], 9);
  step({below[0], below[1], leaves[1]});
  const Forest forest = build_forest(tree.explicit_tree());
  EXPECT_EQ(forest.total_tokens, 30);
  EXPECT_EQ(forest.distinct_tokens, 8 + 1 + 1 + 1 + 2) << "token by token; pages share less";
  const NodeId root = prompt(3);
  EXPECT_EQ(tree.live().rows(), 1);
  expect_error(ErrorCode::kUnsupported, "row 0 of the last step has 3 query tokens", [&] { tree.explicit_tree(); });
  tree.prune(root);
}

TEST_F(SequenceTreeTest, RefusesWhatCannotBe) {
  expect_error(ErrorCode::kInvalidArgument, "page_size is 0",
               [] { SequenceTree bad({.page_size = 0, .num_pages = 1}); });
  expect_error(ErrorCode::kInvalidArgument, "options.page_size is 8; the store's is 4",
               [&] { SequenceTree bad({.page_size = 8, .num_pages = 4}, &store); });
  expect_error(ErrorCode::kInvalidArgument, "tokens is empty", [&] { tree.add_root({}); });
  const NodeId root = prompt(5);
  SequenceTree other({.page_size = kPageSize, .num_pages = kPages});
  const NodeId foreign = other.add_root(counting(3));
  expect_error(ErrorCode::kOutOfRange, "node is node 0 of tree", [&] { tree.commit(foreign); });
  expect_error(ErrorCode::kOutOfRange, "leaves[1] is node 0 of tree", [&] {
    tree.append(root, 1);
    tree.step(std::vector<NodeId>{root, foreign});
  });
  expect_error(ErrorCode::kInvalidArgument, "leaves[1] is node 0, as an earlier one", [&] {
    tree.step(std::vector<NodeId>{root, root});
  });
  expect_error(ErrorCode::kInvalidArgument, "count is 0", [&] { tree.fork(root, 0); });
  step({root});
  expect_error(ErrorCode::kInvalidArgument, "leaves[0] is node 0, whose tokens all have KV", [&] { step({root}); });
  const std::vector<std::int32_t> one{1};
  expect_error(ErrorCode::kInvalidArgument, "append() the token that the drafts follow",
               [&] { tree.draft(root, one, std::vector<std::int32_t>{-1}); });
  tree.append(root, 1);
  expect_error(ErrorCode::kInvalidArgument, "parents[0] is 0", [&] { tree.draft(root, one, {std::vector{0}}); });
  tree.draft(root, std::vector<std::int32_t>{1, 2, 3}, std::vector<std::int32_t>{-1, 0, 0});
  expect_error(ErrorCode::kInvalidArgument, "no step has had drafts", [&] { tree.accept(root, {std::vector{0}}); });
  expect_error(ErrorCode::kInvalidArgument, "which has 3 drafts", [&] { tree.fork(root, 2); });
  step({root});
  expect_error(ErrorCode::kInvalidArgument, "whose drafts a step has had", [&] { step({root}); });
  expect_error(ErrorCode::kInvalidArgument, "accepted[1] is 2, a child of 0; expected: of 1", [&] {
    tree.accept(root, {});
    tree.append(root, 4);
    tree.draft(root, std::vector<std::int32_t>{1, 2, 3}, std::vector<std::int32_t>{-1, -1, 0});
    step({root});
    tree.accept(root, std::vector<std::int32_t>{1, 2});
  });
  tree.accept(root, {});
  tree.prune(root);
  expect_error(ErrorCode::kStale, "node is node 0, which is pruned", [&] { tree.fork(root, 2); });
  expect_error(ErrorCode::kStale, "leaf is node 0, which is pruned; a leaf is needed", [&] { tree.append(root, 1); });
  tree.clear();
  expect_error(ErrorCode::kOutOfRange, "node is node 0 of tree", [&] { tree.info(root); });
}

}  // namespace
}  // namespace trunkline::testing
