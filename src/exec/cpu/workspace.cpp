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

Workspace lay_out_workspace(std::byte* base, const Plan& plan, std::int32_t rows, std::int32_t workers,
                            std::size_t scratch_floats) {
  const auto heads = static_cast<std::size_t>(plan.shape.q_heads);
  const auto kv_heads = static_cast<std::size_t>(plan.shape.kv_heads);
  const auto partials = static_cast<std::size_t>(plan.partials);
  Divider divider(base);
  Workspace workspace;
  workspace.header = divider.take<WorkspaceHeader>(1).data();
  workspace.queries = divider.take<ResolvedQuery>(plan.queries.size());
  workspace.spans = divider.take<ResolvedSpan>(plan.spans.size());
  workspace.slot_table = divider.take<std::int32_t>(slot_table_size(rows));
  workspace.query_merge = divider.take<std::int32_t>(plan.queries.size());
  workspace.merge_arrived = divider.take<std::int32_t>(plan.merge_queries.size() * kv_heads);
  workspace.partial_out = divider.take<float>(partials * heads * static_cast<std::size_t>(plan.shape.head_dim));
  workspace.partial_lse = divider.take<float>(partials * heads);
  workspace.scratch_floats =
      (scratch_floats * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment / sizeof(float);
  workspace.scratch = divider.take<float>(workspace.scratch_floats * static_cast<std::size_t>(workers));
  workspace.bytes = divider.used();
  return workspace;
}

}  // namespace trunkline::cpu
