// Packs as masked policies will make them, through the shared steps behind every policy.
#include "plan/packs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "plan/cost_model.hpp"
#include "plan/emit.hpp"
#include "plan/kv_splitter.hpp"
#include "plan/schedule.hpp"
#include "plan/test_cases.hpp"
#include "plan/tiles.hpp"

namespace trunkline {
namespace {

using ::testing::ElementsAre;

MachineProfile profile_of(std::int32_t m) {
  MachineProfile profile = testing::cpu_like_profile(1);
  profile.tiles = {{m, 32}};
  return profile;
}

/// One pack for a whole star: the root for all queries, then each request's own tokens for its own.
class MaskedPackTest : public ::testing::Test {
 protected:
  Plan plan_star(std::int32_t max_queries, std::int32_t workers) {
    const AttentionShape shape = testing::shape_of(8, 1);
    const MachineProfile profile = testing::cpu_like_profile(workers);
    order_.reset(forest_);
    TileTable tiles;
    tiles.reset(profile_of(max_queries * shape.group_size()), shape.group_size());
    packs_.reset(order_, tiles);
    packs_.add_segment({0, 0, 600});
    for (std::int32_t i = 0; i < 3; ++i) {
      const Range positions = order_.positions_of(i);
      packs_.add_queries(positions);
      packs_.add_segment({forest_.order[static_cast<std::size_t>(i)], 600, 1000, positions, true});
    }
    packs_.close();

    CostModel costs;
    costs.reset(profile, shape);
    KvSplitter splitter;
    splitter.divide(packs_, costs, KvSplit::kBalance);
    Plan plan;
    plan.shape = shape;
    PlanEmitter().emit(forest_, packs_, splitter, tiles, plan);
    Scheduler().schedule(splitter.item_costs(), plan.schedule);
    EXPECT_EQ(find_plan_violation(plan, forest_), std::nullopt);
    return plan;
  }

  const Forest forest_ = testing::star_forest(600, 3, 400);
  QueryOrder order_;
  Packs packs_;
};

TEST_F(MaskedPackTest, ReadersBecomeMasks) {
  const Plan plan = plan_star(128, 1);
  ASSERT_EQ(plan.items.size(), 1u);
  EXPECT_THAT(plan.spans,
              ElementsAre(KvSpan{0, 0, 0, 600, -1, kSpanAbsolute}, KvSpan{0, 0, 600, 0, 0, kSpanEndFromEnd},
                          KvSpan{1, 0, 600, 0, 1, kSpanEndFromEnd}, KvSpan{2, 0, 600, 0, 2, kSpanEndFromEnd}));
  EXPECT_THAT(plan.masks, ElementsAre(QueryMask{{1, 0}}, QueryMask{{2, 0}}, QueryMask{{4, 0}}));
  EXPECT_THAT(plan.item_outputs, ElementsAre(kDirect, kDirect, kDirect));
}

// 1,800 tokens in up to 7 parts, whose bounds fall inside private segments too: each ends open in one part alone.
TEST_F(MaskedPackTest, CutsKeepOneOpenEndARequest) {
  const Plan plan = plan_star(128, 64);
  EXPECT_GT(plan.items.size(), 3u);
  EXPECT_EQ(plan.partials, static_cast<std::int32_t>(3 * plan.items.size()));
}

TEST_F(MaskedPackTest, ChunksReadWhatTheirQueriesSee) {
  const Plan plan = plan_star(2, 1);
  ASSERT_EQ(plan.items.size(), 2u);
  EXPECT_THAT(plan.item_queries, ElementsAre(0, 1, 2));
  EXPECT_EQ(plan.items[0].spans.size(), 3);
  EXPECT_EQ(plan.items[1].spans.size(), 2);
  EXPECT_EQ(packs_.packs()[0].tokens, 1400);
  EXPECT_EQ(packs_.packs()[1].tokens, 1000);
}

TEST(Packs, APackOfOneSegmentIsSpreadOrVanishesLikeOthers) {
  const Forest forest = testing::unshared_forest(6, 10);
  QueryOrder order;
  order.reset(forest);
  Packs packs;
  TileTable tiles;
  tiles.reset(profile_of(2), 1);
  packs.reset(order, tiles);
  packs.add_pack({0, 2}, {0, 0, 10});
  packs.add_pack({2, 2}, {2, 0, 10});
  packs.add_pack({2, 5}, {2, 0, 10});
  EXPECT_EQ(packs.total_queries(), 5);
  EXPECT_EQ(packs.total_tokens(), 30);
  ASSERT_EQ(packs.packs().size(), 3u);
  EXPECT_THAT(packs.runs(packs.packs()[0]), ElementsAre(Range{0, 2}));
  EXPECT_THAT(packs.runs(packs.packs()[1]), ElementsAre(Range{2, 4}));
  EXPECT_THAT(packs.runs(packs.packs()[2]), ElementsAre(Range{4, 5}));
  for (const Pack& pack : packs.packs()) EXPECT_EQ(packs.segments(pack).size(), 1u);
}

TEST(Packs, RunsJoinAndEmptyPacksVanish) {
  const Forest forest = testing::unshared_forest(6, 10);
  QueryOrder order;
  order.reset(forest);
  Packs packs;
  TileTable tiles;
  tiles.reset(profile_of(128), 1);
  packs.reset(order, tiles);
  packs.add_segment({0, 0, 10});
  packs.close();
  EXPECT_TRUE(packs.packs().empty());
  packs.add_queries({0, 2});
  packs.add_queries({2, 2});
  packs.add_queries({2, 3});
  packs.add_queries({4, 6});
  packs.close();
  ASSERT_EQ(packs.packs().size(), 1u);
  EXPECT_EQ(packs.packs()[0].queries, 5);
  EXPECT_THAT(packs.runs(packs.packs()[0]), ElementsAre(Range{0, 3}, Range{4, 6}));
  EXPECT_TRUE(packs.segments(packs.packs()[0]).empty());
}

}  // namespace
}  // namespace trunkline
