// FastTree's edge assignment: small trees whose costs are worked by hand, and every tree against the paper's equations
// in doubles. With the default weights, an edge of child queries c and lengths L (parent) and l (child) merges where
//   0.66 L (padding that the merge saves) + 0.33 c (pad(l) + pad(L) - pad(L + l)) + 0.1 c > 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <queue>
#include <random>
#include <tuple>
#include <vector>

#include "base/check.hpp"
#include "plan/policy_packs.hpp"
#include "plan/test_cases.hpp"
#include "support/random_batch.hpp"
#include "support/test_scale.hpp"
#include "trunkline/experimental.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::PolicyPacks;
using testing::uniform;

PolicyOptions phases(bool on) {
  PolicyOptions options;
  options.study = std::make_shared<experimental::PolicyStudy>(experimental::PolicyStudy{.greedy_phases = on});
  return options;
}

/// Ends of `count` requests in each of some nodes.
std::vector<std::int32_t> ends_in(const std::vector<std::int32_t>& nodes, std::int32_t count) {
  std::vector<std::int32_t> ends;
  for (const std::int32_t node : nodes) ends.insert(ends.end(), static_cast<std::size_t>(count), node);
  return ends;
}

Forest tree(const std::vector<std::int32_t>& parent, const std::vector<std::int32_t>& tokens,
            const std::vector<std::int32_t>& end_node) {
  return build_forest(ExplicitTree{parent, tokens, end_node});
}

/// A root of 320 tokens and two children of 100, in each of which so many requests end.
Forest two_children(std::int32_t requests) {
  return tree({-1, 0, 0}, {320, 100, 100}, ends_in({1, 2}, requests));
}

// FastTree, figure 4(d): two children of 8 queries, tiles of 16. Apart, each child pads 8; merged, so would the
// parent's tokens, twice.
TEST(GreedyPolicy, HalfFilledTilesStayWithTheirParent) {
  const PolicyPacks greedy(Policy::kGreedy, two_children(8), testing::shape_of(32, 8), testing::cpu_like_profile(4),
                           phases(false));
  EXPECT_THAT(greedy.first_segments(), ElementsAre(Range{0, 320}, Range{320, 420}, Range{320, 420}));
  EXPECT_THAT(greedy.pack_queries(), ElementsAre(16, 8, 8));
}

// Figure 4(e): 16 queries each fill the tiles, so only the partials count.
TEST(GreedyPolicy, FilledTilesMerge) {
  const Forest forest = two_children(16);
  const Plan plan = testing::valid_plan(forest, testing::shape_of(32, 8), testing::cpu_like_profile(4), Policy::kGreedy,
                                        phases(false));
  EXPECT_EQ(plan.items.size(), 2u);
  EXPECT_EQ(plan.statistics.kv_tokens_read, 2 * 420);
  EXPECT_EQ(plan.partials, 0);
}

TEST(GreedyPolicy, EqualCostsDoNotMerge) {
  MachineProfile profile = testing::cpu_like_profile(4);
  profile.padding = {0.66, 0, 0};
  const PolicyPacks greedy(Policy::kGreedy, two_children(16), testing::shape_of(32, 8), profile, phases(false));
  EXPECT_EQ(greedy.packs().total_tokens(), 520 + 320);  // the root's 32 queries take two tiles
  EXPECT_EQ(greedy.packs().grouped_tokens(), 520);
}

// 24 queries pad 8 of two tiles. The first child's 8 leave 16, which pad none: together no more than before. The second
// and the third would leave 8 of 16.
TEST(GreedyPolicy, AMergeLeavesTheParentFewerQueries) {
  const Forest forest = tree({-1, 0, 0, 0}, {100, 50, 50, 50}, ends_in({1, 2, 3}, 8));
  const Plan plan = testing::valid_plan(forest, testing::shape_of(32, 8), testing::cpu_like_profile(4), Policy::kGreedy,
                                        phases(false));
  EXPECT_EQ(plan.items.size(), 4u);
  EXPECT_EQ(plan.statistics.kv_tokens_read, 100 + 150 + 50 + 50);
  EXPECT_EQ(plan.partials, 2 * 16);
}

