#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "exec/cuda/merge.hpp"

namespace trunkline::cuda {
namespace {

// One warp merges one (query, head): all elements of O, so that a partial is read in one piece.
constexpr int kWarps = 4;
constexpr int kLanes = 32;
constexpr unsigned kAllLanes = 0xffffffffU;
constexpr std::size_t kBlocksPerSm = 12;

__device__ void store(float* to, float value) {
  *to = value;
}
__device__ void store(__half* to, float value) {
  *to = __float2half_rn(value);
}
__device__ void store(__nv_bfloat16* to, float value) {
  *to = __float2bfloat16_rn(value);
}

// So many neighbours at a time, aligned to their size.
template <class T, int kCount>
struct alignas(kCount * sizeof(T) < 16 ? kCount * sizeof(T) : 16) Chunk {
  T element[kCount];
};

__device__ float warp_max(float value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

// The partial slots of one query, and where they lie for one head.
struct PartialList {
  const std::int32_t* slots;
  std::int32_t count;
  std::int32_t head;
  std::int32_t q_heads;

  __device__ std::int64_t row(std::int32_t slot) const { return static_cast<std::int64_t>(slot) * q_heads + head; }
};

template <int kDim>
struct Merged {
  static constexpr int kElements = kDim / kLanes;
  float o[kElements];  // of this lane: neighbours
  float lse;           // base 2
};

// O = sum over slots of 2^(lse_i - lse) O_i. The maximum first, as it depends on no order; then the sums, in order.
template <int kDim>
__device__ Merged<kDim> merge_partials(const Partials& partials, const PartialList& list, int lane) {
  constexpr int kElements = Merged<kDim>::kElements;
  float maximum = -INFINITY;
  for (std::int32_t i = lane; i < list.count; i += kLanes) {
    maximum = fmaxf(maximum, partials.lse[list.row(list.slots[i])]);
  }
  maximum = warp_max(maximum);

  Merged<kDim> merged{};
  float sum = 0;
  for (std::int32_t first = 0; first < list.count; first += kLanes) {
    const std::int32_t here = min(kLanes, list.count - first);
    std::int32_t slot = 0;
    float weight = 0;
    if (lane < here) {
      slot = list.slots[first + lane];
      const float lse = partials.lse[list.row(slot)];
      weight = lse == -INFINITY ? 0 : exp2f(lse - maximum);
    }
#pragma unroll 4
    for (std::int32_t i = 0; i < here; ++i) {
      const float factor = __shfl_sync(kAllLanes, weight, i);
      const std::int64_t row = list.row(__shfl_sync(kAllLanes, slot, i));
      const auto chunk =
          *reinterpret_cast<const Chunk<float, kElements>*>(partials.out + row * kDim + lane * kElements);
      sum += factor;
#pragma unroll
      for (int element = 0; element < kElements; ++element) merged.o[element] += factor * chunk.element[element];
    }
  }
  const float inverse = sum == 0 ? 0 : 1 / sum;  // nothing seen: O = 0. A NaN stays one
#pragma unroll
  for (float& element : merged.o) element *= inverse;
  merged.lse = sum == 0 ? -INFINITY : maximum + log2f(sum);
  return merged;
}

template <class Out, int kDim>
__device__ void write_row(const LayerArgs& layer, std::int64_t token, std::int32_t head, const Merged<kDim>& merged,
                          int lane) {
  constexpr int kElements = Merged<kDim>::kElements;
  Chunk<Out, kElements> chunk;
#pragma unroll
  for (int element = 0; element < kElements; ++element) store(&chunk.element[element], merged.o[element]);
  Out* to = static_cast<Out*>(layer.out) + token * layer.out_token + head * layer.out_head + lane * kElements;
  *reinterpret_cast<Chunk<Out, kElements>*>(to) = chunk;
}

template <int kDim, class Element>
__global__ void __launch_bounds__(kWarps* kLanes) merge_kernel(const __grid_constant__ MergeArgs args) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const LayerArgs& layer = args.layer;
  const std::int64_t tasks = static_cast<std::int64_t>(args.plan.counts->merges) * layer.q_heads;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kWarps;
  for (std::int64_t task = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kLanes; task < tasks;
       task += stride) {
    const std::int64_t merge = task / layer.q_heads;
    const auto head = static_cast<std::int32_t>(task % layer.q_heads);
    const std::int32_t begin = args.plan.merge_begin[merge];
    const PartialList list{args.plan.merge_slots + begin, args.plan.merge_begin[merge + 1] - begin, head,
                           layer.q_heads};
    const Merged<kDim> merged = merge_partials<kDim>(args.partials, list, lane);
    const std::int64_t token = args.step.queries[args.plan.merge_queries[merge]].token;
    if (layer.out_f32 != 0) {
      write_row<float, kDim>(layer, token, head, merged, lane);
    } else {
      write_row<Element, kDim>(layer, token, head, merged, lane);
    }
    if (layer.lse != nullptr && lane == 0) {
      layer.lse[token * layer.lse_token + head * layer.lse_head] = merged.lse * layer.lse_factor;
    }
  }
}

using MergeKernel = void (*)(MergeArgs);

template <class Element>
MergeKernel kernel_for(std::int32_t head_dim) {
  switch (head_dim) {
    case 64: return merge_kernel<64, Element>;
    case 128: return merge_kernel<128, Element>;
    case 256: return merge_kernel<256, Element>;
    default: return nullptr;
  }
}

}  // namespace

cudaError_t launch_merge(const MergeArgs& args, DType dtype, std::int32_t head_dim, std::size_t most_merges,
                         std::int32_t sms, cudaStream_t stream) {
  const MergeKernel kernel = dtype == DType::kF16    ? kernel_for<__half>(head_dim)
                             : dtype == DType::kBF16 ? kernel_for<__nv_bfloat16>(head_dim)
                                                     : nullptr;
  if (kernel == nullptr) return cudaErrorNotSupported;
  const std::size_t needed = (most_merges * static_cast<std::size_t>(args.layer.q_heads) + kWarps - 1) / kWarps;
  const std::size_t most = static_cast<std::size_t>(std::max(sms, 1)) * kBlocksPerSm;
  const auto blocks = static_cast<unsigned>(std::clamp<std::size_t>(needed, 1, most));
  kernel<<<blocks, kWarps * kLanes, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace trunkline::cuda
