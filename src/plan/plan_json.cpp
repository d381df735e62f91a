#include <nlohmann/json.hpp>

#include "plan/capacity_limits.hpp"
#include "plan/plan_sizes.hpp"
#include "trunkline/plan.hpp"

namespace trunkline {
namespace {

// Keys in the order given here, so that plans of two runs can be compared as text.
using Json = nlohmann::ordered_json;

Json to_json(const AttentionShape& shape) {
  return {{"q_heads", shape.q_heads},
          {"kv_heads", shape.kv_heads},
          {"head_dim_qk", shape.head_dim_qk},
          {"head_dim_v", shape.head_dim_v},
          {"page_size", shape.page_size},
          {"q_dtype", name_of(shape.q_dtype)},
          {"kv_dtype", name_of(shape.kv_dtype)},
          {"device", name_of(shape.device)}};
}

Json to_json(const Query& query) {
  return {{"slot", query.slot},
          {"generation", query.generation},
          {"token", query.token},
          {"from_end", query.from_end},
          {"parent", query.parent}};
}

Json to_json(const KvSpan& span) {
  return {{"slot", span.slot},
          {"generation", span.generation},
          {"begin", span.begin},
          {"end", span.end},
          {"mask", span.mask},
          {"begin_from_end", (span.flags & kSpanBeginFromEnd) != 0},
          {"end_from_end", (span.flags & kSpanEndFromEnd) != 0},
          {"token_mask", (span.flags & kSpanTokenMask) != 0},
          {"both_halves", (span.flags & kSpanBothHalves) != 0}};
}

Json to_json(const PlanCapacity& capacity) {
  Json json;
  for (const CapacityLimit& each : kCapacityLimits) json[each.name] = capacity.*each.limit;
  return json;
}

Json to_json(const PlanStatistics& statistics) {
  return {{"kv_tokens_total", statistics.kv_tokens_total},
          {"kv_tokens_distinct", statistics.kv_tokens_distinct},
          {"kv_tokens_read", statistics.kv_tokens_read},
          {"kv_tokens_grouped", statistics.kv_tokens_grouped},
          {"kv_bytes_distinct", statistics.kv_bytes_distinct},
          {"kv_bytes_read", statistics.kv_bytes_read},
          {"kv_bytes_reread", statistics.kv_bytes_reread},
          {"qo_bytes", statistics.qo_bytes},
          {"partials", statistics.partials},
          {"partial_bytes", statistics.partial_bytes},
          {"flops", statistics.flops},
          {"flops_padded", statistics.flops_padded},
          {"predicted_us", statistics.predicted_us},
          {"bound_us", statistics.bound_us},
          {"fallbacks", statistics.fallbacks}};
}

template <class T>
Json slice(const std::vector<T>& all, Range range) {
  Json result = Json::array();
  for (std::int32_t i = range.begin; i < range.end; ++i) result.push_back(all[static_cast<std::size_t>(i)]);
  return result;
}

template <class T>
Json objects(const std::vector<T>& all, Range range) {
  Json result = Json::array();
  for (std::int32_t i = range.begin; i < range.end; ++i) result.push_back(to_json(all[static_cast<std::size_t>(i)]));
  return result;
}

Json items_to_json(const Plan& plan) {
  Json items = Json::array();
  for (const WorkItem& item : plan.items) {
    items.push_back({{"queries", slice(plan.item_queries, item.queries)},
                     {"outputs", slice(plan.item_outputs, item.queries)},
                     {"spans", objects(plan.spans, item.spans)},
                     {"tile", {{"m", item.tile.m}, {"n", item.tile.n}}},
                     {"first_half", item.first_half}});
  }
  return items;
}

Json masks_to_json(const Plan& plan) {
  Json masks = Json::array();
  for (const QueryMask& mask : plan.masks) masks.push_back({mask.words[0], mask.words[1]});
  return masks;
}

Json merges_to_json(const Plan& plan) {
  Json merges = Json::array();
  for (std::size_t i = 0; i < plan.merge_queries.size(); ++i) {
    merges.push_back({{"query", plan.merge_queries[i]},
                      {"slots", slice(plan.merge_slots, {plan.merge_begin[i], plan.merge_begin[i + 1]})}});
  }
  return merges;
}

}  // namespace

std::string plan_to_json(const Plan& plan) {
  const Json json = {{"policy", name_of(plan.policy)},
                     {"epoch", plan.epoch},
                     {"shape", to_json(plan.shape)},
                     {"queries", objects(plan.queries, {0, static_cast<std::int32_t>(plan.queries.size())})},
                     {"items", items_to_json(plan)},
                     {"masks", masks_to_json(plan)},
                     {"merges", merges_to_json(plan)},
                     {"schedule", plan.schedule},
                     {"partials", plan.partials},
                     {"invariant_chunk", plan.invariant_chunk},
                     {"capacity", to_json(plan.capacity)},
                     {"statistics", to_json(plan.statistics)}};
  return json.dump();
}

std::string statistics_to_json(const PlanStatistics& statistics) {
  return to_json(statistics).dump();
}

}  // namespace trunkline
