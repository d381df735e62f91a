// Properties of plans and forests through the C interface are those of the C++ interface.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "c_case.hpp"
#include "exec/attention_case.hpp"
#include "support/policies.hpp"
#include "synthetic/paged_batch.hpp"
#include "trunkline/live.hpp"

namespace trunkline::testing {
namespace {

std::string take(CText& text) {
  const char* data = nullptr;
  std::size_t length = 0;
  EXPECT_OK(trunkline_text_view(text, &data, &length));
  return {data, length};
}

class CPlans : public ::testing::Test {
 protected:
  CPlans()
      : paged_(lay_out_pages(tree_from_levels("1,2,6/40,20,9"), 16, 1)),
        cpp_shape_(make_shape(2, 4, 64, 16)),
        forest_(build_forest(paged_.view())),
        batch_(paged_.view()),
        shape_(c_shape(cpp_shape_)),
        serving_(&batch_.batch) {}

  PagedBatch paged_;
  AttentionShape cpp_shape_;
  Forest forest_;
  CBatch batch_;
  trunkline_shape shape_;
  CServing serving_;
};

TEST_F(CPlans, InfoStatisticsAndJson) {
  PlanOptions cpp_options;
  cpp_options.policy = Policy::kNode;
  cpp_options.capacity.partials = 500;
  const Plan expected = make_plan(forest_, cpp_shape_, generic_cpu_profile(2), cpp_options);
  auto options = c_struct<trunkline_plan_options>();
  options.policy = TRUNKLINE_POLICY_NODE;
  options.capacity_partials = 500;
  const trunkline_plan* plan = nullptr;
  ASSERT_OK(trunkline_planner_plan(serving_.planner, serving_.forest, &shape_, &options, &plan));

  auto info = c_struct<trunkline_plan_info>();
  ASSERT_OK(trunkline_plan_get_info(plan, &info));
  EXPECT_EQ(info.q_heads, 8);
  EXPECT_EQ(info.kv_heads, 2);
  EXPECT_EQ(info.head_dim_qk, 64);
  EXPECT_EQ(info.page_size, 16);
  EXPECT_EQ(info.q_dtype, TRUNKLINE_F16);
  EXPECT_EQ(info.device, TRUNKLINE_CPU);
  EXPECT_EQ(info.policy, TRUNKLINE_POLICY_NODE);
  EXPECT_EQ(info.queries, 6);
  EXPECT_EQ(static_cast<std::size_t>(info.items), expected.items.size());
  EXPECT_EQ(static_cast<std::size_t>(info.spans), expected.spans.size());
  EXPECT_EQ(static_cast<std::size_t>(info.merges), expected.merge_queries.size());
  EXPECT_EQ(info.partials, expected.partials);

  auto statistics = c_struct<trunkline_plan_statistics>();
  ASSERT_OK(trunkline_plan_get_statistics(plan, &statistics));
  EXPECT_EQ(statistics.kv_tokens_total, forest_.total_tokens);
  EXPECT_EQ(statistics.kv_tokens_distinct, forest_.distinct_tokens);
  EXPECT_EQ(statistics.kv_tokens_read, expected.statistics.kv_tokens_read);
  EXPECT_EQ(statistics.partial_bytes, expected.statistics.partial_bytes);
  EXPECT_EQ(statistics.flops, expected.statistics.flops);
  EXPECT_EQ(statistics.predicted_us, expected.statistics.predicted_us);
  EXPECT_EQ(statistics.bound_us, expected.statistics.bound_us);

  CText json;
  CText statistics_json;
  ASSERT_OK(trunkline_plan_json(plan, json.out()));
  ASSERT_OK(trunkline_plan_statistics_json(plan, statistics_json.out()));
  EXPECT_EQ(take(json), plan_to_json(expected));
  EXPECT_EQ(take(statistics_json), statistics_to_json(expected.statistics));
}

TEST_F(CPlans, ForestsNodesAndOrder) {
  auto info = c_struct<trunkline_forest_info>();
  ASSERT_OK(trunkline_forest_get_info(serving_.forest, &info));
  EXPECT_EQ(info.rows, 6);
  ASSERT_EQ(static_cast<std::size_t>(info.nodes), forest_.nodes.size());
  std::vector<trunkline_forest_node> nodes(forest_.nodes.size());
  std::vector<std::int32_t> order(6);
  ASSERT_OK(trunkline_forest_nodes(serving_.forest, nodes.data(), nodes.size()));
  ASSERT_OK(trunkline_forest_order(serving_.forest, order.data(), order.size()));
  EXPECT_EQ(order, forest_.order);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    EXPECT_EQ(nodes[i].parent, forest_.nodes[i].parent);
    EXPECT_EQ(nodes[i].begin, forest_.nodes[i].begin);
    EXPECT_EQ(nodes[i].end, forest_.nodes[i].end);
    EXPECT_EQ(nodes[i].requests_begin, forest_.nodes[i].requests.begin);
    EXPECT_EQ(nodes[i].requests_end, forest_.nodes[i].requests.end);
    EXPECT_EQ(nodes[i].depth, forest_.nodes[i].depth);
  }
  expect_failure(trunkline_forest_nodes(serving_.forest, nodes.data(), 2), TRUNKLINE_INVALID_ARGUMENT, "capacity is 2");
  expect_failure(trunkline_forest_order(serving_.forest, nullptr, 6), TRUNKLINE_INVALID_ARGUMENT, "rows is NULL");
}

TEST_F(CPlans, ExplicitTrees) {
  const std::vector<std::int32_t> parent = {-1, 0, 0};
  const std::vector<std::int32_t> tokens = {100, 10, 20};
  const std::vector<std::int32_t> ends = {1, 2, 1};
  auto tree = c_struct<trunkline_tree>();
  tree.parent = parent.data();
  tree.tokens = tokens.data();
  tree.end_node = ends.data();
  tree.nodes = 3;
  tree.requests = 3;
  ASSERT_OK(trunkline_forest_build_tree(serving_.forest, &tree));
  auto info = c_struct<trunkline_forest_info>();
  ASSERT_OK(trunkline_forest_get_info(serving_.forest, &info));
  EXPECT_EQ(info.total_tokens, 340);
  EXPECT_EQ(info.distinct_tokens, 130);
  const trunkline_plan* plan = nullptr;
  ASSERT_OK(trunkline_planner_plan(serving_.planner, serving_.forest, &shape_, nullptr, &plan));
  EXPECT_OK(trunkline_plan_validate(plan, serving_.forest));
  ASSERT_OK(trunkline_forest_build(serving_.forest, &batch_.batch, TRUNKLINE_TRUST_IDS));
  expect_failure(trunkline_plan_validate(plan, serving_.forest), TRUNKLINE_INTERNAL, "");
}

TEST_F(CPlans, Estimates) {
  Planner planner(generic_cpu_profile(2));
  const std::vector<PolicyEstimate> expected = planner.estimate(forest_, cpp_shape_);
  std::size_t count = 0;
  ASSERT_OK(trunkline_planner_estimate(serving_.planner, serving_.forest, &shape_, nullptr, 0, &count));
  ASSERT_EQ(count, expected.size());
  std::vector<trunkline_estimate> estimates(count);
  ASSERT_OK(trunkline_planner_estimate(serving_.planner, serving_.forest, &shape_, estimates.data(), count, &count));
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_STREQ(trunkline_policy_name(estimates[i].policy), name_of(expected[i].policy));
    EXPECT_EQ(estimates[i].predicted_us, expected[i].predicted_us);
    EXPECT_EQ(estimates[i].kv_tokens_read, expected[i].kv_tokens_read);
  }
}