// B's 16 queries take A's tokens along. Its children, of 8 queries and 1 token each, merge with it up to L = 8: there
// 0.66 x 16 x 8 = 84.48 against 0.33 x 8 x (31 + 24 - 23) + 0.8 = 85.28; at L = 9 it is 95.04.
TEST(GreedyPolicy, AMergeLengthensTheChild) {
  const std::vector<std::int32_t> parent = {-1, 0, 1, 1};
  std::vector<std::int32_t> ends = ends_in({2, 3}, 8);
  ends.push_back(0);
  const auto segments = [&](std::int32_t a_tokens) {
    return PolicyPacks(Policy::kGreedy, tree(parent, {a_tokens, 4, 1, 1}, ends), testing::shape_of(32, 8),
                       testing::cpu_like_profile(4), phases(false))
        .first_segments();
  };
  EXPECT_THAT(segments(5), ElementsAre(Range{0, 5}, Range{0, 9}, Range{9, 10}, Range{9, 10}));
  EXPECT_THAT(segments(4), ElementsAre(Range{0, 4}, Range{0, 9}, Range{0, 9}));
}

// g = 4: tiles of 16 rows hold 4 queries, those of 64 hold 16.
TEST(GreedyPolicy, PhasesGiveSmallTilesToGroupsThatFitThem) {
  const Forest forest = tree({-1, 0, 0}, {200, 100, 100}, {1, 1, 1, 1, 2, 2, 2, 2, 2});
  const PolicyPacks both(Policy::kGreedy, forest, testing::shape_of(32, 8), testing::cpu_like_profile(4));
  EXPECT_THAT(both.pack_queries(), ElementsAre(9, 4, 5));
  EXPECT_THAT(both.tile_rows(), ElementsAre(64, 16, 64));
  const PolicyPacks one(Policy::kGreedy, forest, testing::shape_of(32, 8), testing::cpu_like_profile(4), phases(false));
  EXPECT_THAT(one.tile_rows(), Each(64));
}

// Two large packs in 8 heads keep 16 of 512 workers busy: small tiles for all, and costs by them, of which a merge of 4
// queries, and then of the other 5, pads no more.
TEST(GreedyPolicy, LargeTilesThatLeaveWorkersIdleGo) {
  const Forest forest = tree({-1, 0, 0}, {200, 100, 100}, {1, 1, 1, 1, 2, 2, 2, 2, 2});
  const PolicyPacks filled(Policy::kGreedy, forest, testing::shape_of(32, 8), testing::cpu_like_profile(8));
  EXPECT_THAT(filled.first_segments(), ElementsAre(Range{0, 200}, Range{200, 300}, Range{200, 300}));
  EXPECT_THAT(filled.tile_rows(), ElementsAre(64, 16, 64));
  const PolicyPacks idle(Policy::kGreedy, forest, testing::shape_of(32, 8), testing::cpu_like_profile(512));
  EXPECT_THAT(idle.first_segments(), Each(Range{0, 300}));
  EXPECT_THAT(idle.pack_queries(), ElementsAre(4, 3, 2));
  EXPECT_THAT(idle.tile_rows(), Each(16));
}

// 128 queries in 8 large tiles fill 64 workers with 8 heads each; one request of its own does not.
TEST(GreedyPolicy, SmallTilesThatLeaveWorkersIdleGo) {
  std::vector<std::int32_t> ends(128, 0);
  ends.push_back(1);
  const Forest forest = tree({-1, -1}, {200, 100}, ends);
  const PolicyPacks greedy(Policy::kGreedy, forest, testing::shape_of(32, 8), testing::cpu_like_profile(64));
  EXPECT_EQ(greedy.packs().packs().size(), 9u);
  EXPECT_THAT(greedy.tile_rows(), Each(64));
}

TEST(GreedyPolicy, ATileThatIsUsedAloneStays) {
  const PolicyPacks greedy(Policy::kGreedy, testing::unshared_forest(3, 100), testing::shape_of(32, 8),
                           testing::cpu_like_profile(512));
  EXPECT_THAT(greedy.tile_rows(), ElementsAre(16, 16, 16));
}

