// Merges attention states by online softmax: for each (query, head) with partials i,
//
//   O = sum of 2^(lse_i - lse) O_i,   lse = log2 of the sum of 2^lse_i.
//
// Bound: reads, and in a small batch their latency. A partial is an fp32 row of d columns and an LSE, read once, past
// L1, with one multiply-add an element.
//
// Schedule. Warps take (query, head) tasks in turns; the grid has up to 12 blocks of four warps an SM, of which 5 run
// at once. In a small batch, of up to 1,280 pairs (query, head), a task is 64 columns of a pair: more warps bring more
// states at once. The plan is read before the forward kernel ends (programmatic dependent launch). The order of the
// sums is the plan's, so that all schedules give the same bits.
#include "exec/cuda/kernels/any/merge.hpp"

#include <algorithm>
#include <atomic>

#include "exec/cuda/kernels/common/merge_row.cuh"

namespace trunkline::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kBlocksAtOnce = 5;  // blocks on an SM, by registers
constexpr std::size_t kBlocksPerSm = 12;

// A warp merges one (row, head) of a caller's states: as many states in flight as 80 registers hold.
template <int kDim, class States>
using WarpMerge = RowMerge<kDim, 32, (kDim > 128 ? 4 : 8), States>;

// The warps of a launch take (row, head) tasks in turns.
struct WarpTasks {
  std::uint32_t first;
  std::uint32_t stride;
  int lane;
};

__device__ __forceinline__ WarpTasks warp_tasks() {
  // Broadcast from one lane, so that the compiler knows that it is uniform: else each shuffle in the loop over tasks is
  // a call.
  const unsigned warp = __shfl_sync(kWholeWarp, threadIdx.x / 32, 0);
  return {blockIdx.x * kWarps + warp, gridDim.x * kWarps, static_cast<int>(threadIdx.x % 32)};
}

// A small batch has at most so many (row, head) pairs: as many as an H200 runs at once in two parts each, with heads of
// 128. A warp then merges kSmallBatchColumns columns of a pair.
constexpr std::uint32_t kSmallBatchRows = 1280;
constexpr int kSmallBatchColumns = 64;

// A run of kColumns columns of a merged (query, head), the task of a warp.
template <int kDim, int kColumns>
class PartOfRow {
  // States in flight: as many as 64 registers hold.
  static constexpr int kAhead = 1024 / kColumns;
  using States = PartialStates<kDim>;

 public:
  static constexpr std::uint32_t kParts = kDim / kColumns;

  /// Reads the task's entries of the plan. \param task has 32 bits, as divisions of 64 bits are slow: a row has two
  /// partials or more, of 256 bytes or more, so that 2^31 rows would take 1 TB
  __device__ __forceinline__ PartOfRow(const MergeArgs& args, std::uint32_t task, int lane)
      : PartOfRow(args, task, task / (static_cast<std::uint32_t>(args.layer.q_heads) * kParts), lane) {}

  template <class Element>
  __device__ __forceinline__ void merge(const LayerArgs& layer, int lane) {
    write_merged<Element, true>(layer, token_, head_, row_.run(), lane, column_);
  }

 private:
  __device__ __forceinline__ PartOfRow(const MergeArgs& args, std::uint32_t task, std::uint32_t merge, int lane)
      : head_(static_cast<std::int32_t>(task / kParts - merge * static_cast<std::uint32_t>(args.layer.q_heads))),
        column_(static_cast<int>(task % kParts) * kColumns),
        token_(load_ahead(&args.plan.queries[args.plan.merge_queries[merge]].token)),
        row_(States{args.partials.out + std::int64_t{head_} * kDim + column_, args.partials.lse + head_,
                    args.layer.q_heads},
             list_of(args.plan, merge), lane) {}

  static __device__ __forceinline__ StateList list_of(const DevicePlan& plan, std::uint32_t merge) {
    const std::int32_t begin = plan.merge_begin[merge];
    return {plan.merge_slots + begin, begin, plan.merge_begin[merge + 1] - begin};
  }

  std::int32_t head_;
  int column_;
  std::int64_t token_;
  RowMerge<kColumns, 32, kAhead, States> row_;
};

template <int kDim, int kColumns, class Element>
__device__ __forceinline__ void merge_all(const MergeArgs& args, std::uint32_t rows, const WarpTasks& warp) {
  using Part = PartOfRow<kDim, kColumns>;
  const std::uint32_t tasks = rows * Part::kParts;
  std::uint32_t task = warp.first;
  if (task >= tasks) return wait_for_kernel_before();
  // The forward kernel does not write the plan: it can be read before that kernel is done.
  Part part(args, task, warp.lane);
  wait_for_kernel_before();
  for (;;) {
    part.template merge<Element>(args.layer, warp.lane);
    task += warp.stride;
    if (task >= tasks) return;
    part = Part(args, task, warp.lane);
  }
}

// Splits rows between warps in a small batch, so that more warps bring more states at once; in a large batch each warp
// merges whole rows. 160 rows of 32 states take 2 us less by halves, 4,096 of 2 take 5 us more. The bits are the same.
template <int kDim, class Element>
__global__ void __launch_bounds__(kWarps * 32, kBlocksAtOnce) merge_kernel(const __grid_constant__ MergeArgs args) {
  const WarpTasks warp = warp_tasks();
  const auto rows = static_cast<std::uint32_t>(args.plan.counts->merges * args.layer.q_heads);
  if (rows > kSmallBatchRows) {
    merge_all<kDim, kDim, Element>(args, rows, warp);
  } else {
    merge_all<kDim, kSmallBatchColumns, Element>(args, rows, warp);
  }
}

