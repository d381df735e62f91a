// Facts of a plan, its statistics and its JSON.
#include <cstdint>
#include <memory>
#include <string>

#include "capi/convert.hpp"
#include "capi/objects.hpp"
#include "capi/structs.hpp"

using namespace trunkline;
using namespace trunkline::capi;

namespace {

template <class Size>
std::int32_t to_int(Size size) {
  return static_cast<std::int32_t>(size);
}

trunkline_plan_info info_of(const Plan& plan) {
  return {.struct_size = 0,
          .q_heads = plan.shape.q_heads,
          .kv_heads = plan.shape.kv_heads,
          .head_dim_qk = plan.shape.head_dim_qk,
          .head_dim_v = plan.shape.head_dim_v,
          .page_size = plan.shape.page_size,
          .q_dtype = number_of(plan.shape.q_dtype),
          .kv_dtype = number_of(plan.shape.kv_dtype),
          .device = number_of(plan.shape.device),
          .policy = number_of(plan.policy),
          .queries = to_int(plan.queries.size()),
          .epoch = plan.epoch,
          .items = to_int(plan.items.size()),
          .spans = to_int(plan.spans.size()),
          .merges = to_int(plan.merge_queries.size()),
          .partials = plan.partials};
}

trunkline_plan_statistics statistics_of(const PlanStatistics& from) {
  return {.struct_size = 0,
          .kv_tokens_total = from.kv_tokens_total,
          .kv_tokens_distinct = from.kv_tokens_distinct,
          .kv_tokens_read = from.kv_tokens_read,
          .kv_tokens_grouped = from.kv_tokens_grouped,
          .kv_bytes_distinct = from.kv_bytes_distinct,
          .kv_bytes_read = from.kv_bytes_read,
          .kv_bytes_reread = from.kv_bytes_reread,
          .qo_bytes = from.qo_bytes,
          .partials = from.partials,
          .partial_bytes = from.partial_bytes,
          .flops = from.flops,
          .flops_padded = from.flops_padded,
          .predicted_us = from.predicted_us,
          .bound_us = from.bound_us,
          .fallbacks = from.fallbacks,
          .reserved = 0};
}

}  // namespace

trunkline_status trunkline_plan_copy(const trunkline_plan* plan, trunkline_plan** copy) {
  return guard([&] {
    need(copy, "copy");
    const auto held = shared<PlanObject>(plan);
    auto object = std::make_shared<PlanObject>();
    object->current = &object->copy.emplace(held->plan());
    *copy = static_cast<trunkline_plan*>(publish(std::move(object)));
  });
}

trunkline_status trunkline_plan_destroy(trunkline_plan* plan) {
  if (plan == nullptr) return TRUNKLINE_OK;
  return guard([&] {
    auto held = exclusive<PlanObject>(plan);
    if (!held->copy) fail(ErrorCode::kInvalidArgument, "plan belongs to a planner, which ends it");
    held.close();
  });
}

trunkline_status trunkline_plan_get_info(const trunkline_plan* plan, trunkline_plan_info* info) {
  return guard([&] { write_struct(info, "info", info_of(shared<PlanObject>(plan)->plan())); });
}

trunkline_status trunkline_plan_get_statistics(const trunkline_plan* plan, trunkline_plan_statistics* statistics) {
  return guard(
      [&] { write_struct(statistics, "statistics", statistics_of(shared<PlanObject>(plan)->plan().statistics)); });
}

trunkline_status trunkline_plan_json(const trunkline_plan* plan, trunkline_text** json) {
  return guard([&] {
    need(json, "json");
    *json = publish_text(plan_to_json(shared<PlanObject>(plan)->plan()));
  });
}

trunkline_status trunkline_plan_statistics_json(const trunkline_plan* plan, trunkline_text** json) {
  return guard([&] {
    need(json, "json");
    *json = publish_text(statistics_to_json(shared<PlanObject>(plan)->plan().statistics));
  });
}

trunkline_status trunkline_plan_validate(const trunkline_plan* plan, const trunkline_forest* forest) {
  return guard([&] {
    const auto held = shared<PlanObject>(plan);
    const auto of = shared<ForestObject>(forest);
    validate_plan(held->plan(), of->forest());
  });
}

trunkline_status trunkline_text_view(const trunkline_text* text, const char** data, size_t* length) {
  return guard([&] {
    need(data, "data");
    need(length, "length");
    const auto held = shared<TextObject>(text);
    *data = held->text.c_str();
    *length = held->text.size();
  });
}

trunkline_status trunkline_text_destroy(trunkline_text* text) {
  return destroy<TextObject>(text);
}
