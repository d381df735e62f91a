#include "exec/cuda/step/workspace.hpp"

#include <algorithm>

#include "exec/cuda/device_planner/planner_report.hpp"
#include "exec/cuda/kernels/sm90/single_query/config.hpp"

namespace trunkline::cuda {
namespace {

class Divider {
 public:
  template <class T>
  std::size_t take(std::size_t count) {
    const std::size_t at = used_;
    used_ += (count * sizeof(T) + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
    return at;
  }
  std::size_t used() const { return used_; }

 private:
  std::size_t used_ = 0;
};

template <class T>
T* at(std::byte* base, std::size_t offset) {
  return reinterpret_cast<T*>(base + offset);
}

DevicePlan device_plan(std::byte* base, const WorkspaceLayout& layout) {
  return {.counts = at<ListCounts>(base, layout.counts),
          .queries = at<RowQuery>(base, layout.queries),
          .items = at<WorkItem>(base, layout.items),
          .item_queries = at<std::int32_t>(base, layout.item_queries),
          .item_outputs = at<std::int32_t>(base, layout.item_outputs),
          .spans = at<RowSpan>(base, layout.spans),
          .masks = at<std::uint64_t>(base, layout.masks),
          .merge_queries = at<std::int32_t>(base, layout.merge_queries),
          .merge_begin = at<std::int32_t>(base, layout.merge_begin),
          .merge_slots = at<std::int32_t>(base, layout.merge_slots),
          .partial_merges = at<std::int32_t>(base, layout.partial_merges),
          .schedule = at<std::int32_t>(base, layout.schedule)};
}

DeviceStep device_step(std::byte* base, const WorkspaceLayout& layout) {
  return {.tasks = at<TaskHeader>(base, layout.step_tasks),
          .rows = at<ItemRow>(base, layout.step_rows),
          .spans = at<ResolvedSpan>(base, layout.step_spans),
          .prologues = base + layout.step_prologues};
}

}  // namespace

PlanRoom room_of_plan(const Plan& plan) {
  return {.queries = plan.queries.size(),
          .items = plan.items.size(),
          .item_queries = plan.item_queries.size(),
          .spans = plan.spans.size(),
          .masks = plan.masks.size(),
          .merges = plan.merge_queries.size(),
          .merge_slots = plan.merge_slots.size(),
          .partials = static_cast<std::size_t>(plan.partials)};
}

PlanRoom room_of_capacity(const Plan& plan) {
  PlanRoom room = room_of_plan(plan);
  const auto widen = [](std::size_t& size, std::size_t limit) { size = std::max(size, limit); };
  const auto queries = static_cast<std::size_t>(plan.capacity.queries);
  const auto spans = static_cast<std::size_t>(plan.capacity.spans);
  const auto partials = static_cast<std::size_t>(plan.capacity.partials);
  widen(room.queries, queries);
  widen(room.items, static_cast<std::size_t>(plan.capacity.items));
  widen(room.spans, spans);
  widen(room.partials, partials);
  if (queries > 0) widen(room.merges, queries);
  if (partials > 0) widen(room.merge_slots, partials);
  if (queries > 0 && partials > 0) widen(room.item_queries, queries + partials);
  if (queries > 0 && spans > 0) {
    widen(room.masks, static_cast<std::size_t>(mask_capacity(plan.capacity, plan.shape.group_size())));
  }
  return room;
}

Shortage find_shortage(const PlanRoom& needed, const PlanRoom& room) {
  const Shortage lists[] = {{"queries", needed.queries, room.queries},
                            {"items", needed.items, room.items},
                            {"item_queries", needed.item_queries, room.item_queries},
                            {"spans", needed.spans, room.spans},
                            {"masks", needed.masks, room.masks},
                            {"merge_queries", needed.merges, room.merges},
                            {"merge_slots", needed.merge_slots, room.merge_slots},
                            {"partials", needed.partials, room.partials}};
  for (const Shortage& list : lists) {
    if (list.needed > list.room) return list;
  }
  return {};
}

WorkspaceLayout lay_out(const PlanRoom& room, const AttentionShape& shape, MergeMode merge,
                        const KernelBytes& kernels) {
  const bool fused = merge == MergeMode::kFused;
  const auto heads = static_cast<std::size_t>(shape.q_heads);
  Divider divider;
  WorkspaceLayout layout;
  layout.queues = divider.take<QueueCounters>(kMaxQueues);
  layout.cluster_arrivals = divider.take<std::int32_t>(single_query::kCounters);
  layout.counts = divider.take<ListCounts>(1);
  layout.queries = divider.take<RowQuery>(room.queries);
  layout.items = divider.take<WorkItem>(room.items);
  layout.item_queries = divider.take<std::int32_t>(room.item_queries);
  layout.item_outputs = divider.take<std::int32_t>(room.item_queries);
  layout.spans = divider.take<RowSpan>(room.spans);
  layout.merge_queries = divider.take<std::int32_t>(room.merges);
  layout.merge_begin = divider.take<std::int32_t>(room.merges + 1);
  layout.merge_slots = divider.take<std::int32_t>(room.merge_slots);
  layout.partial_merges = divider.take<std::int32_t>(fused ? room.partials : 0);
  layout.schedule = divider.take<std::int32_t>(room.items);
  layout.masks = divider.take<QueryMask>(room.masks);
  layout.arrived = divider.take<std::int32_t>(fused ? room.merges * static_cast<std::size_t>(shape.kv_heads) : 0);
  layout.first_fault = divider.take<std::uint64_t>(1);
  layout.report = divider.take<PlannerReport>(1);
  layout.step_tasks = divider.take<TaskHeader>(room.items);
  layout.step_rows = divider.take<ItemRow>(room.item_queries);
  layout.step_spans = divider.take<ResolvedSpan>(room.spans);
  layout.step_first_ids = divider.take<std::int64_t>(1);
  layout.step_prologues = divider.take<std::byte>(room.items * kernels.prologue);
  layout.nan_tasks = divider.take<std::int32_t>(room.items * static_cast<std::size_t>(shape.kv_heads));
  layout.partial_out = divider.take<float>(room.partials * heads * static_cast<std::size_t>(shape.head_dim_v));
  layout.partial_lse = divider.take<float>(room.partials * heads);
  layout.single_query_scratch = divider.take<std::byte>(kernels.single_query_scratch);
  layout.bytes = divider.used();
  return layout;
}

StepArgs step_args(std::byte* base, const WorkspaceLayout& layout, const DevicePages& pages) {
  return {device_plan(base, layout), device_step(base, layout), pages};
}

PlanLists plan_lists(std::byte* base, const WorkspaceLayout& layout, MergeMode merge) {
  return {.counts = at<ListCounts>(base, layout.counts),
          .queries = at<RowQuery>(base, layout.queries),
          .items = at<WorkItem>(base, layout.items),
          .item_queries = at<std::int32_t>(base, layout.item_queries),
          .item_outputs = at<std::int32_t>(base, layout.item_outputs),
          .spans = at<RowSpan>(base, layout.spans),
          .masks = at<std::uint64_t>(base, layout.masks),
          .merge_queries = at<std::int32_t>(base, layout.merge_queries),
          .merge_begin = at<std::int32_t>(base, layout.merge_begin),
          .merge_slots = at<std::int32_t>(base, layout.merge_slots),
          .partial_merges = merge == MergeMode::kFused ? at<std::int32_t>(base, layout.partial_merges) : nullptr,
          .schedule = at<std::int32_t>(base, layout.schedule)};
}

Partials device_partials(std::byte* base, const WorkspaceLayout& layout) {
  return {at<float>(base, layout.partial_out), at<float>(base, layout.partial_lse)};
}

}  // namespace trunkline::cuda
