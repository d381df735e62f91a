#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/check.hpp"
#include "exec/check_args.hpp"
#include "exec/cuda/device.hpp"
#include "exec/cuda/device_planner/device_planner.hpp"
#include "exec/cuda/kernels/any/check_pages.hpp"
#include "exec/cuda/kernels/any/merge.hpp"
#include "exec/cuda/kernels/any/resolve.hpp"
#include "exec/cuda/kernels/kernel_families.hpp"
#include "exec/cuda/kernels/sm90/single_query/launch.hpp"
#include "exec/cuda/step/layer.hpp"
#include "exec/cuda/step/records.hpp"
#include "exec/cuda/step/side_streams.hpp"
#include "exec/cuda/step/staging.hpp"
#include "exec/cuda/step/upload.hpp"
#include "exec/cuda/step/workspace.hpp"
#include "exec/live_rows.hpp"
#include "forest/batch_check.hpp"
#include "plan/policies/policy_table.hpp"
#include "trunkline/cuda.hpp"
#include "trunkline/cuda_planner.hpp"
#include "trunkline/experimental.hpp"

namespace trunkline {
namespace {

using cuda::check_cuda;
using cuda::WorkspaceRecord;

cuda::DevicePages device_pages(const PageTable& pages) {
  return std::visit(
      [&](auto ids) {
        return cuda::DevicePages{ids.data(), sizeof(ids[0]) == sizeof(std::int64_t) ? 1 : 0, pages.page_size()};
      },
      pages.ids());
}

cuda::DeviceRows device_rows(const PageTable& pages) {
  const std::size_t entries = std::visit([](auto ids) { return ids.size(); }, pages.ids());
  return {pages.indptr(), pages.row_map(), pages.width(), static_cast<std::int64_t>(entries), pages.page_size()};
}

DeviceBatch device_batch(const CudaBatch& batch) {
  const cuda::DevicePages pages = device_pages(batch.pages);
  const cuda::DeviceRows rows = device_rows(batch.pages);
  return {
      .table = {pages.ids, rows.indptr, rows.row_map, rows.width, rows.entries, rows.page_size, pages.wide_ids != 0},
      .kv_lens = batch.kv_lens,
      .query_start = batch.query_start,
      .query_parents = batch.query_parents,
      .rows = batch.pages.rows(),
      .max_queries = batch.queries};
}

using experimental::CudaTaskTime;
using experimental::ForwardMode;

void check_times(const CudaTaskTime* times, std::size_t count, std::size_t tasks) {
  if (times == nullptr || count >= tasks) return;
  fail(ErrorCode::kWorkspace, "record_tasks() was given ", count, " records; the plan has ", tasks,
       " tasks: its items times its KV heads");
}

bool check_asked_for() {
  const char* const text = std::getenv("TRUNKLINE_CHECK");
  return text != nullptr && std::string_view(text) == "1";
}

}  // namespace

struct CudaExecutor::State {
  CudaOptions options;
  experimental::CudaStudy study;
  std::int32_t sms = 0;
  std::int32_t major = 0;
  cuda::Staging staging;
  cuda::SideStreams side_streams;
  std::vector<std::int32_t> slot_table;
  cuda::WorkspaceRecords records;

