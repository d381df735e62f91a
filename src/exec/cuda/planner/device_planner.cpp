#include "exec/cuda/planner/device_planner.hpp"

#include <utility>

#include "base/check.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/planner/cluster_planner.hpp"
#include "exec/cuda/workspace.hpp"
#include "plan/team/team_memory.hpp"
#include "trunkline/cuda.hpp"

namespace trunkline::cuda {

DevicePlanner::DevicePlanner(const MachineProfile& profile, const AttentionShape& shape,
                             const CudaPlannerOptions& options)
    : shape_(shape),
      options_(options),
      machine_(make_team_machine(profile, shape, options.capacity)),
      clusters_(cuda_device_info(options.device).major == 9) {
  const DeviceScope scope(options.device);
  const std::int32_t most = least(most_plan_rows(), kMaxTeamRows);
  if (options.rows < 1 || options.rows > most) {
    fail(options.rows < 1 ? ErrorCode::kInvalidArgument : ErrorCode::kUnsupported, "options.rows is ", options.rows,
         "; the device plans 1 to ", most, " rows");
  }
  if (options.growth < 0) fail(ErrorCode::kInvalidArgument, "options.growth is ", options.growth, "; it must be >= 0");
  report_ = std::make_shared<HostReport>();
  scratch_bytes_ = forest_scratch_bytes(options.rows);
  memory_bytes_ = lay_out(nullptr).bytes;
}

DevicePlanner::Memory DevicePlanner::lay_out(std::byte* base) const {
  TeamMemory memory(base);
  const std::int64_t rows = options_.rows;
  Memory lists{};
  lists.machine = memory.take<TeamMachine>(1);
  lists.found = memory.take<ForestReport>(1);
  lists.steady = {memory.take<SteadyRow>(rows), memory.take<LastForest>(1), memory.take<std::int32_t>(1),
                  memory.take<SeenRow>(rows), memory.take<ChangedRows>(1)};
  lists.written = memory.take<std::uint64_t>(1);
  lists.forest.nodes = memory.take<ForestNode>(2 * rows);
  lists.forest.order = memory.take<std::int32_t>(rows);
  lists.forest.kv_len = memory.take<std::int32_t>(rows);
  lists.forest.query_begin = memory.take<std::int32_t>(rows + 1);
  lists.forest.node = memory.take<std::int32_t>(rows);
  lists.forest.tokens = memory.take<std::int32_t>(rows);
  lists.forest.shared = memory.take<std::int32_t>(rows);
  lists.steps = memory.take<std::uint64_t>(2);
  std::byte* const scratch = memory.take<std::byte>(static_cast<std::int64_t>(scratch_bytes_));
  lists.scratch = scratch_bytes_ > 0 ? scratch : nullptr;
  const std::size_t before = memory.bytes();
  lists.bytes =
      before + lists.plan.lay_out(base == nullptr ? nullptr : base + before, options_.rows, options_.capacity);
  return lists;
}

void DevicePlanner::bind(void* memory, std::size_t bytes, cudaStream_t stream) {
  if (memory == nullptr || bytes < memory_bytes_) {
    fail(ErrorCode::kWorkspace, "the planner's memory has ", memory == nullptr ? 0 : bytes, " bytes; it needs ",
         memory_bytes_);
  }
  if (reinterpret_cast<std::uintptr_t>(memory) % kWorkspaceAlignment != 0) {
    fail(ErrorCode::kWorkspace, "the planner's memory is at ", memory, "; it must be aligned to ", kWorkspaceAlignment,
         " bytes");
  }
  const DeviceScope scope(options_.device);
  if (is_capturing(stream)) {
    fail(ErrorCode::kUnsupported, "bind() on a stream that is being captured: replays would forget what was planned");
  }
  stamp_ = owner_.claim(memory, memory_bytes_);
  base_ = static_cast<std::byte*>(memory);
  memory_ = lay_out(base_);
  check_cuda(cudaMemcpyAsync(memory_.machine, &machine_, sizeof(machine_), cudaMemcpyHostToDevice, stream),
             "copying the machine to the planner's memory");
  check_cuda(cudaMemsetAsync(memory_.steps, 0, 2 * sizeof(std::uint64_t), stream), "clearing the planner's counts");
  static constexpr LastForest kNone;
  check_cuda(cudaMemcpyAsync(memory_.steady.last, &kNone, sizeof(kNone), cudaMemcpyHostToDevice, stream),
             "clearing the planner's memory");
  check_cuda(
      cudaMemsetAsync(memory_.steady.rows, 0, static_cast<std::size_t>(options_.rows) * sizeof(SteadyRow), stream),
      "clearing the planner's memory");
  check_cuda(cudaMemsetAsync(memory_.steady.changed, 0, sizeof(ChangedRows), stream), "clearing the planner's memory");
  check_cuda(cudaMemsetAsync(memory_.plan.guess, 0, sizeof(TileGuess), stream), "clearing the planner's memory");
  check_cuda(cudaMemsetAsync(memory_.written, 0, sizeof(std::uint64_t), stream), "clearing the planner's memory");
}

Plan DevicePlanner::room() const {
  Plan plan;
  plan.shape = shape_;
  plan.capacity = options_.capacity;
  return plan;
}

void DevicePlanner::check(const TeamBatch& batch, std::int32_t page_size) const {
  const std::int32_t rows = batch.rows;
  if (base_ == nullptr) fail(ErrorCode::kInvalidArgument, "the planner is bound to no memory; call bind() once");
  if (!owner_.holds(base_, stamp_)) {
    fail(ErrorCode::kWorkspace,
         "another planner or executor has planned in the planner's memory since; call bind() again, or give it memory "
         "of "
         "its own");
  }
  if (rows > options_.rows) {
    fail(ErrorCode::kInvalidArgument, "batch.pages has ", rows, " rows; the planner has room for ", options_.rows);
  }
  if (batch.query_start == nullptr && rows > options_.capacity.queries) {
    fail(ErrorCode::kInvalidArgument, "batch.pages has ", rows, " rows, a query token each; the planner has room for ",
         options_.capacity.queries, " queries");
  }
  if (batch.max_queries < 0 || batch.max_queries > options_.capacity.queries) {
    fail(ErrorCode::kInvalidArgument, "batch.queries is ", batch.max_queries, "; supported: 0 to the planner's ",
         options_.capacity.queries);
  }
  if (page_size != shape_.page_size) {
    fail(ErrorCode::kInvalidArgument, "batch.pages has page size ", page_size, "; the planner was made for ",
         shape_.page_size);
  }
}

void DevicePlanner::launch(const TeamBatch& given, const PlanLists& lists, PlanTold* told,
                           const LaunchCounters& counters, cudaStream_t stream) {
  const KeptLists kept{lists.counts, memory_.written, reinterpret_cast<std::uint64_t>(base_)};
  TeamBatch batch = given;
  batch.null_page = options_.null_page;
  if (batch.max_queries == 0) batch.max_queries = options_.capacity.queries;
  TeamForest forest = memory_.forest;
  forest.rows = batch.rows;
  const ForestArgs find{.batch = batch,
                        .forest = forest,
                        .steady = memory_.steady,
                        .kept_lists = kept,
                        .growth = options_.growth,
                        .report = memory_.found,
                        .scratch = memory_.scratch};
  const PlanArgs plan{.forest = forest,
                      .report = memory_.found,
                      .machine = memory_.machine,
                      .memory = memory_.plan,
                      .lists = lists,
                      .kept_lists = kept,
                      .counters = counters,
                      .growth = memory_.steady.growth,
                      .steps = memory_.steps,
                      .told = told,
                      .host = report_->on_device()};
  if (clusters_) {
    check_cuda(launch_cluster(&find, &plan, stream), "launching the kernel that plans");
    return;
  }
  check_cuda(launch_forest(find, false, stream), "launching the kernel that finds the forest");
  check_cuda(launch_plan(plan, false, stream), "launching the kernel that plans");
}

}  // namespace trunkline::cuda

namespace trunkline {

CudaPlanner::CudaPlanner(const MachineProfile& profile, const AttentionShape& shape, const CudaPlannerOptions& options)
    : planner_(std::make_unique<cuda::DevicePlanner>(profile, shape, options)) {}
CudaPlanner::~CudaPlanner() = default;
CudaPlanner::CudaPlanner(CudaPlanner&&) noexcept = default;
CudaPlanner& CudaPlanner::operator=(CudaPlanner&&) noexcept = default;

std::size_t CudaPlanner::memory_bytes() const {
  return planner_->memory_bytes();
}
void CudaPlanner::bind(void* memory, std::size_t bytes, void* stream) {
  planner_->bind(memory, bytes, static_cast<cudaStream_t>(stream));
}
const AttentionShape& CudaPlanner::shape() const {
  return planner_->shape();
}
const CudaPlannerOptions& CudaPlanner::options() const {
  return planner_->options();
}
CudaPlanReport CudaPlanner::report() const {
  return planner_->report();
}

}  // namespace trunkline
