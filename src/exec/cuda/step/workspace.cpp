#include "exec/cuda/step/workspace.hpp"

#include <type_traits>

#include "exec/cuda/device_planner/planner_report.hpp"
#include "exec/cuda/kernels/sm90/single_query/config.hpp"

namespace trunkline::cuda {
namespace {

class Divider {
 public:
  std::size_t take(std::size_t bytes) {
    const std::size_t at = used_;
    used_ += (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
    return at;
  }
  template <class T>
  std::size_t take(std::size_t count) {
    return take(count * sizeof(T));
  }
  std::size_t used() const { return used_; }

 private:
  std::size_t used_ = 0;
};

template <class T>
T* at(std::byte* base, std::size_t offset) {
  return reinterpret_cast<T*>(base + offset);
}

/// \tparam Lists PlanLists or DevicePlan
template <class Lists>
Lists lists_at(std::byte* base, const WorkspaceLayout& layout) {
  Lists lists;
  for_each_list(
      {},
      [base](const PlanListInfo&, auto& list, std::size_t offset) {
        list = reinterpret_cast<std::remove_reference_t<decltype(list)>>(base + offset);
      },
      lists, layout);
  lists.counts = at<ListCounts>(base, layout.counts);
  return lists;
}

DeviceStep device_step(std::byte* base, const WorkspaceLayout& layout) {
  return {.tasks = at<TaskHeader>(base, layout.step_tasks),
          .rows = at<ItemRow>(base, layout.step_rows),
          .spans = at<ResolvedSpan>(base, layout.step_spans),
          .prologues = base + layout.step_prologues};
}

}  // namespace

WorkspaceLayout lay_out(const PlanSizes& capacities, const AttentionShape& shape, MergeMode merge,
                        const KernelBytes& kernels) {
  const bool fused = merge == MergeMode::kFused;
  const auto heads = static_cast<std::size_t>(shape.q_heads);
  Divider divider;
  WorkspaceLayout layout;
  layout.queues = divider.take<QueueCounters>(kMaxQueues);
  layout.cluster_arrivals = divider.take<std::int32_t>(single_query::kCounters);
  layout.counts = divider.take<ListCounts>(1);
  PlanSizes listed = capacities;
  if (!fused) listed.partials = 0;  // of partial_merges
  for_each_list(
      listed,
      [&](const PlanListInfo& list, std::size_t& offset) { offset = divider.take(list.entries * list.entry_bytes); },
      layout);
  layout.arrived =
      divider.take<std::int32_t>(fused ? capacities.merge_queries * static_cast<std::size_t>(shape.kv_heads) : 0);
  layout.first_fault = divider.take<std::uint64_t>(1);
  layout.report = divider.take<PlannerReport>(1);
  layout.step_tasks = divider.take<TaskHeader>(capacities.items);
  layout.step_rows = divider.take<ItemRow>(capacities.item_queries);
  layout.step_spans = divider.take<ResolvedSpan>(capacities.spans);
  layout.step_first_ids = divider.take<std::int64_t>(1);
  layout.step_prologues = divider.take<std::byte>(capacities.items * kernels.prologue);
  layout.nan_tasks = divider.take<std::int32_t>(capacities.items * static_cast<std::size_t>(shape.kv_heads));
  layout.partial_out = divider.take<float>(capacities.partials * heads * static_cast<std::size_t>(shape.head_dim_v));
  layout.partial_lse = divider.take<float>(capacities.partials * heads);
  layout.single_query_scratch = divider.take<std::byte>(kernels.single_query_scratch);
  layout.bytes = divider.used();
  return layout;
}

StepArgs step_args(std::byte* base, const WorkspaceLayout& layout, const DevicePages& pages) {
  return {lists_at<DevicePlan>(base, layout), device_step(base, layout), pages};
}

PlanLists plan_lists(std::byte* base, const WorkspaceLayout& layout, MergeMode merge) {
  PlanLists lists = lists_at<PlanLists>(base, layout);
  if (merge != MergeMode::kFused) lists.partial_merges = nullptr;
  return lists;
}

Partials device_partials(std::byte* base, const WorkspaceLayout& layout) {
  return {at<float>(base, layout.partial_out), at<float>(base, layout.partial_lse)};
}

}  // namespace trunkline::cuda