  cuda::LaunchLimits limits() const {
    return {sms, study.shared_bytes > 0 ? study.shared_bytes : std::numeric_limits<std::size_t>::max()};
  }
  bool fused() const { return study.merge == MergeMode::kFused; }
  cuda::single_query::Division single_query_division(const AttentionShape& shape) const;
  bool runs_single_query(const WorkspaceRecord& record, std::int64_t max_queries) const;
  std::size_t single_query_scratch(const AttentionShape& shape) const;
  void forward_single_query(const WorkspaceRecord& record, const cuda::LayerArgs& layer, cudaStream_t stream) const;
  void forward(const WorkspaceRecord& record, const cuda::LayerArgs& layer, cudaStream_t stream, bool capturing);
  void forward_by_tile(const WorkspaceRecord& record, cuda::ForwardArgs args, cudaStream_t stream, bool capturing);
  cuda::LaunchCounters counters_of(const WorkspaceRecord& record) const;
  void check_pages(const WorkspaceRecord& record, const CudaBatch& batch, cudaStream_t stream, bool capturing) const;
};

void CudaExecutor::State::forward(const WorkspaceRecord& record, const cuda::LayerArgs& layer, cudaStream_t stream,
                                  bool capturing) {
  auto* queue = reinterpret_cast<cuda::QueueCounters*>(record.base + record.layout.queues);
  cuda::ForwardArgs args{};
  static_cast<cuda::StepArgs&>(args) = cuda::step_args(record.base, record.layout, record.pages);
  args.layer = layer;
  args.partials = cuda::device_partials(record.base, record.layout);
  args.next_task = &queue->next_task;
  args.done = &queue->done;
  args.places = static_cast<std::int32_t>(record.capacities.items);
  args.nan_tasks = reinterpret_cast<std::int32_t*>(record.base + record.layout.nan_tasks);
  args.arrived = fused() ? reinterpret_cast<std::int32_t*>(record.base + record.layout.arrived) : nullptr;
  args.times = record.times;
  if (study.forward != ForwardMode::kPersistent) return forward_by_tile(record, args, stream, capturing);
  check_cuda(record.family->launch(args, cuda::kernel_shape_of(record.shape), limits(), stream),
             "launching the forward kernel");
}

// A captured graph has a launch for every tile, as the plan of a replay may use any tile.
void CudaExecutor::State::forward_by_tile(const WorkspaceRecord& record, cuda::ForwardArgs args, cudaStream_t stream,
                                          bool capturing) {
  const std::vector<TileShape> shapes = record.family->tiles(record.shape.head_dim_qk);
  auto* queues = reinterpret_cast<cuda::QueueCounters*>(record.base + record.layout.queues);
  const bool on_streams = study.forward == ForwardMode::kStreams;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (!capturing && (record.tiles >> i & 1) == 0) continue;
    const cudaStream_t on = on_streams ? side_streams.fork(i, stream) : stream;
    args.next_task = &queues[i].next_task;
    args.done = &queues[i].done;
    args.tile_m = shapes[i].m;
    args.tile_n = shapes[i].n;
    check_cuda(record.family->launch(args, cuda::kernel_shape_of(record.shape), limits(), on),
               "launching the forward kernel of one tile");
  }
  for (std::size_t i = 0; on_streams && i < shapes.size(); ++i) {
    if (capturing || (record.tiles >> i & 1) != 0) side_streams.join(i, stream);
  }
}

// Returns the grid of the single-query kernel; its `blocks` is 0 if another kernel must run.
cuda::single_query::Division CudaExecutor::State::single_query_division(const AttentionShape& shape) const {
  const bool free = options.kernels == CudaKernels::kAuto && study.forward == ForwardMode::kPersistent && !fused();
  return free ? cuda::single_query::divide(shape, sms) : cuda::single_query::Division{};
}

// Only the forward kernels give invariant results and times of tasks. If the workspace has no capacity for a query, the
// single-query kernel may not read one.
bool CudaExecutor::State::runs_single_query(const WorkspaceRecord& record, std::int64_t max_queries) const {
  const bool single_query = max_queries <= 1 && record.capacities.item_queries > 0;
  return single_query && !record.invariant && record.times == nullptr && single_query_division(record.shape).blocks > 0;
}

std::size_t CudaExecutor::State::single_query_scratch(const AttentionShape& shape) const {
  return cuda::single_query::scratch_bytes(shape, single_query_division(shape));
}

void CudaExecutor::State::forward_single_query(const WorkspaceRecord& record, const cuda::LayerArgs& layer,
                                               cudaStream_t stream) const {
  const cuda::single_query::Division division = single_query_division(record.shape);
  auto* const arrived = reinterpret_cast<std::int32_t*>(record.base + record.layout.cluster_arrivals);
  const cuda::StepArgs step = cuda::step_args(record.base, record.layout, record.pages);
  const cuda::single_query::SingleQueryArgs args{
      .counts = step.plan.counts,
      .row = step.step.rows,
      .ids_begin = reinterpret_cast<const std::int64_t*>(record.base + record.layout.step_first_ids),
      .pages = record.pages,
      .pages_step = cuda::single_query::kTokensOn / record.pages.page_size,
      .page_offset_step = cuda::single_query::kTokensOn % record.pages.page_size,
      .layer = layer,
      .scratch = cuda::single_query::scratch_at(record.base + record.layout.single_query_scratch, record.shape,
                                                division, arrived),
      .clusters = division.clusters};
  check_cuda(cuda::single_query::launch(args, record.shape.q_dtype, division, stream),
             "launching the kernel of a single query");
}