TEST_F(CPlans, Page) {
  CText html;
  ASSERT_OK(trunkline_plan_page(serving_.profile, serving_.forest, &shape_, nullptr, "a <title>", nullptr, html.out()));
  const std::string page = take(html);
  EXPECT_EQ(page.find("<!DOCTYPE html"), 0U) << page.substr(0, 40);
  EXPECT_NE(page.find("a &lt;title&gt;"), std::string::npos);
  trunkline_plan_options options = {};
  options.struct_size = sizeof options;
  options.capacity_partials = 1;  // too few for `invariant`, which the page has all the same
  options.invariant_chunk = 1;
  CText limited;
  ASSERT_OK(
      trunkline_plan_page(serving_.profile, serving_.forest, &shape_, &options, "a title", nullptr, limited.out()));
  EXPECT_NE(take(limited).find("invariant"), std::string::npos);
  CText none;
  expect_failure(trunkline_plan_page(serving_.profile, serving_.forest, &shape_, nullptr, nullptr, nullptr, none.out()),
                 TRUNKLINE_INVALID_ARGUMENT, "title is NULL");
}

TEST_F(CPlans, PageLeavesOutWhatTheTileDoesNotAllow) {
  CProfile h200;
  ASSERT_OK(trunkline_profile_named("h200-sxm", h200.out()));
  auto options = c_struct<trunkline_plan_options>();
  options.tile_m = 128;  // works as two halves, which `invariant` refuses
  options.tile_n = 64;
  CText html;
  ASSERT_OK(trunkline_plan_page(h200, serving_.forest, &shape_, &options, "a title", nullptr, html.out()));
  const std::string page = take(html);
  EXPECT_NE(page.find("balanced"), std::string::npos);
  EXPECT_EQ(page.find("\"invariant\""), std::string::npos);
}

TEST_F(CPlans, Names) {
  for (const Policy policy : all_policies()) {
    const char* const name = trunkline_policy_name(static_cast<trunkline_policy>(policy));
    ASSERT_NE(name, nullptr) << name_of(policy);
    EXPECT_STREQ(name, name_of(policy));
    trunkline_policy back = -1;
    ASSERT_OK(trunkline_policy_from_name(name, &back));
    EXPECT_EQ(back, static_cast<trunkline_policy>(policy));
  }
  EXPECT_STREQ(trunkline_policy_name(TRUNKLINE_POLICY_AUTO), "auto");
  EXPECT_STREQ(trunkline_policy_name(TRUNKLINE_POLICY_FLAT), "flat");
  EXPECT_STREQ(trunkline_policy_name(TRUNKLINE_POLICY_TRUNK), "trunk");
  EXPECT_STREQ(trunkline_policy_name(TRUNKLINE_POLICY_INVARIANT), "invariant");
  EXPECT_EQ(trunkline_policy_name(static_cast<trunkline_policy>(all_policies().size())), nullptr);
  EXPECT_EQ(trunkline_policy_name(-1), nullptr);
  trunkline_policy policy = -1;
  expect_failure(trunkline_policy_from_name("fast", &policy), TRUNKLINE_INVALID_ARGUMENT, "fast");
  EXPECT_EQ(policy, -1);
  EXPECT_STREQ(trunkline_plan_source_name(TRUNKLINE_PLAN_REUSED), name_of(PlanSource::kReused));
  EXPECT_EQ(trunkline_plan_source_name(17), nullptr);
}

}  // namespace
}  // namespace trunkline::testing
