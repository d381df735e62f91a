#include "exec/cuda/device_planner/device_planner.hpp"

#include <utility>

#include "base/check.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/step/workspace.hpp"
#include "trunkline/cuda.hpp"

namespace trunkline::cuda {

namespace {

/// Returns the tokens of a chunk of policy `invariant`; 0 for `trunk`.
std::int32_t invariant_chunk_of(const CudaPlannerOptions& options) {
  if (options.policy == Policy::kTrunk) return 0;
  if (options.policy != Policy::kInvariant) {
    fail(ErrorCode::kUnsupported, "options.policy is ", name_of(options.policy),
         "; the device plans trunk and invariant");
  }
  if (options.invariant_chunk < 1) {
    fail(ErrorCode::kInvalidArgument, "options.invariant_chunk is ", options.invariant_chunk, "; it must be >= 1");
  }
  return options.invariant_chunk;
}

}  // namespace

DevicePlanner::DevicePlanner(const MachineProfile& profile, const AttentionShape& shape,
                             const CudaPlannerOptions& options)
    : shape_(shape),
      options_(options),
      machine_(make_planner_machine(profile, shape, options.capacity, invariant_chunk_of(options))) {
  check_device(options.device);
  const DeviceScope scope(options.device);
  if (options.rows < 1 || options.rows > kMaxDeviceRows) {
    fail(options.rows < 1 ? ErrorCode::kInvalidArgument : ErrorCode::kUnsupported, "options.rows is ", options.rows,
         "; the device plans 1 to ", kMaxDeviceRows, " rows");
  }
  if (options.growth < 0) fail(ErrorCode::kInvalidArgument, "options.growth is ", options.growth, "; it must be >= 0");
  report_ = std::make_shared<HostReport>();
  memory_bytes_ = lay_out(nullptr).bytes;
  shared_bytes_ = planner_shared_bytes();
}

DevicePlanner::Memory DevicePlanner::lay_out(std::byte* base) const {
  Arena arena(base);
  Memory memory;
  arena.take(memory.machine, 1);
  arena.take(memory.steps, 2);
  arena.take(memory.written, 1);
  memory.phases.lay_out(arena, options_.rows, options_.capacity);
  arena.take(memory.searches, static_cast<std::int64_t>(search_memory_bytes(options_.rows)));
  memory.bytes = arena.bytes();
  return memory;
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
    fail(ErrorCode::kUnsupported,
         "bind() on a stream that is being captured: replays would discard the plan that is kept for reuse");
  }
  stamp_ = owner_.claim(memory, memory_bytes_);
  base_ = static_cast<std::byte*>(memory);
  memory_ = lay_out(base_);
  static constexpr PlannedStep kNothingPlanned;
  check_cuda(cudaMemcpyAsync(memory_.machine, &machine_, sizeof(machine_), cudaMemcpyHostToDevice, stream),
             "copying the machine to the planner's memory");
  check_cuda(cudaMemcpyAsync(memory_.phases.planned.step, &kNothingPlanned, sizeof(kNothingPlanned),
                             cudaMemcpyHostToDevice, stream),
             "clearing the planner's memory");
  check_cuda(cudaMemsetAsync(memory_.steps, 0, 2 * sizeof(std::uint64_t), stream), "clearing the planner's counts");
  check_cuda(cudaMemsetAsync(memory_.written, 0, sizeof(std::uint64_t), stream), "clearing the planner's memory");
}

Plan DevicePlanner::empty_plan() const {
  Plan plan;
  plan.shape = shape_;
  plan.capacity = options_.capacity;
  return plan;
}

void DevicePlanner::check(const DeviceBatch& batch, std::int32_t page_size) const {
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

void DevicePlanner::launch(const DeviceBatch& batch, const PlanLists& lists, PlannerReport* report,
                           const LaunchCounters& counters, cudaStream_t stream) {
  PlannerArgs args;
  args.task = {batch, memory_.machine, memory_.phases, lists, options_.growth};
  args.task.batch.null_page = options_.null_page;
  if (batch.max_queries == 0) args.task.batch.max_queries = options_.capacity.queries;
  args.searches = memory_.searches;
  args.counters = counters;
  args.steps = memory_.steps;
  args.report = report;
  args.host = report_->on_device();
  args.written = memory_.written;
  args.planner = reinterpret_cast<std::uint64_t>(base_);
  args.widths = machine_.invariant_chunk > 0 ? 0 : machine_.width_count;
  args.shared_bytes = shared_bytes_;
  launch_planner(args, stream);
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