TEST(GreedyPolicy, ProfilesWithoutItsTilesGiveTheNext) {
  MachineProfile profile = testing::cpu_like_profile(4);
  profile.tiles = {{32, 32}, {128, 32}};
  const Forest forest = tree({-1, 0, 0}, {200, 100, 100}, {1, 1, 1, 1, 2, 2, 2, 2, 2});
  const PolicyPacks greedy(Policy::kGreedy, forest, testing::shape_of(32, 8), profile);
  EXPECT_THAT(greedy.tile_rows(), ElementsAre(128, 32, 128));
}

/// Levels of a balanced tree with one request in each leaf.
Forest levels(const std::vector<std::int32_t>& nodes, const std::vector<std::int32_t>& tokens) {
  std::vector<std::int32_t> parent;
  std::vector<std::int32_t> lengths;
  std::int32_t above = -1;  // first node of the level above
  for (std::size_t level = 0; level < nodes.size(); ++level) {
    const auto first = static_cast<std::int32_t>(parent.size());
    for (std::int32_t i = 0; i < nodes[level]; ++i) {
      parent.push_back(level == 0 ? -1 : above + i / (nodes[level] / nodes[level - 1]));
      lengths.push_back(tokens[level]);
    }
    above = first;
  }
  std::vector<std::int32_t> ends;
  for (std::int32_t i = 0; i < nodes.back(); ++i) ends.push_back(above + i);
  return tree(parent, lengths, ends);
}

// Cases that FastTree's published code computes wrongly: its preparation switches tiles and its launch does not, it
// hangs further roots below the last node, and it gives no attention to requests that end at an inner node.
TEST(GreedyPolicy, WhatThePublishedCodeGetsWrongIsValid) {
  struct Case {
    const char* name;
    Forest forest;
    std::int32_t q_heads;
    std::int32_t kv_heads;
  };
  std::vector<std::int32_t> inner = ends_in({0, 1, 2, 3}, 3);
  inner.push_back(1);
  const std::vector<Case> cases = {
      {"tiles switched, 1-16-64", levels({1, 16, 64}, {1024, 256, 32}), 16, 1},
      {"tiles switched, 1-8", levels({1, 8}, {4096, 128}), 32, 8},
      {"tiles switched, 1-16", levels({1, 16}, {4096, 64}), 32, 8},
      {"several roots", levels({4, 16, 256}, {512, 32, 128}), 32, 8},
      {"ends at inner nodes", tree({-1, 0, 1, 0}, {100, 30, 20, 50}, inner), 32, 8},
  };
  for (const Case& at : cases) {
    for (const KvSplit split : {KvSplit::kNone, KvSplit::kOwn}) {
      for (const bool phased : {false, true}) {
        SCOPED_TRACE(concat(at.name, ", ", name_of(split), phased ? ", phases" : ""));
        testing::valid_plan(at.forest, testing::shape_of(at.q_heads, at.kv_heads), testing::cpu_like_profile(132),
                            Policy::kGreedy, phases(phased), split);
      }
    }
  }
}

/// Parts of at most 1,024 tokens, and of 128 where those leave workers idle.
TEST(GreedyPolicy, LongContextsAreCut) {
  const Forest forest = testing::unshared_forest(1, 4000);
  const auto items = [&](std::int32_t workers) {
    return testing::valid_plan(forest, testing::shape_of(32, 8), testing::cpu_like_profile(workers), Policy::kGreedy,
                               {}, KvSplit::kOwn)
        .items.size();
  };
  EXPECT_EQ(items(4), 4u);
  EXPECT_EQ(items(512), 32u);
}

/// The paper's equations and algorithm as they stand.
class Transcription {
 public:
  Transcription(std::int32_t group_size, bool phased) : group_size_(group_size), phased_(phased) {}

