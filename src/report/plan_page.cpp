#include "report/plan_page.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "assets.hpp"
#include "plan/policy_selector.hpp"
#include "report/item_shapes.hpp"
#include "report/page.hpp"

namespace trunkline::report {
namespace {

// Keys in the order given here; lists of numbers instead of objects where there are thousands.
using Json = nlohmann::ordered_json;

std::vector<std::int32_t> nodes_to_draw(const Forest& forest) {
  std::vector<std::int32_t> nodes(forest.nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  if (nodes.size() <= kDrawnNodes) return nodes;
  const auto area = [&forest](std::int32_t index) {
    const ForestNode& node = forest.nodes[static_cast<std::size_t>(index)];
    return std::int64_t{node.tokens()} * node.requests.size();
  };
  std::stable_sort(nodes.begin(), nodes.end(), [&area](std::int32_t a, std::int32_t b) { return area(a) > area(b); });
  nodes.resize(kDrawnNodes);
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

Json forest_to_json(const Forest& forest) {
  const std::vector<std::int32_t> drawn = nodes_to_draw(forest);
  Json nodes = Json::array();
  std::int64_t drawn_tokens = 0;
  for (const std::int32_t index : drawn) {
    const ForestNode& node = forest.nodes[static_cast<std::size_t>(index)];
    drawn_tokens += node.tokens();
    nodes.push_back({index, node.parent, node.begin, node.end, node.requests.begin, node.requests.end,
                     forest.ending_at(index).size()});
  }
  return {
      {"requests", forest.requests.size()},
      {"total_tokens", forest.total_tokens},
      {"distinct_tokens", forest.distinct_tokens},
      {"nodes", forest.nodes.size()},
      {"order", forest.order},
      {"not_drawn", {{"nodes", forest.nodes.size() - drawn.size()}, {"tokens", forest.distinct_tokens - drawn_tokens}}},
      {"drawn", std::move(nodes)}};
}

Json timeline_to_json(const Timeline& timeline, const Plan& plan) {
  Json workers = Json::array();
  for (const std::vector<TaskBlock>& worker : timeline.workers) {
    Json blocks = Json::array();
    for (const TaskBlock& block : worker) {
      const Range queries = plan.items[static_cast<std::size_t>(block.item)].queries;
      blocks.insert(blocks.end(), {block.begin, block.end - block.begin, block.tasks, block.item, queries.size()});
    }
    workers.push_back(std::move(blocks));
  }
  return {{"begin_ns", timeline.begin},
          {"end_ns", timeline.end},
          {"tasks", timeline.tasks},
          {"bubble_share", timeline.bubble_share()},
          {"resolution_ns", timeline.resolution},
          {"workers", std::move(workers)}};
}

Json span_to_json(const ShapeSpan& span, std::int32_t queries) {
  if (span.readers == std::vector<Range>{{0, queries}}) return span.tokens;
  Json readers = Json::array();
  for (const Range run : span.readers) readers.insert(readers.end(), {run.begin, run.end});
  return {span.tokens, std::move(readers)};
}

Json shapes_to_json(const ItemShapes& shapes) {
  Json drawn = Json::array();
  for (const ItemShape& shape : shapes.shapes) {
    Json spans = Json::array();
    for (const ShapeSpan& span : shape.spans) spans.push_back(span_to_json(span, shape.queries));
    drawn.push_back({shape.items, shape.item, shape.queries, shape.partials, shape.first_half, shape.rows, shape.tile.m,
                     shape.tile.n, shape.tokens, shape.cost, std::move(spans)});
  }
  return {
      {"drawn", std::move(drawn)},
      {"not_drawn", {{"items", shapes.other_items}, {"tokens", shapes.other_tokens}, {"cost_ns", shapes.other_cost}}}};
}

/// The cost of each item, and the cost model that gives it, as the planner had them when it made the plan.
class ItemCosts {
 public:
  ItemCosts(const PlanPage& page, const AttentionShape& shape) : split_(page.options.split), options_(page.options) {
    selector_.reset(page.forest, shape, page.profile, options_);
  }
  const Proposal& of(const Plan& plan) { return selector_.propose(plan.policy, split_); }

 private:
  KvSplit split_;
  PlanOptions options_;
  PolicySelector selector_;
};

Json policy_to_json(const PlanPage& page, const Plan& plan, ItemCosts& item_costs) {
  const Proposal& proposal = item_costs.of(plan);
  const std::span<const Nanoseconds> costs = proposal.splitter.item_costs();
  const CostModel& model = proposal.costs;
  const Timeline predicted = predicted_timeline(plan, costs, model.workers(), model.launch());
  Json policy = {{"name", name_of(plan.policy)},
                 {"items", plan.items.size()},
                 {"statistics", Json::parse(statistics_to_json(plan.statistics))},
                 {"shapes", shapes_to_json(item_shapes(plan, page.forest, costs, model.tasks()))},
                 {"predicted", timeline_to_json(predicted, plan)}};
  if (page.measured && page.measured->policy == plan.policy) {
    const Timeline measured = measured_timeline(page.measured->tasks, page.profile.workers);
    policy["measured"] = timeline_to_json(measured, plan);
    policy["measured"]["source"] = page.measured->source;
  }
  return policy;
}

Json shape_to_json(const AttentionShape& shape) {
  return {{"q_heads", shape.q_heads},
          {"kv_heads", shape.kv_heads},
          {"head_dim_qk", shape.head_dim_qk},
          {"head_dim_v", shape.head_dim_v},
          {"page_size", shape.page_size},
          {"q_dtype", name_of(shape.q_dtype)},
          {"kv_dtype", name_of(shape.kv_dtype)},
          {"device", name_of(shape.device)}};
}

}  // namespace

std::string plan_page_json(const PlanPage& page) {
  const AttentionShape& shape = page.plans.front().shape;
  ItemCosts item_costs(page, shape);
  Json policies = Json::array();
  for (const Plan& plan : page.plans) policies.push_back(policy_to_json(page, plan, item_costs));
  const Json json = {{"kind", "plan"},
                     {"title", page.title},
                     {"source", page.source},
                     {"version", page.version},
                     {"commit", page.commit},
                     {"shape", shape_to_json(shape)},
                     {"machine", {{"name", page.profile.name}, {"workers", page.profile.workers}}},
                     {"split", name_of(page.options.split)},
                     {"chosen", name_of(page.chosen)},
                     {"by_auto", page.by_auto},
                     {"draft_trees", !page.forest.query_parents.empty()},
                     {"forest", forest_to_json(page.forest)},
                     {"policies", std::move(policies)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string plan_page_html(const PlanPage& page) {
  const std::string json = plan_page_json(page);
  return html_page({page.title, kPlanJs, json});
}

}  // namespace trunkline::report