// A caller's states of one head, in the caller's type.
template <int kDim>
struct GivenStates {
  const MergeStatesArgs& args;
  std::int64_t head;

  __device__ __forceinline__ float lse_of(std::int32_t slot) const {
    return args.lse[slot * args.lse_stride + head * args.lse_head_stride] * args.to_base_two;
  }
  /// Returns the offset of a state in elements of its type.
  __device__ __forceinline__ std::int64_t state_offset(std::int32_t slot) const {
    return slot * args.state_stride + head * args.state_head_stride;
  }
  template <int kCount>
  __device__ __forceinline__ void load(std::int64_t offset, int column, float* to) const {
    const std::int64_t at = offset + column;
    if (args.states_dtype == DType::kF32) {
      const auto from = *reinterpret_cast<const Chunk<float, kCount>*>(static_cast<const float*>(args.states) + at);
#pragma unroll
      for (int i = 0; i < kCount; ++i) to[i] = from.element[i];
      return;
    }
    const auto from =
        *reinterpret_cast<const Chunk<std::uint16_t, kCount>*>(static_cast<const std::uint16_t*>(args.states) + at);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      to[i] = args.states_dtype == DType::kF16 ? __half2float(__ushort_as_half(from.element[i]))
                                               : __bfloat162float(__ushort_as_bfloat16(from.element[i]));
    }
  }
};

template <int kDim>
__global__ void __launch_bounds__(kWarps * 32, kBlocksAtOnce)
    merge_states_kernel(const __grid_constant__ MergeStatesArgs args) {
  const WarpTasks warp = warp_tasks();
  const std::int64_t tasks = static_cast<std::int64_t>(args.rows) * args.q_heads;
  for (std::int64_t task = warp.first; task < tasks; task += warp.stride) {
    const std::int64_t row = task / args.q_heads;
    const std::int64_t head = task % args.q_heads;
    const std::int32_t begin = args.begin[row];
    const StateList list{args.slots == nullptr ? nullptr : args.slots + begin, begin, args.begin[row + 1] - begin};
    const auto merged = WarpMerge<kDim, GivenStates<kDim>>({args, head}, list, warp.lane).run();
    const std::int64_t at = row * args.out_row_stride + head * args.out_head_stride;
    if (args.out_dtype == DType::kBF16) {
      store_row<Bfloat>(args.out, false, at, merged, warp.lane);
    } else {
      store_row<Half>(args.out, args.out_dtype == DType::kF32, at, merged, warp.lane);
    }
    if (args.out_lse != nullptr && warp.lane == 0) {
      args.out_lse[row * args.out_lse_row_stride + head * args.out_lse_head_stride] = merged.lse * args.from_base_two;
    }
  }
}

template <class Element>
void (*kernel_for(std::int32_t head_dim))(MergeArgs) {
  switch (head_dim) {
    case 64: return merge_kernel<64, Element>;
    case 128: return merge_kernel<128, Element>;
    case 256: return merge_kernel<256, Element>;
    default: return nullptr;
  }
}

void (*states_kernel_for(std::int32_t head_dim))(MergeStatesArgs) {
  switch (head_dim) {
    case 64: return merge_states_kernel<64>;
    case 128: return merge_states_kernel<128>;
    case 256: return merge_states_kernel<256>;
    default: return nullptr;
  }
}

unsigned blocks_for(std::size_t rows, std::int32_t q_heads, std::int32_t sms) {
  const std::size_t needed = (rows * static_cast<std::size_t>(q_heads) + kWarps - 1) / kWarps;
  return static_cast<unsigned>(
      std::clamp<std::size_t>(needed, 1, static_cast<std::size_t>(std::max(sms, 1)) * kBlocksPerSm));
}

// Whether the kernel waits for its predecessor: code compiled for less than 9.0 does not, on any device.
bool waits_for_kernel_before(const void* kernel) {
  constexpr int kDevices = 64;
  constexpr int kFirstVersion = 90;
  static std::atomic<int> known[kDevices];  // 0: unknown; 1: no; 2: yes. Equal for all kernels of this file
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= kDevices) return false;
  if (known[device].load() == 0) {
    cudaFuncAttributes attributes{};
    if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess) return false;
    known[device].store(attributes.ptxVersion >= kFirstVersion ? 2 : 1);
  }
  return known[device].load() == 2;
}

}  // namespace

cudaError_t launch_merge(const MergeArgs& args, DType dtype, std::int32_t head_dim, std::size_t max_merges,
                         std::int32_t sms, bool early, cudaStream_t stream) {
  const auto kernel = dtype == DType::kF16    ? kernel_for<Half>(head_dim)
                      : dtype == DType::kBF16 ? kernel_for<Bfloat>(head_dim)
                                              : nullptr;
  if (kernel == nullptr) return cudaErrorNotSupported;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  const std::int64_t rows = static_cast<std::int64_t>(max_merges) * args.layer.q_heads;
  const std::int32_t parts = rows > kSmallBatchRows ? 1 : head_dim / kSmallBatchColumns;
  config.gridDim = dim3(blocks_for(max_merges, args.layer.q_heads * parts, sms));
  config.blockDim = dim3(kWarps * 32);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early && waits_for_kernel_before(reinterpret_cast<const void*>(kernel)) ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, args);
}

cudaError_t launch_merge_states(const MergeStatesArgs& args, std::int32_t head_dim, std::int32_t sms,
                                cudaStream_t stream) {
  const auto kernel = states_kernel_for(head_dim);
  if (kernel == nullptr) return cudaErrorNotSupported;
  kernel<<<blocks_for(static_cast<std::size_t>(args.rows), args.q_heads, sms), kWarps * 32, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace trunkline::cuda
