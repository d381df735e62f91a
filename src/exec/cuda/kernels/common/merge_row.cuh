// Merges a row's attention states by online softmax, in kLanes lanes of a warp: the same bits in every kernel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/common/sink.cuh"

namespace trunkline::cuda {

/// `kCount` neighbouring elements, aligned to their size up to 16 bytes.
template <class T, int kCount>
struct alignas(kCount * sizeof(T) < 16 ? kCount * sizeof(T) : 16) Chunk {
  T element[kCount];
};

/// The states that a row merges, in this order.
struct StateList {
  const std::int32_t* slots;  // null: first, first + 1, ...
  std::int32_t first;
  std::int32_t count;

  __device__ __forceinline__ std::int32_t slot(std::int32_t i) const { return slots != nullptr ? slots[i] : first + i; }
};

/// Distribution of a row's columns over the kLanes lanes that merge it: a lane has chunks of neighbours, kLanes chunks
/// apart, so that the lanes together read a state in whole lines.
template <int kDim, int kLanes>
struct RowShare {
  static constexpr int kElements = kDim / kLanes;
  static constexpr int kChunk = kElements < 4 ? kElements : 4;
  static constexpr int kChunks = kElements / kChunk;

  static __device__ __forceinline__ int column(int lane, int chunk) { return (lane + kLanes * chunk) * kChunk; }
};

/// A lane's columns of a merged row.
template <int kDim, int kLanes>
struct MergedRow {
  float o[RowShare<kDim, kLanes>::kElements];
  float lse;  // base 2, equal in all lanes
};

/// Partials of one head: outputs in fp32, [slots, Hq, d], and base-2 LSEs, [slots, Hq]. They are read past L1, as other
/// SMs may have written them a moment ago.
template <int kDim>
struct PartialStates {
  const float* out;  // of the head
  const float* lse;
  std::int32_t q_heads;

  __device__ __forceinline__ float lse_of(std::int32_t slot) const {
    return __ldcg(lse + std::int64_t{slot} * q_heads);
  }
  /// Returns the offset of a state in bytes.
  __device__ __forceinline__ std::int64_t state_offset(std::int32_t slot) const {
    return std::int64_t{slot} * (q_heads * kDim * static_cast<std::int32_t>(sizeof(float)));
  }
  template <int kCount>
  __device__ __forceinline__ void load(std::int64_t offset, int column, float* to) const {
    const std::byte* from = reinterpret_cast<const std::byte*>(out + column) + offset;
    if constexpr (kCount == 2) {
      const float2 pair = __ldcg(reinterpret_cast<const float2*>(from));
      to[0] = pair.x;
      to[1] = pair.y;
    } else {
      static_assert(kCount == 4);
      const float4 four = __ldcg(reinterpret_cast<const float4*>(from));
      to[0] = four.x;
      to[1] = four.y;
      to[2] = four.z;
      to[3] = four.w;
    }
  }
};

/// Computes O = sum over the list of 2^(lse_i - lse) O_i: first the maximum, which depends on no order, then the sums
/// in the list's order. A state over no token (LSE of -inf) changes nothing, even if its O is NaN. A whole warp calls
/// this; each kLanes lanes have a row or kDim columns of a row, with `lane` from 0 to kLanes - 1. Up to kAhead states
/// are in flight. Lanes whose row has no states read state 0, which exists if any row has states.
template <int kDim, int kLanes, int kAhead, class States>
class RowMerge {
  using Share = RowShare<kDim, kLanes>;
  using Merged = MergedRow<kDim, kLanes>;
  static_assert(kLanes % kAhead == 0);

 public:
  /// Reads the list, but no state.
  __device__ __forceinline__ RowMerge(const States& states, const StateList& list, int lane)
      : states_(states), list_(list), lane_(lane), slot_(slot_of(0)) {
    offset_ = states_.state_offset(slot_);  // once for all lanes: 13 instructions a state instead of 34
  }

  __device__ __forceinline__ Merged run() {
    // The length of the longest list; a reduction, so that the compiler knows that it is uniform: else each shuffle in
    // a loop is a call.
    count_ = __reduce_max_sync(kWholeWarp, list_.count);
#pragma unroll 1
    for (std::int32_t i = 0; i < count_;) {
      if (i % kLanes == 0) {
        if (i > 0) {
          take_next();
        } else {
          lse_ = lse_of(slot_, 0);
        }
        if (i + kLanes < count_) prefetch_next(i + kLanes);
      }
      i += take_some<kAhead>(i);
    }
    const float inverse = sum_ == 0 ? 0 : 1 / sum_;  // no token is visible: O = 0. A NaN stays NaN
#pragma unroll
    for (float& element : merged_.o) element *= inverse;
    merged_.lse = sum_ == 0 ? -INFINITY : maximum_ + log2f(sum_);
    return merged_;
  }

 private:
  // Merges up to kCount states from the i-th on; kCount is halved until fewer than half of the reads are in vain.
  // \return kCount
  template <int kCount>
  __device__ __forceinline__ std::int32_t take_some(std::int32_t i) {
    if constexpr (kCount > 2) {
      if (count_ - i <= kCount / 2) return take_some<kCount / 2>(i);
    }
    float parts[kCount][Share::kElements];
    load_states<kCount>(i % kLanes, parts);
    if (i == 0) find_maximum();  // beside the first states
    add<kCount>(lse_ == -INFINITY ? 0 : exp2f(lse_ - maximum_), i % kLanes, parts);
    return kCount;
  }

