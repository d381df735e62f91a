#include "exec/cpu/workspace.hpp"

#include "exec/resolve.hpp"

namespace trunkline::cpu {
namespace {

constexpr std::size_t kAlignment = 64;

class Divider {
 public:
  explicit Divider(std::byte* base) : base_(base) {}

  template <class T>
  std::span<T> take(std::size_t count) {
    // A null base asks for sizes alone: no pointer is made from it.
    T* const at = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return {at, at == nullptr ? 0 : count};
  }

  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

}  // namespace

PlanMark mark_of(const Plan& plan) {
  return {plan.epoch,        plan.queries.size(),       plan.items.size(),
          plan.spans.size(), plan.merge_queries.size(), plan.partials};
}

Workspace lay_out_workspace(std::byte* base, const AttentionShape& shape, const WorkspaceSizes& sizes) {
  const auto heads = static_cast<std::size_t>(shape.q_heads);
  const auto kv_heads = static_cast<std::size_t>(shape.kv_heads);
  Divider divider(base);
  Workspace workspace;
  workspace.header = divider.take<WorkspaceHeader>(1).data();
  workspace.queries = divider.take<ResolvedQuery>(sizes.queries);
  workspace.spans = divider.take<ResolvedSpan>(sizes.spans);
  workspace.slot_table = divider.take<std::int32_t>(slot_table_size(sizes.rows));
  workspace.query_merge = divider.take<std::int32_t>(sizes.queries);
  workspace.merge_arrived = divider.take<std::int32_t>(sizes.merges * kv_heads);
  workspace.first_task = divider.take<std::int32_t>(sizes.items + 1);
  workspace.item_heads = divider.take<std::int32_t>(sizes.items);
  workspace.partial_out = divider.take<float>(sizes.partials * heads * static_cast<std::size_t>(shape.head_dim_v));
  workspace.partial_lse = divider.take<float>(sizes.partials * heads);
  workspace.scratch_floats =
      (sizes.scratch_floats * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment / sizeof(float);
  workspace.scratch = divider.take<float>(workspace.scratch_floats * static_cast<std::size_t>(sizes.workers));
  workspace.bytes = divider.used();
  return workspace;
}

}  // namespace trunkline::cpu
