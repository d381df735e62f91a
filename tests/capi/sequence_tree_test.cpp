// Tree decoding through the C interface: a search beside the same one in C++, and what is refused.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "c_case.hpp"
#include "trunkline/runtime/beam_search.hpp"
#include "trunkline/runtime/speculation.hpp"

namespace trunkline::testing {
namespace {

using CStore = CHandle<trunkline_kv_store, trunkline_kv_store_destroy>;
using CTree = CHandle<trunkline_sequence_tree, trunkline_sequence_tree_destroy>;
using CBeams = CHandle<trunkline_beam_search, trunkline_beam_search_destroy>;
using CSampler = CHandle<trunkline_sampler, trunkline_sampler_destroy>;

constexpr std::int32_t kVocabulary = 11;

trunkline_sequence_tree_options tree_options() {
  auto options = c_struct<trunkline_sequence_tree_options>();
  options.page_size = 4;
  options.num_pages = 40;
  return options;
}

trunkline_kv_store_shape store_shape() {
  auto shape = c_struct<trunkline_kv_store_shape>();
  shape.layers = 2;
  shape.kv_heads = 1;
  shape.head_dim_qk = 2;
  shape.page_size = 4;
  shape.num_pages = 40;
  shape.dtype = TRUNKLINE_F32;
  return shape;
}

/// Logits that are any function of a sequence.
std::vector<float> logits_of(const std::vector<std::int32_t>& sequence) {
  std::seed_seq seed(sequence.begin(), sequence.end());
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(kVocabulary);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

std::vector<std::int32_t> sequence_of(const trunkline_sequence_tree* tree, trunkline_node node) {
  auto info = c_struct<trunkline_node_info>();
  EXPECT_OK(trunkline_sequence_tree_get_node(tree, node, &info));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(info.end));
  EXPECT_OK(trunkline_sequence_tree_sequence(tree, node, tokens.data(), info.end));
  return tokens;
}

TEST(CSequenceTree, TheCallerKeepsASavedLeaf) {
  CTree tree;
  const trunkline_sequence_tree_options options = tree_options();
  ASSERT_OK(trunkline_sequence_tree_create(&options, nullptr, tree.out()));
  const std::vector<std::int32_t> prompt{1, 2, 3, 4, 5, 6};
  trunkline_node root{};
  ASSERT_OK(trunkline_sequence_tree_add_root(tree, prompt.data(), 6, &root));
  auto step = c_struct<trunkline_tree_step>();
  ASSERT_OK(trunkline_sequence_tree_step(tree, &root, 1, 0, &step));
  ASSERT_OK(trunkline_sequence_tree_save_outside(tree, root));
  auto info = c_struct<trunkline_node_info>();
  ASSERT_OK(trunkline_sequence_tree_get_node(tree, root, &info));
  EXPECT_EQ(info.state, TRUNKLINE_NODE_SAVED);
  auto restored = c_struct<trunkline_restored_kv>();
  ASSERT_OK(trunkline_sequence_tree_restore_outside(tree, root, &restored));
  EXPECT_EQ(restored.begin, 0);
  EXPECT_EQ(restored.copy_count, 0);
  std::vector<std::int64_t> slots(6);
  ASSERT_OK(trunkline_sequence_tree_slots(tree, root, slots.data(), 6));
  EXPECT_EQ(slots, std::vector(restored.slots, restored.slots + restored.count));

  CStore store;
  const trunkline_kv_store_shape shape = store_shape();
  ASSERT_OK(trunkline_kv_store_create(&shape, nullptr, store.out()));
  CTree with_store;
  ASSERT_OK(trunkline_sequence_tree_create(&options, store, with_store.out()));
  ASSERT_OK(trunkline_sequence_tree_add_root(with_store, prompt.data(), 6, &root));
  expect_failure(trunkline_sequence_tree_save_outside(with_store, root), TRUNKLINE_UNSUPPORTED, "tree has a store");
}

TEST(CSequenceTree, ABeamSearchIsThatOfCpp) {
  const std::vector<std::int32_t> prompt{1, 2, 3, 4, 5, 6};
  const std::int32_t end_token = 3;

  SequenceTree expected_tree({.page_size = 4, .num_pages = 40});
  BeamSearch expected({.beams = 3, .max_new_tokens = 8, .end_tokens = {end_token}});
  std::vector<NodeId> expected_leaves{expected_tree.add_root(prompt)};

  CStore store;
  const trunkline_kv_store_shape shape = store_shape();
  ASSERT_OK(trunkline_kv_store_create(&shape, nullptr, store.out()));
  CTree tree;
  const trunkline_sequence_tree_options options = tree_options();
  ASSERT_OK(trunkline_sequence_tree_create(&options, store, tree.out()));
  auto beam_options = c_struct<trunkline_beam_search_options>();
  beam_options.beams = 3;
  beam_options.max_new_tokens = 8;
  beam_options.end_tokens = &end_token;
  beam_options.end_token_count = 1;
  beam_options.length_penalty = 1;
  CBeams search;
  ASSERT_OK(trunkline_beam_search_create(&beam_options, search.out()));
  std::vector<trunkline_node> leaves(1);
  ASSERT_OK(trunkline_sequence_tree_add_root(tree, prompt.data(), 6, leaves.data()));

  trunkline_live_batch* live = nullptr;
  ASSERT_OK(trunkline_sequence_tree_live(tree, &live));
  bool stop = false;
  while (!stop && !leaves.empty()) {
    auto step = c_struct<trunkline_tree_step>();
    ASSERT_OK(trunkline_sequence_tree_step(tree, leaves.data(), static_cast<std::int32_t>(leaves.size()), 0, &step));
    const TreeStep& expected_step = expected_tree.step(expected_leaves);
    ASSERT_EQ(step.rows, static_cast<std::int32_t>(expected_step.nodes.size()));
    for (std::int32_t i = 0; i < step.queries; ++i) {
      EXPECT_EQ(step.tokens[i], expected_step.tokens[static_cast<std::size_t>(i)]);
      EXPECT_EQ(step.slot_mapping[i], expected_step.slot_mapping[static_cast<std::size_t>(i)]);
    }
    const std::vector<float> kv(static_cast<std::size_t>(step.queries) * 2, 1.5F);
    ASSERT_OK(trunkline_kv_store_write(store, 1, step.slot_mapping, step.queries, kv.data(), kv.data()));
    auto batch = c_struct<trunkline_batch>();
    auto pages = c_struct<trunkline_page_table>();
    ASSERT_OK(trunkline_live_batch_view(live, &batch, &pages));
    EXPECT_EQ(batch.rows, step.rows);

    std::vector<float> logits;
    for (const trunkline_node leaf : leaves) {
      const std::vector<float> row = logits_of(sequence_of(tree, leaf));
      logits.insert(logits.end(), row.begin(), row.end());
    }
    const trunkline_logits view{logits.data(), 0, step.rows, kVocabulary};
    auto decisions = c_struct<trunkline_decisions>();
    ASSERT_OK(trunkline_beam_search_decide(search, tree, leaves.data(), step.rows, &view, &decisions));
    std::vector<trunkline_node> next(static_cast<std::size_t>(decisions.continuation_count));
    std::int32_t count = 0;
    ASSERT_OK(trunkline_sequence_tree_apply(tree, leaves.data(), step.rows, &decisions, next.data(),
                                            static_cast<std::int32_t>(next.size()), &count));
    next.resize(static_cast<std::size_t>(count));
    leaves = next;
    stop = decisions.stop != 0;

    Decisions expected_decisions;
    expected.decide(expected_tree, expected_leaves,
                    {.data = logits.data(), .rows = step.rows, .vocabulary = kVocabulary}, expected_decisions);
    expected_leaves = apply_decisions(expected_tree, expected_leaves, expected_decisions);
  }
  std::vector<trunkline_beam_result> results(3);
  std::int32_t count = 0;
  ASSERT_OK(trunkline_beam_search_results(search, tree, results.data(), 3, &count));
  const std::vector<BeamResult> expected_results = expected.results(expected_tree);
  ASSERT_EQ(count, static_cast<std::int32_t>(expected_results.size()));
  for (std::size_t i = 0; i < expected_results.size(); ++i) {
    EXPECT_EQ(sequence_of(tree, results[i].node), expected_tree.sequence(expected_results[i].node));
    EXPECT_EQ(results[i].score, expected_results[i].score);
  }
  auto info = c_struct<trunkline_sequence_tree_info>();
  ASSERT_OK(trunkline_sequence_tree_get_info(tree, &info));
  EXPECT_EQ(info.free_pages, 40);
  EXPECT_EQ(info.sequences, 0);
}

TEST(CSequenceTree, DraftsAreVerifiedAndAccepted) {
  CTree tree;
  const trunkline_sequence_tree_options options = tree_options();
  ASSERT_OK(trunkline_sequence_tree_create(&options, nullptr, tree.out()));
  const std::vector<std::int32_t> prompt{1, 2};
  trunkline_node leaf{};
  ASSERT_OK(trunkline_sequence_tree_add_root(tree, prompt.data(), 2, &leaf));
  const std::vector<std::int32_t> tokens{0, 1, 2};
  const std::vector<std::int32_t> parents{-1, -1, 1};
  ASSERT_OK(trunkline_sequence_tree_draft(tree, leaf, tokens.data(), parents.data(), 3));
  auto step = c_struct<trunkline_tree_step>();
  ASSERT_OK(trunkline_sequence_tree_step(tree, &leaf, 1, 0, &step));
  EXPECT_EQ(step.queries, 5);
  const std::int64_t from = step.slot_mapping[3];
  const std::int64_t to = step.slot_mapping[2];

  const std::vector<float> logits{0, 9, 0, 0, 0, 9, 9, 0, 0, 0, 9, 0};
  const trunkline_logits view{logits.data(), 0, 4, 3};
  auto drafts = c_struct<trunkline_drafts>();
  drafts.tokens = tokens.data();
  drafts.parents = parents.data();
  drafts.count = 3;
  std::vector<std::int32_t> accepted(3);
  auto verified = c_struct<trunkline_verified>();
  ASSERT_OK(trunkline_verify_drafts(nullptr, &drafts, &view, accepted.data(), &verified));
  EXPECT_EQ(verified.accepted_count, 1);
  EXPECT_EQ(accepted[0], 1);
  EXPECT_EQ(verified.next_token, 0);
  CSampler sampler;
  ASSERT_OK(trunkline_sampler_create(1, 1e-3, sampler.out()));
  ASSERT_OK(trunkline_verify_drafts(sampler, &drafts, &view, accepted.data(), &verified));
  EXPECT_EQ(verified.next_token, 0) << "almost greedy";
  std::int32_t token = -1;
  ASSERT_OK(trunkline_sampler_sample(sampler, logits.data(), 3, &token));
  EXPECT_EQ(token, 1);

  const trunkline_token_move* moves = nullptr;
  std::int64_t move_count = 0;
  ASSERT_OK(trunkline_sequence_tree_accept(tree, leaf, accepted.data(), 1, &moves, &move_count));
  ASSERT_EQ(move_count, 1);
  EXPECT_EQ(moves[0].source, from);
  EXPECT_EQ(moves[0].target, to);
  EXPECT_EQ(sequence_of(tree, leaf), (std::vector<std::int32_t>{1, 2, 1}));
}

TEST(CSequenceTree, RefusesWhatCannotBe) {
  CTree tree;
  trunkline_sequence_tree_options options = tree_options();
  options.reserved = 1;
  expect_failure(trunkline_sequence_tree_create(&options, nullptr, tree.out()), TRUNKLINE_UNSUPPORTED,
                 "options.reserved is 1");
  options = tree_options();
  ASSERT_OK(trunkline_sequence_tree_create(&options, nullptr, tree.out()));
  const std::vector<std::int32_t> prompt{1, 2};
  trunkline_node root{};
  expect_failure(trunkline_sequence_tree_add_root(tree, nullptr, 2, &root), TRUNKLINE_INVALID_ARGUMENT,
                 "tokens is NULL");
  expect_failure(trunkline_sequence_tree_add_root(tree, prompt.data(), -1, &root), TRUNKLINE_INVALID_ARGUMENT,
                 "tokens has a count of -1");
  ASSERT_OK(trunkline_sequence_tree_add_root(tree, prompt.data(), 2, &root));
  trunkline_node children[2];
  expect_failure(trunkline_sequence_tree_fork(tree, root, 2, 7, children), TRUNKLINE_INVALID_ARGUMENT, "keep is 7");
  const trunkline_node foreign{root.index, root.tree + 1};
  expect_failure(trunkline_sequence_tree_commit(tree, foreign), TRUNKLINE_OUT_OF_RANGE, "node is node 0 of tree");
  expect_failure(trunkline_sequence_tree_save(tree, root), TRUNKLINE_UNSUPPORTED,
                 "tree has no store; supported: _save_outside");
  expect_failure(trunkline_sequence_tree_restore(tree, root), TRUNKLINE_UNSUPPORTED, "tree has no store");
  auto restored = c_struct<trunkline_restored_kv>();
  expect_failure(trunkline_sequence_tree_restore_outside(tree, root, &restored), TRUNKLINE_STALE,
                 "which is leaf; a saved one is needed");
  trunkline_live_batch* live = nullptr;
  ASSERT_OK(trunkline_sequence_tree_live(tree, &live));
  expect_failure(trunkline_live_batch_advance(live, nullptr, 0, nullptr), TRUNKLINE_UNSUPPORTED,
                 "live is a sequence tree's batch");
  expect_failure(trunkline_live_batch_destroy(live), TRUNKLINE_UNSUPPORTED, "live is a sequence tree's batch");
  ASSERT_OK(trunkline_sequence_tree_prune(tree, root));
  expect_failure(trunkline_sequence_tree_fork(tree, root, 2, 0, children), TRUNKLINE_STALE, "which is pruned");
  std::int32_t token = 0;
  expect_failure(trunkline_sequence_tree_sequence(tree, root, &token, 1), TRUNKLINE_INVALID_ARGUMENT,
                 "capacity is 1; tokens takes 2");
  ASSERT_OK(trunkline_sequence_tree_destroy(tree.let_go()));
  expect_failure(trunkline_live_batch_rows(live, &token), TRUNKLINE_BAD_HANDLE, "live batch");

  CStore store;
  trunkline_kv_store_shape shape = store_shape();
  shape.dtype = TRUNKLINE_I32;
  expect_failure(trunkline_kv_store_create(&shape, nullptr, store.out()), TRUNKLINE_INVALID_ARGUMENT, "shape.dtype");
  auto beams = c_struct<trunkline_beam_search_options>();
  CBeams search;
  expect_failure(trunkline_beam_search_create(&beams, search.out()), TRUNKLINE_INVALID_ARGUMENT, "beams is 0");
  CSampler sampler;
  expect_failure(trunkline_sampler_create(1, -1, sampler.out()), TRUNKLINE_INVALID_ARGUMENT, "temperature is -1");
}

}  // namespace
}  // namespace trunkline::testing
