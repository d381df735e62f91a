#include "exec/cuda/step/records.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace trunkline::cuda {
namespace {

void check_workspace(const void* workspace, std::size_t bytes, std::size_t needed) {
  if (workspace == nullptr || bytes < needed) {
    fail(ErrorCode::kWorkspace, "workspace has ", workspace == nullptr ? 0 : bytes, " bytes; this plan needs ", needed);
  }
  if (reinterpret_cast<std::uintptr_t>(workspace) % kWorkspaceAlignment == 0) return;
  fail(ErrorCode::kWorkspace, "workspace is at ", workspace, "; it must be aligned to ", kWorkspaceAlignment, " bytes");
}

}  // namespace

const WorkspaceRecord* WorkspaceRecords::find(const void* workspace) const {
  const auto found = std::find_if(records_.begin(), records_.end(),
                                  [&](const WorkspaceRecord& record) { return record.base == workspace; });
  return found == records_.end() ? nullptr : &*found;
}

WorkspaceRecord& WorkspaceRecords::uploaded(const void* workspace) {
  const WorkspaceRecord* record = find(workspace);
  if (record == nullptr) {
    fail(ErrorCode::kWorkspace, "workspace ", workspace, " holds no plan; call upload() once per plan");
  }
  if (!owner_.holds(workspace, record->stamp)) {
    fail(ErrorCode::kWorkspace, "workspace ", workspace,
         " holds another executor's plan since; call upload() or plan() again before run(), or give each executor a "
         "workspace of its own");
  }
  return records_[static_cast<std::size_t>(record - records_.data())];
}

WorkspaceRecord WorkspaceRecords::next(const Plan& plan, const PlanSizes& needed, const KernelFamily& family,
                                       MergeMode merge, std::size_t single_query_scratch, void* workspace,
                                       std::size_t bytes) const {
  const WorkspaceRecord* before = find(workspace);
  if (before != nullptr && before->shape == plan.shape && bytes >= before->layout.bytes) {
    const Shortage shortage = find_shortage(needed, before->capacities);
    if (shortage.name == nullptr) return *before;
    if (before->captured) {
      fail(ErrorCode::kWorkspace, "the plan has ", shortage.needed, " ", shortage.name,
           "; the workspace, which a captured graph uses, has room for ", shortage.capacity,
           "; plan with capacities, or release() it when the graph is gone");
    }
  } else if (before != nullptr && before->captured) {
    fail(ErrorCode::kWorkspace,
         "the workspace is used by a captured graph of another shape or size; release() it when "
         "the graph is gone");
  }
  WorkspaceRecord record;
  record.base = static_cast<std::byte*>(workspace);
  record.shape = plan.shape;
  record.family = &family;
  record.capacities = capacities_for(plan);
  record.layout = lay_out(record.capacities, plan.shape, merge, {family.prologue_bytes(), single_query_scratch});
  check_workspace(workspace, bytes, record.layout.bytes);
  if (before != nullptr) {
    record.times = before->times;
    record.times_count = before->times_count;
    record.reports = before->reports;
  }
  return record;
}

// Claims the layout's bytes, which may be less than the caller's memory.
void WorkspaceRecords::claim(WorkspaceRecord& record) const {
  record.stamp = owner_.claim(record.base, record.layout.bytes);
}

void WorkspaceRecords::keep(const WorkspaceRecord& record) {
  std::erase_if(records_, [&](const WorkspaceRecord& other) {
    return other.base < record.base + record.bytes && record.base < other.base + other.bytes;
  });
  records_.push_back(record);
}

void WorkspaceRecords::remove(const void* workspace) {
  owner_.release(workspace);
  std::erase_if(records_, [&](const WorkspaceRecord& record) { return record.base == workspace; });
}

}  // namespace trunkline::cuda