  /// First token of the group of each node, and its queries.
  std::vector<ChainPack> assign(const Forest& forest, const QueryOrder& order) const {
    std::vector<ChainPack> groups;
    std::queue<std::size_t> bfs;
    for (std::size_t i = 0; i < forest.nodes.size(); ++i) {
      groups.push_back({forest.nodes[i].begin, order.positions(forest.nodes[i].requests).size()});
      if (forest.nodes[i].parent < 0) bfs.push(i);
    }
    while (!bfs.empty()) {
      const std::size_t v = bfs.front();
      bfs.pop();
      for (std::size_t l = v + 1; l < forest.nodes.size(); ++l) {
        if (forest.nodes[l].parent != static_cast<std::int32_t>(v)) continue;
        const int queries = groups[v].queries;
        const int child_queries = groups[l].queries;
        const int length = forest.nodes[v].end - groups[v].begin;
        const int child_length = forest.nodes[l].tokens();
        const double c0 = padding(queries, length) + padding(child_queries, child_length) + 0.1 * child_queries;
        const double c1 = padding(queries - child_queries, length) + padding(child_queries, child_length + length);
        if (c0 - c1 > 1e-6) {  // all costs are multiples of a hundredth
          groups[v].queries -= child_queries;
          groups[l].begin = groups[v].begin;
        }
        bfs.push(l);
      }
    }
    return groups;
  }

 private:
  static double pad(int tile, int n) { return n == 0 ? 0 : tile - ((n - 1) % tile + 1); }
  double padding(int queries, int length) const {
    const int small = std::max(16 / group_size_, 1);
    const int tile = phased_ && queries <= small ? small : std::max(64 / group_size_, 1);
    return 0.66 * pad(tile, queries) * length + 0.33 * queries * pad(32, std::min(length, 32));
  }

  int group_size_;
  bool phased_;
};

Forest random_tree(std::mt19937_64& random) {
  std::vector<std::int32_t> parent;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> ends;
  const std::int32_t longest = uniform(random, 0, 1) == 0 ? 40 : 500;
  const std::int32_t nodes = uniform(random, 1, 25);
  for (std::int32_t i = 0; i < nodes; ++i) {
    parent.push_back(uniform(random, 0, 9) == 0 ? -1 : uniform(random, -1, i - 1));
    tokens.push_back(uniform(random, 1, longest));
    const std::int32_t requests = uniform(random, 0, 3) == 0 ? uniform(random, 1, 40) : 1;
    ends.insert(ends.end(), static_cast<std::size_t>(requests), i);
  }
  return tree(parent, tokens, ends);
}

TEST(GreedyPolicy, DecidesAsThePapersEquationsDo) {
  constexpr std::int32_t kGroupSizes[] = {1, 3, 4, 8, 12, 16};
  for (int seed = 0; seed < testing::scaled(1000); ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const std::int32_t group = kGroupSizes[seed % 6];
    const bool phased = uniform(random, 0, 1) == 1;
    SCOPED_TRACE(concat("seed ", seed, ", g ", group, phased ? ", phases" : ""));
    // One worker is always busy, so both tiles stay.
    const PolicyPacks greedy(Policy::kGreedy, random_tree(random), testing::shape_of(group, 1),
                             testing::cpu_like_profile(1), phases(phased));
    const Forest& forest = greedy.forest();
    const std::vector<ChainPack> groups = Transcription(group, phased).assign(forest, greedy.packs().order());
    std::vector<std::tuple<std::int32_t, std::int32_t, std::int32_t>> expected;  // begin, end, queries
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (groups[i].queries > 0) expected.emplace_back(groups[i].begin, forest.nodes[i].end, groups[i].queries);
    }
    std::vector<std::tuple<std::int32_t, std::int32_t, std::int32_t>> made;
    std::int32_t row = -1;
    for (const Pack& pack : greedy.packs().packs()) {  // those of one node, spread, follow each other
      const PackSegment& segment = greedy.packs().segments(pack).front();
      const bool spread = !made.empty() && segment.row == row && std::get<0>(made.back()) == segment.begin &&
                          std::get<1>(made.back()) == segment.end;
      if (!spread) made.emplace_back(segment.begin, segment.end, 0);
      std::get<2>(made.back()) += pack.queries;
      row = segment.row;
    }
    ASSERT_EQ(made, expected);
  }
}

}  // namespace
}  // namespace trunkline
