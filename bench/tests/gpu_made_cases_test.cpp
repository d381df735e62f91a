// Suites that are made here: random forests, and growth by one factor.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gpu/growth.hpp"
#include "gpu/ragged.hpp"
#include "gpu/row.hpp"
#include "trunkline/profile_file.hpp"

namespace trunkline::gpu_bench {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

std::int32_t levels_of(const PrefixTree& tree) {
  std::vector<std::int32_t> level(tree.parent.size(), 1);
  for (std::size_t node = 0; node < level.size(); ++node) {
    if (tree.parent[node] >= 0) level[node] = level[static_cast<std::size_t>(tree.parent[node])] + 1;
  }
  return *std::max_element(level.begin(), level.end());
}

Forest forest_of(const Case& test) {
  const PageOrder order = test.pages.value_or(PageOrder::kConsecutive);
  return build_forest(lay_out_pages(test.tree, test.shape.page_size, 1, order).view());
}

MachineProfile h200() {
  return load_profile(std::string(TRUNKLINE_SOURCE) + "/data/machines/h200-sxm.json");
}

Plan plan_of(const Case& test) {
  return make_plan(forest_of(test), test.shape, h200());
}

Json row_of(const Case& test) {
  return plan_row(test, {}, plan_of(test), h200());
}

TEST(RandomForest, IsTheSameForTheSameSeed) {
  const PrefixTree tree = random_forest(17, 20'000);
  EXPECT_EQ(tree.parent, random_forest(17, 20'000).parent);
  EXPECT_EQ(tree.tokens, random_forest(17, 20'000).tokens);
  EXPECT_EQ(tree.end_node, random_forest(17, 20'000).end_node);
  EXPECT_NE(tree.parent, random_forest(18, 20'000).parent);
}

TEST(RandomForest, EveryNodeIsSomeRequestsAndHasTokens) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const PrefixTree tree = random_forest(seed, 20'000);
    std::vector<bool> needed(tree.parent.size(), false);
    for (std::int32_t node : tree.end_node) {
      for (; node >= 0; node = tree.parent[static_cast<std::size_t>(node)]) {
        needed[static_cast<std::size_t>(node)] = true;
      }
    }
    EXPECT_TRUE(std::all_of(needed.begin(), needed.end(), [](bool is) { return is; }));
    EXPECT_GE(*std::min_element(tree.tokens.begin(), tree.tokens.end()), 1);
    EXPECT_LE(levels_of(tree), 6);
    EXPECT_LE(tree.end_node.size(), 700);
  }
}

TEST(RaggedSuite, CoversBatchesDepthsHeadsAndPages) {
  const std::vector<Case> cases = ragged_cases(DType::kF16);
  EXPECT_EQ(cases.size(), 40);
  std::set<std::string> heads;
  std::set<std::int32_t> pages;
  std::set<std::int32_t> levels;
  std::set<std::size_t> requests;
  int ends_inside = 0;
  for (const Case& test : cases) {
    heads.insert(test.heads());
    pages.insert(test.shape.page_size);
    levels.insert(levels_of(test.tree));
    requests.insert(test.tree.end_node.size());
    EXPECT_EQ(test.pages, PageOrder::kShuffled);
    std::set<std::int32_t> parents(test.tree.parent.begin(), test.tree.parent.end());
    for (const std::int32_t node : test.tree.end_node) ends_inside += parents.contains(node) ? 1 : 0;
  }
  EXPECT_THAT(heads, UnorderedElementsAre("32/32", "16/8", "32/8", "64/8", "40/8", "28/4"));
  EXPECT_THAT(pages, ElementsAre(16, 32));
  EXPECT_THAT(levels, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(*requests.begin(), 1);
  EXPECT_GE(*requests.rbegin(), 500);
  EXPECT_GT(ends_inside, 0);
}

TEST(RaggedSuite, CasesAreOf20To300Megabytes) {
  for (const Case& test : ragged_cases(DType::kF16)) {
    SCOPED_TRACE(test.tree.name);
    const PlanStatistics statistics = plan_of(test).statistics;
    EXPECT_GE(statistics.kv_bytes_distinct, 18'000'000);
    EXPECT_LE(statistics.kv_bytes_distinct, 300'000'000);
  }
}

TEST(GrowthSuite, OneFactorGrowsAndTheOthersAreFixed) {
  std::map<std::string, std::vector<std::int32_t>> values;
  for (const Case& test : growth_cases(DType::kF16)) {
    SCOPED_TRACE(test.tree.name);
    values[test.factor].push_back(test.value);
    const auto requests = static_cast<std::int32_t>(test.tree.end_node.size());
    const std::vector<std::int32_t> paths = path_tokens(test.tree);
    EXPECT_EQ(test.shape.kv_heads, 8);
    EXPECT_EQ(test.shape.group_size(), test.factor == "group" ? test.value : 4);
    if (test.factor == "batch") {
      EXPECT_EQ(requests, test.value);
      EXPECT_EQ(paths.back(), 1024 + 64);
    } else if (test.factor == "prefix") {
      EXPECT_EQ(requests, 64);
      EXPECT_EQ(paths.back(), test.value + 128);
    } else if (test.factor == "depth") {
      EXPECT_EQ(requests, 256);
      EXPECT_EQ(levels_of(test.tree), test.value);
    } else if (test.factor == "width") {
      EXPECT_EQ(requests, 256);
      EXPECT_EQ(std::count(test.tree.parent.begin(), test.tree.parent.end(), 0), test.value);
    }
  }
  EXPECT_THAT(values["batch"], ElementsAre(1, 4, 16, 64, 256, 1024, 4096));
  EXPECT_THAT(values["prefix"], ElementsAre(0, 512, 2048, 8192, 32768, 131072));
  EXPECT_THAT(values["depth"], ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(values["width"], ElementsAre(1, 2, 4, 8, 16, 32, 64, 128, 256));
  EXPECT_THAT(values["group"], ElementsAre(1, 2, 4, 5, 8, 16));
}

TEST(GrowthSuite, RowsSayWhatVaries) {
  const Case test = growth_cases(DType::kF16).front();
  const Json row = row_of(test);
  EXPECT_EQ(row.at("factor"), "batch");
  EXPECT_EQ(row.at("value"), 1);
  EXPECT_EQ(row.at("requests"), 1);
  const Case ragged = ragged_cases(DType::kF16)[17];
  EXPECT_FALSE(row_of(ragged).contains("factor"));
}

}  // namespace
}  // namespace trunkline::gpu_bench
