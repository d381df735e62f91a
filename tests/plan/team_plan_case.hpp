// Plans made by a team on the host, and those of the host's planner in the same form.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/team/plan_memory.hpp"
#include "plan/uploaded_plan.hpp"
#include "trunkline/plan.hpp"

namespace trunkline::testing {

/// The lists that kernels read, at their lengths.
struct UploadedPlan {
  std::vector<RowQuery> queries;
  std::vector<WorkItem> items;
  std::vector<std::int32_t> item_queries;
  std::vector<std::int32_t> item_outputs;
  std::vector<RowSpan> spans;
  std::vector<QueryMask> masks;
  std::vector<std::int32_t> merge_queries;
  std::vector<std::int32_t> merge_begin;
  std::vector<std::int32_t> merge_slots;
  std::vector<std::int32_t> partial_merges;
  std::vector<std::int32_t> schedule;
};

/// As write_upload (exec/cuda/upload.hpp) writes a plan of these requests, whose slots are not repeated.
UploadedPlan uploaded(const Plan& plan, const Forest& forest);

struct SketchCounts {
  int made = 0;
  int taken = 0;        ///< they were the plans
  int early = 0;        ///< of these, with tiles that are closed early
  int other = 0;        ///< of these, cut in another way than the plan before
  int placed = 0;       ///< of these, with parts whose begins each block found for itself
  int most_placed = 0;  ///< of such parts
  int told = 0;         ///< of these, with parts whose begins blocks tell each other
  int shared = 0;       ///< plans whose tiles blocks shared
};

/// How a team on the host is run.
struct TeamOptions {
  std::uint64_t seed = 0;            ///< of the orders of what a device does at once; 0: rising
  std::int32_t histograms = 7;       ///< ways to cut that are tried together
  std::int32_t spare_rows = 0;       ///< room beyond the batch's
  std::int32_t blocks = 0;           ///< of threads that plan together; 0: one thread does it all
  std::int32_t threads = 1;          ///< of a block
  const Forest* before = nullptr;    ///< planned twice in the same memory before
  const Forest* between = nullptr;   ///< planned twice after that
  SketchCounts* sketches = nullptr;  ///< null: they are not counted
  bool rows_told = false;            ///< blocks are told of the forest's rows
  std::int32_t earlier_plans = 0;    ///< of the same batch, in the same memory: from the third on, tiles are guessed
  std::chrono::milliseconds last_comes_after{0};  ///< the last block begins so much later
};

/// The plan that a team makes. \param[out] status not null
UploadedPlan team_plan(const Forest& forest, const AttentionShape& shape, const MachineProfile& profile,
                       const PlanCapacity& capacity, const TeamOptions& options, TeamPlanStatus* status);

/// Names the first list that differs, and where; nothing where all are equal.
std::optional<std::string> find_difference(const UploadedPlan& expected, const UploadedPlan& actual);

}  // namespace trunkline::testing