cuda::LaunchCounters CudaExecutor::State::counters_of(const WorkspaceRecord& record) const {
  const std::size_t bytes = record.layout.counts - record.layout.queues;
  cuda::LaunchCounters counters{.queues = reinterpret_cast<std::int32_t*>(record.base + record.layout.queues),
                                .queue_words = static_cast<std::int32_t>(bytes / sizeof(std::int32_t))};
  if (fused()) {
    counters.arrived = reinterpret_cast<std::int32_t*>(record.base + record.layout.arrived);
    counters.arrived_words = static_cast<std::int32_t>(record.capacities.merge_queries) * record.shape.kv_heads;
  }
  return counters;
}

void CudaExecutor::State::check_pages(const WorkspaceRecord& record, const CudaBatch& batch, cudaStream_t stream,
                                      bool capturing) const {
  if (capturing) {
    fail(ErrorCode::kUnsupported,
         "resolve() with check_pages on a stream that is being captured: it waits for its kernel; capture without "
         "check_pages (and without TRUNKLINE_CHECK=1)");
  }
  if (record.rows == 0) return;
  cuda::check_pages({device_rows(batch.pages), device_pages(batch.pages), batch.kv_lens, record.rows, batch.num_pages,
                     reinterpret_cast<std::uint64_t*>(record.base + record.layout.first_fault)},
                    stream);
}

CudaExecutor::CudaExecutor(CudaOptions options) : state_(std::make_unique<State>()) {
  const CudaDeviceInfo info = cuda_device_info(options.device);
  if (info.major < cuda::kMinMajor) {
    fail(ErrorCode::kUnsupported, "device ", options.device, " (", info.name, ") has compute capability ", info.major,
         ".", info.minor, "; supported: ", cuda::kMinMajor, ".0 and newer");
  }
  state_->options = options;
  if (options.study != nullptr) state_->study = *options.study;
  state_->options.check_pages = options.check_pages || check_asked_for();
  state_->sms = info.sms;
  state_->major = info.major;
  std::size_t max_tiles = 0;
  for (const cuda::KernelFamily& family : cuda::kernel_families()) {
    for (const std::int32_t head_dim : {64, 128, 256}) {
      max_tiles = std::max(max_tiles, family.tiles(head_dim).size());
    }
  }
  if (max_tiles > static_cast<std::size_t>(cuda::kMaxQueues)) {
    fail(ErrorCode::kInternal, max_tiles, " tiles are compiled; the workspace has ", cuda::kMaxQueues, " queues");
  }
  const cuda::DeviceScope scope(options.device);
  if (state_->study.forward == ForwardMode::kStreams) state_->side_streams.create(max_tiles);
}

CudaExecutor::~CudaExecutor() = default;
CudaExecutor::CudaExecutor(CudaExecutor&&) noexcept = default;
CudaExecutor& CudaExecutor::operator=(CudaExecutor&&) noexcept = default;

Support CudaExecutor::supports(const AttentionShape& shape) const {
  if (shape.device != Device::kCuda) {
    return {false, concat("shape.device is ", name_of(shape.device), "; this executor runs plans for cuda")};
  }
  const Support support = trunkline::supports(shape);
  return support ? cuda::supports_family(state_->options.kernels, state_->major, shape) : support;
}

std::size_t CudaExecutor::workspace_bytes(const CudaPlanner& planner) const {
  return workspace_bytes(planner.planner_->empty_plan());
}

std::size_t CudaExecutor::workspace_bytes(const Plan& plan) const {
  const cuda::KernelFamily* family =
      cuda::find_family(state_->options.kernels, state_->major, cuda::kernel_shape_of(plan.shape));
  const cuda::DeviceScope scope(state_->options.device);
  return cuda::lay_out(capacities_for(plan), plan.shape, state_->study.merge,
                       {family == nullptr ? 0 : family->prologue_bytes(), state_->single_query_scratch(plan.shape)})
      .bytes;
}

