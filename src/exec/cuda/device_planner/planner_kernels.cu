// The kernels of planning on a device, one for each phase of plan/device/planner_phases.hpp.
//
// Problem. Make the plan of policy `trunk` or `invariant` for page tables and lengths on the device, equal to the
// host's plan bit for bit, or find that the last plan can be reused.
//
// Bound: latency. A phase of one thread group takes some hundred steps of 0.3 to 1 us. Bytes: the first kernel reads
// the page ids of each row and of its parent row; all others read some 200 bytes a row and 40 bytes a KV segment, from
// L2 or shared memory.
//
// Schedule. Each phase is a plain launch: the end of a kernel publishes its results to the next. A phase of one thread
// group is a block of 512 threads. If the plan is reused, the kernels after the second return at once.
#include "exec/cuda/device_planner/planner_kernels.hpp"

#include "exec/cuda/device.hpp"
#include "exec/cuda/device_planner/block_group.cuh"
#include "plan/device/planner_phases.hpp"

namespace trunkline::cuda {
namespace {

constexpr std::int32_t kRowThreads = 128;    // compare a row: 16 bytes each are a row of 512 pages
constexpr std::int32_t kPhaseThreads = 512;  // run a phase of one block; more would have too few registers
constexpr std::int32_t kListThreads = 256;   // list a tile; more would have too few registers
constexpr std::int32_t kWriteThreads = 512;  // write a pack
constexpr std::int32_t kMaxBlocks = 528;     // maximum for kernels whose blocks loop over tiles or packs

template <std::int32_t kThreads>
struct GroupMemory {
  alignas(16) std::byte bytes[BlockGroup<kThreads>::kScratchBytes];
};

/// Returns dynamic shared memory if the launch has some, else `elsewhere`, in device memory.
__device__ std::byte* phase_memory(std::byte* elsewhere) {
  extern __shared__ __align__(16) std::byte shared[];
  std::uint32_t bytes;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  return bytes > 0 ? shared : elsewhere;
}

__global__ void __launch_bounds__(kRowThreads) compare_rows_kernel(const __grid_constant__ PlannerArgs args) {
  __shared__ GroupMemory<kRowThreads> memory;
  BlockGroup<kRowThreads> group(memory.bytes);
  PlannerPhases(args.task).compare_row(group, static_cast<std::int32_t>(blockIdx.x));
}

__global__ void __launch_bounds__(kPhaseThreads, 1) find_forest_kernel(const __grid_constant__ PlannerArgs args) {
  __shared__ GroupMemory<kPhaseThreads> memory;
  BlockGroup<kPhaseThreads> group(memory.bytes);
  const PlannerTask& task = args.task;
  ForestScratch scratch = task.memory.search;
  if (std::byte* const shared = phase_memory(nullptr)) {
    Arena arena(shared);
    scratch.lay_out(arena, task.batch.rows);
  }
  const ListCounts& counts = *task.lists.counts;
  const bool ours = *args.written == reinterpret_cast<std::uint64_t>(&counts) && counts.planner == args.planner;
  PlannerPhases(task).find_forest(group, ours, scratch);
  group.once([&] {
    if (task.memory.step->reused == 0) return;
    args.report->report.reused = ++args.steps[1];
  });
}

template <bool kEarly>
__global__ void __launch_bounds__(kPhaseThreads, 1) try_tiles_kernel(const __grid_constant__ PlannerArgs args) {
  if (args.task.memory.step->reused != 0) return;
  __shared__ GroupMemory<kPhaseThreads> memory;
  BlockGroup<kPhaseThreads> group(memory.bytes);
  TileSearch::Scratch scratch;
  Arena arena(phase_memory(args.searches + blockIdx.x * args.search_bytes));
  scratch.lay_out(arena, args.task.batch.rows);
  const PlannerPhases phases(args.task);
  const auto number = static_cast<std::int32_t>(blockIdx.x);
  if constexpr (kEarly) {
    phases.try_early(group, number, scratch);
  } else {
    phases.try_full(group, number, scratch);
  }
}

__global__ void __launch_bounds__(kListThreads, 2) list_tiles_kernel(const __grid_constant__ PlannerArgs args) {
  if (args.task.memory.step->reused != 0) return;
  __shared__ GroupMemory<kListThreads> memory;
  __shared__ TileSegment segments[TileScratch::kCapacity];
  __shared__ std::int32_t by_place[kSegmentLists * TileScratch::kCapacity];
  BlockGroup<kListThreads> group(memory.bytes);
  const PlannerPhases phases(args.task);
  const std::int32_t tiles = phases.tile_count();
  for (auto tile = static_cast<std::int32_t>(blockIdx.x); tile < tiles; tile += static_cast<std::int32_t>(gridDim.x)) {
    phases.list_tile(group, tile, {segments, by_place});
  }
}

/// Fills the report. Called by one thread.
__device__ void write_report(const PlannerArgs& args) {
  const PlanSummary& plan = *args.task.memory.layout.summary;
  const BatchFaults& faults = args.task.memory.step->faults;
  CudaPlanReport& report = args.report->report;
  report.planned = ++args.steps[0];
  report.reused = args.steps[1];
  report.kv_tokens_total = plan.total_tokens;
  report.kv_tokens_distinct = plan.distinct_tokens;
  report.kv_tokens_read = plan.read_tokens;
  report.items = plan.items;
  report.spans = plan.spans;
  report.partials = plan.partials;
  report.fallbacks = plan.fallbacks;
  report.unplanned = plan.unplanned;
  report.bad_lengths = faults.lengths;
  report.first_bad_length = faults.first_length;
  report.bad_length = faults.length;
  report.bad_queries = faults.queries;
  report.first_bad_queries = faults.first_queries;
  report.bad_query_start = faults.query_start;
  args.report->host = args.host;
}

__global__ void __launch_bounds__(kPhaseThreads, 1) lay_out_kernel(const __grid_constant__ PlannerArgs args) {
  if (args.task.memory.step->reused != 0) return;
  __shared__ GroupMemory<kPhaseThreads> memory;
  BlockGroup<kPhaseThreads> group(memory.bytes);
  const PlannerTask& task = args.task;
  CutSearch::Scratch scratch = task.memory.layout.cuts;
  if (std::byte* const shared = phase_memory(nullptr)) {
    Arena arena(shared);
    scratch.lay_out(arena);
  }
  PlannerPhases(task).lay_out(group, scratch);
  group.once([&] {
    task.lists.counts->planner = args.planner;
    *args.written = reinterpret_cast<std::uint64_t>(task.lists.counts);
    write_report(args);
  });
}

__device__ void clear(std::int32_t* words, std::int32_t count) {
  const auto stride = static_cast<std::int32_t>(gridDim.x * kWriteThreads);
  for (auto i = static_cast<std::int32_t>(blockIdx.x * kWriteThreads + threadIdx.x); i < count; i += stride) {
    words[i] = 0;
  }
}

__global__ void __launch_bounds__(kWriteThreads, 1) write_kernel(const __grid_constant__ PlannerArgs args) {
  if (args.task.memory.step->reused != 0) return;
  __shared__ GroupMemory<kWriteThreads> memory;
  BlockGroup<kWriteThreads> group(memory.bytes);
  const PlannerPhases phases(args.task);
  const auto block = static_cast<std::int32_t>(blockIdx.x);
  const auto blocks = static_cast<std::int32_t>(gridDim.x);
  clear(args.counters.queues, args.counters.queue_words);
  clear(args.counters.arrived, args.counters.arrived_words);
  const std::int32_t rows = args.task.batch.rows;
  const std::int32_t each = ceil_div(rows, blocks);
  const std::int32_t first = min(block * each, rows);
  phases.write_queries(group, {first, min(first + each, rows)});
  const std::int32_t packs = phases.pack_count();
  for (std::int32_t pack = block; pack < packs; pack += blocks) phases.write_pack(group, pack);
}

template <class LayOut>
std::size_t bytes_of(LayOut lay_out) {
  Arena arena(nullptr);
  lay_out(arena);
  return arena.bytes();
}

std::size_t search_bytes(std::int32_t rows) {
  TileSearch::Scratch scratch;
  return bytes_of([&](Arena& arena) { scratch.lay_out(arena, rows); });
}

struct Launch {
  const void* kernel;
  std::int32_t blocks;
  std::int32_t threads;
  std::size_t shared_bytes = 0;
};

void launch(const Launch& launch, const PlannerArgs& args, cudaStream_t stream) {
  if (launch.blocks == 0) return;
  void* parameters[] = {const_cast<PlannerArgs*>(&args)};
  check_cuda(cudaLaunchKernel(launch.kernel, dim3(static_cast<unsigned>(launch.blocks)),
                              dim3(static_cast<unsigned>(launch.threads)), parameters, launch.shared_bytes, stream),
             "launching a kernel that plans");
}

template <class... Args>
const void* address_of(void (*kernel)(Args...)) {
  return reinterpret_cast<const void*>(kernel);
}

}  // namespace

std::size_t search_memory_bytes(std::int32_t rows) {
  return search_bytes(rows) * static_cast<std::size_t>(max(PlannerMachine::kMaxHeights, TrunkCore::kEarlyTries));
}

std::size_t planner_shared_bytes() {
  int device = 0;
  int limit = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "cudaDeviceGetAttribute");
  const std::size_t bytes = static_cast<std::size_t>(limit) - sizeof(GroupMemory<kPhaseThreads>);
  for (const void* const kernel : {address_of(find_forest_kernel), address_of(try_tiles_kernel<false>),
                                   address_of(try_tiles_kernel<true>), address_of(lay_out_kernel)}) {
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
               "cudaFuncSetAttribute of a planning kernel");
  }
  return bytes;
}

