// The objects behind the handles of executors and planners on a GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "capi/handles.hpp"
#include "capi/tensors.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/cuda_planner.hpp"

namespace trunkline::capi {

struct CudaPlannerObject final : Object {
  static constexpr Kind kKind = Kind::kCudaPlanner;
  CudaPlannerObject(const MachineProfile& profile, const AttentionShape& shape, const CudaPlannerOptions& options)
      : planner(profile, shape, options) {}
  CudaPlanner planner;
};

/// A workspace and what a run's tensors are checked against, from its last plan.
struct PlannedWorkspace {
  const void* workspace = nullptr;
  LayerPlace place;
  std::shared_ptr<CudaPlannerObject> planner;  // the last that planned there: captured graphs write to its report
};

struct CudaObject final : Object {
  static constexpr Kind kKind = Kind::kCuda;
  explicit CudaObject(CudaOptions options) : device(options.device), executor(options) {}

  std::vector<PlannedWorkspace>::iterator find(const void* workspace) {
    return std::find_if(planned.begin(), planned.end(),
                        [workspace](const PlannedWorkspace& one) { return one.workspace == workspace; });
  }
  /// Before work is enqueued, so that keep() cannot fail after it.
  void make_room() { planned.reserve(planned.size() + 1); }
  /// \param planner null: the plan was uploaded
  void keep(const void* workspace, const LayerPlace& place, std::shared_ptr<CudaPlannerObject> planner = nullptr) {
    auto found = find(workspace);
    if (found == planned.end()) found = planned.insert(found, {workspace, place, nullptr});
    found->place = place;
    if (planner != nullptr) found->planner = std::move(planner);
  }

  const std::int32_t device;
  CudaExecutor executor;
  std::vector<PlannedWorkspace> planned;  // few: as many as steps are in flight
};

}  // namespace trunkline::capi