void CudaExecutor::upload(const Plan& plan, const Batch& batch, void* workspace, std::size_t bytes, void* stream) {
  const Support support = supports(plan.shape);
  if (!support) fail(ErrorCode::kUnsupported, support.reason);
  const auto on = static_cast<cudaStream_t>(stream);
  const cuda::DeviceScope scope(state_->options.device);
  if (cuda::is_capturing(on)) {
    fail(ErrorCode::kUnsupported,
         "upload() on a stream that is being captured; capture resolve() and run() alone: "
         "replays take what was uploaded last");
  }
  const cuda::KernelFamily& family = cuda::family_for(state_->options.kernels, state_->major, plan.shape);
  const std::vector<TileShape> tiles = family.tiles(plan.shape.head_dim_qk);
  WorkspaceRecord record = state_->records.next(plan, sizes_of(plan), family, state_->study.merge,
                                                state_->single_query_scratch(plan.shape), workspace, bytes);
  record.bytes = bytes;
  record.invariant = plan.invariant_chunk > 0;
  if (record.invariant && record.captured_single_query) {
    fail(
        ErrorCode::kWorkspace,
        "the plan is of policy invariant; a captured graph runs this workspace's single queries with a kernel of other "
        "bits; capture with another plan's kernels (CudaOptions::kernels), or release() it when the graph is gone");
  }
  record.tiles = cuda::used_tiles(plan, tiles, family.half_rows);
  record.counts = tensor_counts(batch);
  record.rows = batch.rows();
  record.tasks = plan.items.size() * static_cast<std::size_t>(plan.shape.kv_heads);
  record.resolved = false;
  check_times(record.times, record.times_count, record.tasks);

  state_->records.claim(record);
  const std::size_t copied = cuda::upload_bytes(plan, record.layout);
  std::byte* const staging = state_->staging.acquire(copied);
  state_->slot_table.resize(std::max(state_->slot_table.size(), slot_table_size(batch.rows())));
  const std::span<std::int32_t> slot_table(state_->slot_table.data(), slot_table_size(batch.rows()));
  cuda::write_upload(plan, batch, tiles, record.layout, state_->study.merge, slot_table, staging);
  state_->staging.copy_to(workspace, copied, on);
  if (state_->fused() && !plan.merge_queries.empty()) {
    const std::size_t counters = plan.merge_queries.size() * static_cast<std::size_t>(plan.shape.kv_heads);
    check_cuda(cudaMemsetAsync(record.base + record.layout.arrived, 0, counters * sizeof(std::int32_t), on),
               "clearing the merge counters");
  }
  state_->records.keep(record);
}

void CudaExecutor::plan(CudaPlanner& planner, const CudaBatch& batch, void* workspace, std::size_t bytes,
                        void* stream) {
  cuda::DevicePlanner& on_device = *planner.planner_;
  const AttentionShape& shape = on_device.shape();
  const Support support = supports(shape);
  if (!support) fail(ErrorCode::kUnsupported, support.reason);
  if (on_device.options().device != state_->options.device) {
    fail(ErrorCode::kInvalidArgument, "the planner is of device ", on_device.options().device, "; the executor is of ",
         state_->options.device);
  }
  check_null_page("the planner's null_page", on_device.options().null_page, batch.num_pages);
  on_device.check(device_batch(batch), batch.pages.page_size());
  if (batch.kv_lens == nullptr && batch.pages.rows() > 0) fail(ErrorCode::kInvalidArgument, "batch.kv_lens is null");
  const auto on = static_cast<cudaStream_t>(stream);
  const cuda::DeviceScope scope(state_->options.device);
  const cuda::KernelFamily& family = cuda::family_for(state_->options.kernels, state_->major, shape);
  const Plan empty = on_device.empty_plan();
  WorkspaceRecord record = state_->records.next(empty, capacities_for(empty), family, state_->study.merge,
                                                state_->single_query_scratch(shape), workspace, bytes);
  record.bytes = bytes;
  record.invariant = is_batch_invariant(on_device.options().policy);
  record.tiles = (std::uint32_t{1} << family.tiles(shape.head_dim_qk).size()) - 1;
  const std::int32_t max_queries = batch.queries > 0 ? batch.queries : empty.capacity.queries;
  const std::int64_t queries = batch.query_start != nullptr ? max_queries : batch.pages.rows();
  record.counts = {queries, batch.num_pages};
  record.rows = batch.pages.rows();
  record.tasks = static_cast<std::size_t>(empty.capacity.items) * static_cast<std::size_t>(shape.kv_heads);
  record.resolved = false;
  check_times(record.times, record.times_count, record.tasks);
  state_->records.claim(record);
  on_device.launch(device_batch(batch), cuda::plan_lists(record.base, record.layout, state_->study.merge),
                   reinterpret_cast<cuda::PlannerReport*>(record.base + record.layout.report),
                   state_->counters_of(record), on);
  if (std::ranges::find(record.reports, on_device.host_report()) == record.reports.end()) {
    record.reports.push_back(on_device.host_report());
  }
  record.captured = record.captured || cuda::is_capturing(on);
  state_->records.keep(record);
}

