// Compares pages of rows with those of the rows that owned what they shared, by up to LookShare::kMostBlocks blocks:
// for R rows that share P pages of 4 bytes 8 R P bytes, mostly from L2, of which a row's owner's come from L1 where
// neighbours have one owner. A row is looked at by as many warps as its block has for each of its rows: all sixteen
// where there is a block for each row. 16 warps of up to 90 registers; 128 bytes of shared memory.
#include "exec/cuda/planner/look_kernel.hpp"

#include "exec/cuda/common/ptx.cuh"
#include "exec/cuda/planner/team_launch.hpp"
#include "exec/cuda/planner/team_operations.cuh"
#include "plan/team/row_look.hpp"
#include "plan/team/team.hpp"

namespace trunkline::cuda {
namespace {

constexpr std::int32_t kLogWarps = 4;
constexpr std::int32_t kWarps = 1 << kLogWarps;
// With so much shared memory a block has a multiprocessor to itself.
constexpr std::size_t kAlone = 120 * 1024;

struct LookArgs {
  TeamBatch batch;
  SteadyRows steady;
  std::int32_t rows_each;    ///< LookShare's
  std::int32_t log_at_once;  ///< rows that a block looks at together
};

/// A block's rows. \return whether one that this warp concludes is not as planned
template <class Look>
__device__ bool look_at(const LookArgs& args, const Range& rows, std::int32_t (&partings)[2][kWarps]) {
  const Look look(args.batch, args.steady);
  const WarpLanes lanes;
  const auto warp = static_cast<std::int32_t>(threadIdx.x / 32);
  const std::int32_t log_parts = kLogWarps - args.log_at_once;
  const std::int32_t place = warp >> log_parts;
  const std::int32_t part = warp - (place << log_parts);
  bool changed = false;
  std::int32_t turn = 0;
#pragma unroll 1
  for (std::int32_t base = rows.begin; base < rows.end; base += 1 << args.log_at_once) {
    std::int32_t* const parting = partings[turn++ % 2];  // some warp may still be reading the last ones
    if (threadIdx.x < kWarps) parting[threadIdx.x] = look.kNone;
    __syncthreads();
    const std::int32_t row = base + place;
    const bool here = row < rows.end;
    typename Look::Row read;
    if (here) {
      read = look.read(row);
      const std::int32_t found = look.first_parting_in(lanes, read, part, log_parts);
      if (found != look.kNone && lanes.index() == 0) atomicMin(&parting[place], found);
    }
    __syncthreads();
    if (here && part == 0 && lanes.index() == 0) {
      changed = !look.conclude(read, parting[place], args.steady.seen[row]) || changed;
    }
  }
  return changed;
}

template <class Look>
__global__ void __launch_bounds__(kWarps * 32, 1) look_kernel(const __grid_constant__ LookArgs args) {
  __shared__ std::int32_t partings[2][kWarps];
  let_next_kernel_come();  // this one waited for all before it, so that the next may read what those wrote
  const auto block = static_cast<std::int32_t>(blockIdx.x);
  const auto blocks = static_cast<std::int32_t>(gridDim.x);
  const Range rows{block * args.rows_each, least((block + 1) * args.rows_each, args.batch.rows)};
  const bool changed = look_at<Look>(args, rows, partings);
  const int any = __syncthreads_or(changed ? 1 : 0);
  // Those of blocks that there are none of, too.
  const std::int32_t place = block + static_cast<std::int32_t>(threadIdx.x) * blocks;
  if (place < LookShare::kMostBlocks) args.steady.changed->of_block[place] = place == block && any != 0 ? 1 : 0;
}

template <class Id>
const void* kernel_for(const TeamBatch& batch) {
  return WholeRows<Id>::are_of(batch) ? reinterpret_cast<const void*>(&look_kernel<RowLook<Id, WholeRows<Id>>>)
                                      : reinterpret_cast<const void*>(&look_kernel<RowLook<Id, AnyRows<Id>>>);
}

}  // namespace

cudaError_t launch_look(const TeamBatch& batch, const SteadyRows& steady, std::int32_t most_blocks,
                        cudaStream_t stream) {
  LookArgs args{batch, steady, LookShare::rows_each(batch.rows), 0};
  while (1 << args.log_at_once < args.rows_each && args.log_at_once < kLogWarps) ++args.log_at_once;
  void* parameters[] = {&args};
  const TeamLaunch launch{
      .kernel = batch.table.wide ? kernel_for<std::int64_t>(batch) : kernel_for<std::int32_t>(batch),
      .blocks = most_blocks,
      .threads = kWarps * 32,
      .shared_bytes = most_blocks > 1 ? kAlone : 0,
      .least_blocks = LookShare::blocks(batch.rows)};
  return launch_team(launch, parameters, stream);
}

}  // namespace trunkline::cuda
