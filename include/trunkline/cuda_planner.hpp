// Plans made on the device, for engines whose page tables and lengths are there and nowhere else.
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
  std::int32_t rows = 0;        ///< most rows of a batch, padding included
  PlanCapacity capacity;        ///< all positive; what does not fit is planned `flat`, without cuts, as by Planner
  std::int64_t null_page = -1;  ///< a page id that is never shared; negative: none
  /// A plan is kept while the same rows share the same pages and none has grown by more than so many tokens since it
  /// was made; by 16 or fewer where some item has the ends of more rows than the mean, which make it fall behind.
  std::int32_t growth = 64;
};

/// What planning on the device has come to, as of the plan in the workspace that was resolved last.
struct CudaPlanReport {
  std::uint64_t planned = 0;  ///< steps whose plan was made
  std::uint64_t reused = 0;   ///< steps that reused the plan before
  // Of the last plan that was made:
  std::int64_t kv_tokens_total = 0;
  std::int64_t kv_tokens_distinct = 0;
  std::int64_t kv_tokens_read = 0;
  std::int32_t items = 0;
  std::int32_t spans = 0;
  std::int32_t partials = 0;
  std::int32_t fallbacks = 0;          ///< 1 where a capacity forced it to `flat`
  std::int32_t unplanned = 0;          ///< 1 where not even `flat` fitted: it has no items, and nothing is written to O
  std::int32_t bad_lengths = 0;        ///< rows whose length is negative or has no pages in the table; planned as empty
  std::int32_t first_bad_length = -1;  ///< the first such row
  std::int32_t bad_length = 0;         ///< its length
  std::int32_t bad_queries = 0;        ///< rows whose query_start is wrong; if any is, no row has a query
  std::int32_t first_bad_queries = -1;
  std::int32_t bad_query_start = 0;
};

/// Makes the plans of policy `trunk` on a device, the same as Planner with the same profile and capacity makes them,
/// bit for bit, from page tables and lengths that are there (CudaExecutor::plan). No draft trees. One planner serves
/// one sequence of steps; its calls must not overlap in time, on the host or on the device.
class CudaPlanner {
 public:
  /// \throws Error(kUnsupported) where the device cannot plan so many rows, or the profile cannot for the shape;
  /// Error(kInvalidArgument) when a capacity is not positive.
  CudaPlanner(const MachineProfile& profile, const AttentionShape& shape, const CudaPlannerOptions& options);
  ~CudaPlanner();
  CudaPlanner(CudaPlanner&&) noexcept;
  CudaPlanner& operator=(CudaPlanner&&) noexcept;

  /// Device memory that it needs besides workspaces, aligned to 256 bytes.
  std::size_t memory_bytes() const;
  /// Takes it, and forgets what was planned. It stays the caller's, and as it is while the planner is used: where
  /// another planner is bound to any of it, or an executor plans there, CudaExecutor::plan is Error(kWorkspace) until
  /// the next bind(). \throws Error(kWorkspace) when it is too small or misaligned.
  void bind(void* memory, std::size_t bytes, void* stream);

  const AttentionShape& shape() const;
  const CudaPlannerOptions& options() const;
  /// What CudaExecutor::resolve() has told by now, without waiting for it: of a step in flight, some may be missing.
  CudaPlanReport report() const;

 private:
  friend class CudaExecutor;
  std::unique_ptr<cuda::DevicePlanner> planner_;
};

}  // namespace trunkline