void launch_planner(const PlannerArgs& given, cudaStream_t stream) {
  PlannerArgs args = given;
  const std::int32_t rows = args.task.batch.rows;
  args.search_bytes = search_bytes(max(rows, 1));
  ForestScratch forest;
  const std::size_t forest_bytes = bytes_of([&](Arena& arena) { forest.lay_out(arena, max(rows, 1)); });
  CutSearch::Scratch cuts;
  const std::size_t cut_bytes = bytes_of([&](Arena& arena) { cuts.lay_out(arena); });
  // A kernel whose scratch exceeds shared memory uses device memory instead.
  const auto shared = [&](std::size_t bytes) { return bytes <= args.shared_bytes ? bytes : 0; };
  const std::int32_t blocks = min(max(rows, 1), kMaxBlocks);
  const std::int32_t early = args.widths > 0 ? TrunkCore::kEarlyTries : 0;
  const Launch launches[] = {
      {address_of(compare_rows_kernel), rows, kRowThreads},
      {address_of(find_forest_kernel), 1, kPhaseThreads, shared(forest_bytes)},
      {address_of(try_tiles_kernel<false>), args.widths, kPhaseThreads, shared(args.search_bytes)},
      {address_of(try_tiles_kernel<true>), early, kPhaseThreads, shared(args.search_bytes)},
      {address_of(list_tiles_kernel), args.widths > 0 ? blocks : 0, kListThreads},
      {address_of(lay_out_kernel), 1, kPhaseThreads, shared(cut_bytes)},
      {address_of(write_kernel), blocks, kWriteThreads}};
  for (const Launch& each : launches) launch(each, args, stream);
}

}  // namespace trunkline::cuda