  // Returns the slot of the lane's state, `first` + lane. Lanes behind the list read its last state with weight 0: a
  // load whose destination depends on a condition would wait for the loads before it.
  __device__ __forceinline__ std::int32_t slot_of(std::int32_t first) const {
    const std::int32_t last = list_.count - 1;
    return last < 0 ? 0 : list_.slot(min(first + lane_, last));
  }
  __device__ __forceinline__ float lse_of(std::int32_t slot, std::int32_t first) const {
    const float lse = states_.lse_of(slot);
    return first + lane_ >= list_.count ? -INFINITY : lse;
  }
  // Reads slots and LSEs of the next kLanes states while the present states arrive: else the 33rd state of a list waits
  // for its slot, its LSE and itself in turn. Called only for such lists, as it costs shorter lists 0.2 us.
  __device__ __forceinline__ void prefetch_next(std::int32_t first) {
    const std::int32_t slot = slot_of(first);
    next_offset_ = states_.state_offset(slot);
    next_lse_ = lse_of(slot, first);
  }
  __device__ __forceinline__ void take_next() {
    offset_ = next_offset_;
    lse_ = next_lse_;
  }

  // Loads kCount of the present kLanes states, from the i-th on.
  template <int kCount>
  __device__ __forceinline__ void load_states(std::int32_t i, float (&parts)[kCount][Share::kElements]) const {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const std::int64_t offset = __shfl_sync(kWholeWarp, static_cast<long long>(offset_), i + j, kLanes);
#pragma unroll
      for (int chunk = 0; chunk < Share::kChunks; ++chunk)
        states_.template load<Share::kChunk>(offset, Share::column(lane_, chunk), parts[j] + chunk * Share::kChunk);
    }
  }

  __device__ __forceinline__ void find_maximum() {
    maximum_ = fmaxf(lse_, next_lse_);
#pragma unroll 1
    for (std::int32_t i = 2 * kLanes + lane_; i < list_.count; i += kLanes)
      maximum_ = fmaxf(maximum_, states_.lse_of(list_.slot(i)));
    __syncwarp();
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2)
      maximum_ = fmaxf(maximum_, __shfl_xor_sync(kWholeWarp, maximum_, distance));
  }

  template <int kCount>
  __device__ __forceinline__ void add(float weight, std::int32_t i, const float (&parts)[kCount][Share::kElements]) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const float factor = __shfl_sync(kWholeWarp, weight, i + j, kLanes);
      sum_ += factor;
#pragma unroll
      for (int element = 0; element < Share::kElements; ++element)
        merged_.o[element] = fmaf(factor, factor == 0 ? 0 : parts[j][element], merged_.o[element]);
    }
  }

  States states_;
  StateList list_;
  int lane_;
  std::int32_t count_ = 0;
  std::int32_t slot_;        // slot of the lane's first state
  std::int64_t offset_ = 0;  // offset of its present state
  std::int64_t next_offset_ = 0;
  float lse_ = -INFINITY;
  float next_lse_ = -INFINITY;
  float maximum_ = -INFINITY;
  float sum_ = 0;
  Merged merged_{};
};

/// Writes neighbouring elements in another type; `to` is aligned to their size up to 16 bytes.
template <class Element, int kCount>
__device__ __forceinline__ void store_rounded(std::uint16_t* to, const float* from) {
  static_assert(kCount % 2 == 0);
  Chunk<std::uint32_t, kCount / 2> chunk;
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) chunk.element[i] = Element::round(from[2 * i], from[2 * i + 1]);
  *reinterpret_cast<Chunk<std::uint32_t, kCount / 2>*>(to) = chunk;
}

template <int kCount>
__device__ __forceinline__ void store_floats(float* to, const float* from) {
  Chunk<float, kCount> chunk;
#pragma unroll
  for (int i = 0; i < kCount; ++i) chunk.element[i] = from[i];
  *reinterpret_cast<Chunk<float, kCount>*>(to) = chunk;
}

/// Writes a lane's columns of a merged row that begins at element `at` of an output, in fp32 or rounded.
template <class Element, int kDim, int kLanes>
__device__ __forceinline__ void store_row(void* out, bool in_f32, std::int64_t at,
                                          const MergedRow<kDim, kLanes>& merged, int lane) {
  using Share = RowShare<kDim, kLanes>;
#pragma unroll
  for (int chunk = 0; chunk < Share::kChunks; ++chunk) {
    const std::int64_t column = at + Share::column(lane, chunk);
    const float* from = merged.o + chunk * Share::kChunk;
    if (in_f32) {
      store_floats<Share::kChunk>(static_cast<float*>(out) + column, from);
    } else {
      store_rounded<Element, Share::kChunk>(static_cast<std::uint16_t*>(out) + column, from);
    }
  }
}

/// Writes a merged (query, head), or its columns from `column` on, to a layer's O and LSE, beside the head's sink.
/// \tparam kVaries whether layers may vary (LayerArgs::varies)
template <class Element, bool kVaries, int kDim, int kLanes>
__device__ __forceinline__ void write_merged(const LayerArgs& layer, std::int64_t token, std::int32_t head,
                                             MergedRow<kDim, kLanes> merged, int lane, int column = 0) {
  if (kVaries && layer.sinks != nullptr) {
    const SinkShare share = add_sink(sink_of(layer, head), merged.lse);
#pragma unroll
    for (float& element : merged.o) element *= share.tokens;
    merged.lse = share.lse;
  }
  const std::int64_t at = token * layer.out_token + head * layer.out_head + column;
  store_row<Element>(layer.out, layer.out_f32 != 0, at, merged, lane);
  if (layer.lse != nullptr && lane == 0 && column == 0)
    layer.lse[token * layer.lse_token + head * layer.lse_head] = merged.lse * layer.lse_factor;
}

}  // namespace trunkline::cuda
