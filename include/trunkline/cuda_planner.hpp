// Plans made on the device, for engines whose page tables and lengths are only there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "trunkline/machine.hpp"
#include "trunkline/plan.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

namespace cuda {
class DevicePlanner;
}

struct CudaPlannerOptions {
  std::int32_t device = 0;
  std::int32_t rows = 0;  ///< maximum rows of a batch, padding included; >= 1
  /// All limits > 0. With kTrunk a batch that does not fit gets plans of `flat` without cuts, as from Planner; with
  /// kInvariant, whose bits no other plan has, none (CudaPlanReport::unplanned).
  PlanCapacity capacity;
  std::int64_t null_page = -1;          ///< a page id of the pool that is never shared; negative: none
  Policy policy = Policy::kTrunk;       ///< kTrunk or kInvariant
  std::int32_t invariant_chunk = 1024;  ///< of kInvariant: PolicyOptions::invariant_chunk
  /// A plan is reused while the same rows share the same pages and no row has grown by more than this many tokens since
  /// the plan was made. The limit is 16 or fewer where one item has the growing ends of more rows than the mean, as
  /// that item falls behind.
  std::int32_t growth = 64;
};

/// Counts of planning on the device, as of the plan in the workspace that was resolved last.
struct CudaPlanReport {
  std::uint64_t planned = 0;  ///< steps that made a plan
  std::uint64_t reused = 0;   ///< steps that reused the previous plan
  // The last plan that was made. PlanStatistics documents the first three.
  std::int64_t kv_tokens_total = 0;
  std::int64_t kv_tokens_distinct = 0;
  std::int64_t kv_tokens_read = 0;
  std::int32_t items = 0;
  std::int32_t spans = 0;
  std::int32_t partials = 0;
  std::int32_t fallbacks = 0;    ///< 1 when a capacity forced the plan to `flat`
  std::int32_t unplanned = 0;    ///< 1 when not even `flat` fits: the plan has no items, and runs write no output
  std::int32_t bad_lengths = 0;  ///< rows whose length is negative or exceeds the table; they are planned as empty
  std::int32_t first_bad_length = -1;  ///< the first such row, or -1
  std::int32_t bad_length = 0;         ///< its length
  std::int32_t bad_queries =
      0;  ///< rows whose query_start or query_parents is wrong; if there is one, no row has a query
  std::int32_t first_bad_queries = -1;  ///< the first such row, or -1
  std::int32_t bad_query_start = 0;     ///< its query_start
};

/// Makes plans of policy `trunk` or `invariant` on a device, from page tables and lengths in device memory
/// (CudaExecutor::plan). They are bit for bit the plans that Planner makes with the same profile and capacity. One
/// planner serves one sequence of steps: its calls must not overlap in time, on the host or on the device.
class CudaPlanner {
 public:
  /// \throws Error(kUnsupported) when the device cannot plan so many rows, the profile has no tile for the shape, or
  /// options.policy is another;
  /// Error(kInvalidArgument) when a limit of the capacity is not > 0.
  CudaPlanner(const MachineProfile& profile, const AttentionShape& shape, const CudaPlannerOptions& options);
  ~CudaPlanner();
  CudaPlanner(CudaPlanner&&) noexcept;
  CudaPlanner& operator=(CudaPlanner&&) noexcept;

  /// Bytes of device memory, aligned to 256 bytes, that the planner needs besides workspaces.
  std::size_t memory_bytes() const;
  /// Gives the planner its device memory, and makes it forget earlier plans. The memory stays the caller's, who must
  /// not change it while the planner is used. After another planner was bound to any part of it, or an executor planned
  /// there, CudaExecutor::plan throws Error(kWorkspace) until the next bind(). Enqueues work on `stream`
  /// (cudaStream_t). \throws Error(kWorkspace) when the memory is too small or misaligned.
  void bind(void* memory, std::size_t bytes, void* stream);

  const AttentionShape& shape() const;
  const CudaPlannerOptions& options() const;
  /// The counts that CudaExecutor::resolve() has published by now. It does not wait: the counts of a step in flight may
  /// be incomplete.
  CudaPlanReport report() const;

 private:
  friend class CudaExecutor;
  std::unique_ptr<cuda::DevicePlanner> planner_;
};

}  // namespace trunkline