void CudaExecutor::resolve(const CudaBatch& batch, void* workspace, void* stream) {
  WorkspaceRecord& record = state_->records.uploaded(workspace);
  if (batch.pages.page_size() != record.shape.page_size) {
    fail(ErrorCode::kInvalidArgument, "batch.pages has page size ", batch.pages.page_size(), "; the plan was made for ",
         record.shape.page_size);
  }
  if (batch.pages.rows() != record.rows) {
    fail(ErrorCode::kInvalidArgument, "batch.pages has ", batch.pages.rows(), " rows; the uploaded batch had ",
         record.rows);
  }
  if (batch.kv_lens == nullptr && record.rows > 0) fail(ErrorCode::kInvalidArgument, "batch.kv_lens is null");
  const auto on = static_cast<cudaStream_t>(stream);
  const cuda::DeviceScope scope(state_->options.device);
  const bool capturing = cuda::is_capturing(on);
  if (state_->options.check_pages) state_->check_pages(record, batch, on, capturing);
  record.captured = record.captured || capturing;
  record.pages = device_pages(batch.pages);
  const cuda::StepArgs step = cuda::step_args(record.base, record.layout, record.pages);
  const cuda::ResolveArgs args{
      step.plan,     reinterpret_cast<const cuda::PlannerReport*>(record.base + record.layout.report),
      step.step,     device_rows(batch.pages),
      batch.kv_lens, reinterpret_cast<std::int64_t*>(record.base + record.layout.step_first_ids)};
  check_cuda(
      cuda::launch_resolve(
          args, std::max({record.capacities.item_queries, record.capacities.items, record.capacities.spans}), on),
      "launching the resolve kernel");
  check_cuda(record.family->write_prologues(step, record.shape.group_size(), record.capacities.items, on),
             "launching the kernel that writes task prologues");
  record.resolved = true;
}

void CudaExecutor::run(const AttentionArgs& given, void* workspace, void* stream) {
  WorkspaceRecord& record = state_->records.uploaded(workspace);
  if (!record.resolved) {
    fail(ErrorCode::kWorkspace, "workspace was not resolved; call resolve() once per step, after upload()");
  }
  const auto on = static_cast<cudaStream_t>(stream);
  const cuda::DeviceScope scope(state_->options.device);
  const bool capturing = cuda::is_capturing(on);
  TensorCounts counts = record.counts;
  // A graph that is captured with an empty batch may replay with another.
  if (capturing) counts.queries = std::max<std::int64_t>(counts.queries, 1);
  const AttentionArgs args = check_args(given, record.shape, counts, {record.base, record.bytes});
  if (counts.queries == 0) return;
  const cuda::LayerArgs layer = cuda::layer_args(args, record.shape);
  record.captured = record.captured || capturing;
  const std::int64_t max_queries =
      args.max_queries > 0 ? args.max_queries : static_cast<std::int64_t>(record.capacities.queries);
  if (state_->runs_single_query(record, capturing ? max_queries : counts.queries)) {
    record.captured_single_query = record.captured_single_query || capturing;
    return state_->forward_single_query(record, layer, on);
  }
  state_->forward(record, layer, on, capturing);
  if (state_->fused() || record.capacities.partials == 0) return;
  const bool early_merge = state_->study.forward == ForwardMode::kPersistent;
  const cuda::MergeArgs merge{cuda::step_args(record.base, record.layout, record.pages).plan, layer,
                              cuda::device_partials(record.base, record.layout)};
  check_cuda(cuda::launch_merge(merge, record.shape.q_dtype, record.shape.head_dim_v, record.capacities.merge_queries,
                                state_->sms, early_merge, on),
             "launching the merge kernel");
}

bool CudaExecutor::runs_single_query(const void* workspace) const {
  const WorkspaceRecord& record = state_->records.uploaded(workspace);
  const cuda::DeviceScope scope(state_->options.device);
  return state_->runs_single_query(record, record.counts.queries);
}

void CudaExecutor::release(void* workspace) {
  state_->records.remove(workspace);
}

void experimental::record_tasks(CudaExecutor& executor, void* workspace, CudaTaskTime* times, std::size_t count) {
  WorkspaceRecord& record = executor.state_->records.uploaded(workspace);
  check_times(times, count, record.tasks);
  record.times = times;
  record.times_count = count;
}

}  // namespace trunkline
