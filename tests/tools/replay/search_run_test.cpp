#include "replay/search_run.hpp"

#include <gtest/gtest.h>

#include <random>

#include "replay/decoding_tree_file.hpp"
#include "support/test_scale.hpp"

namespace trunkline::replay {
namespace {

// Prompt, then up to `nodes` branches whose parents, gaps and lengths are random; some decode nothing.
DecodingTree random_tree(std::uint64_t seed, std::int32_t nodes) {
  std::mt19937_64 random(seed);
  DecodingTree tree;
  tree.parent = {-1};
  tree.first = {-static_cast<std::int32_t>(random() % 40)};
  tree.last = {0};
  for (std::int32_t node = 1; node <= nodes; ++node) {
    const auto parent = static_cast<std::size_t>(random() % static_cast<std::uint64_t>(node));
    const auto gap = static_cast<std::int32_t>(random() % 3 == 0 ? random() % 6 : 0);
    tree.parent.push_back(static_cast<std::int32_t>(parent));
    tree.first.push_back(tree.last[parent] + 1 + gap);
    tree.last.push_back(tree.first.back() - 1 + static_cast<std::int32_t>(random() % 12));
  }
  check_decoding_tree(tree);
  return tree;
}

/// With pages of one token, what is shared is what the tree shares, token by token.
void expect_follows(const DecodingTree& tree, std::int32_t page_size) {
  SearchRun run(tree);
  SequenceBatch batch(page_size, run.page_bound(page_size), 8);
  batch.extend(run.prompt(), run.prompt_tokens());
  TreeReplay expected(tree);
  std::int32_t iteration = 0;
  while (run.begin_iteration(batch)) {
    batch.advance();
    const PrefixTree* step = &expected.at(++iteration);
    while (step->end_node.empty()) step = &expected.at(++iteration);
    const Forest want = build_forest(step->view());
    const Forest& have = batch.live().forest();
    ASSERT_EQ(have.requests.size(), want.requests.size()) << "iteration " << iteration;
    ASSERT_EQ(have.total_tokens, want.total_tokens) << "iteration " << iteration;
    if (page_size == 1) {
      ASSERT_EQ(have.distinct_tokens, want.distinct_tokens) << "iteration " << iteration;
    } else {
      ASSERT_GE(have.distinct_tokens, want.distinct_tokens) << "iteration " << iteration;
    }
    for (const Sequence* sequence : batch.rows()) {
      ASSERT_EQ(batch.kv().references(batch.pages(*sequence).back()), 1) << "a page that is written to is shared";
    }
    ASSERT_LE(static_cast<std::int32_t>(batch.rows().size()), run.width());
  }
  while (++iteration <= tree.iterations()) ASSERT_TRUE(expected.at(iteration).end_node.empty());
  EXPECT_EQ(batch.kv().free_pages(), batch.kv().num_pages());
  EXPECT_LE(run.pages_taken(), run.page_bound(page_size));
}

TEST(SearchRun, ForksFromTheParentThatHasJustEnded) {
  // Two children fork from node 1 as it ends; node 1 itself joins, its sibling forks.
  const DecodingTree tree{"", {-1, 0, 0, 1, 1}, {-9, 1, 1, 4, 4}, {0, 3, 9, 6, 5}};
  SearchRun run(tree);
  EXPECT_EQ(run.width(), 3);
  SequenceBatch batch(4, run.page_bound(4), 8);
  batch.extend(run.prompt(), run.prompt_tokens());
  ASSERT_TRUE(run.begin_iteration(batch));
  batch.advance();
  EventCounts events = batch.take_events();
  EXPECT_EQ(events.joins, 1);
  EXPECT_EQ(events.forks, 1);
  EXPECT_EQ(events.copies, 1) << "of the prompt's last page, of 2 tokens; the second branch keeps it";
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(run.begin_iteration(batch));
    batch.advance();
  }
  batch.take_events();
  ASSERT_TRUE(run.begin_iteration(batch));
  batch.advance();
  events = batch.take_events();
  EXPECT_EQ(events.forks, 2);
  EXPECT_EQ(events.leaves, 1);
  EXPECT_EQ(events.joins, 0);
}

TEST(SearchRun, FollowsRandomTrees) {
  for (int seed = 0; seed < testing::scaled(200); ++seed) {
    SCOPED_TRACE(seed);
    const DecodingTree tree = random_tree(static_cast<std::uint64_t>(seed), 1 + seed % 30);
    for (const std::int32_t page_size : {1, 4, 16}) expect_follows(tree, page_size);
  }
}

TEST(SearchRun, FollowsRecordedSearches) {
  for (const char* name : {"docmerge", "set128"}) {
    const std::string path = std::string(TRUNKLINE_DATA) + "/reasoning/" + name + ".jsonl";
    for (const DecodingTree& tree : load_decoding_trees(path, 2)) expect_follows(tree, 1);
  }
}

}  // namespace
}  // namespace trunkline::replay
