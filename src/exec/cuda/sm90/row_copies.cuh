// Copies of a slice's 16 rows of 256 bytes to its part of a slot, by one warp: two rows an instruction.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/cuda/common/ptx.cuh"
#include "exec/cuda/sm90/wgmma.cuh"

namespace trunkline::cuda::sm90 {

/// For what box copies cannot do: Q, small pages, rows that must not be read.
class RowCopies {
  static constexpr int kRowsAtOnce = 2;  // 16 lanes each
  static constexpr int kCopies = kSliceTokens / kRowsAtOnce;

 public:
  __device__ __forceinline__ explicit RowCopies(int lane) : row_(lane / 16), chunk_(lane % 16) {}

  /// \param row of lane i < 16: the i-th's address \param seen bit i: row i is to be read; else it is zero
  /// \param to the slice's first row in its slot
  __device__ __forceinline__ void copy(const std::byte* row, std::uint32_t seen, std::uint32_t to) const {
    const auto address = static_cast<long long>(reinterpret_cast<std::uintptr_t>(row));
#pragma unroll 2
    for (int i = 0; i < kCopies; ++i) {
      const int from = kRowsAtOnce * i + row_;
      const auto* at = reinterpret_cast<const std::byte*>(__shfl_sync(kWholeWarp, address, from)) + 16 * chunk_;
      copy_async_or_zero(to + chunk_offset(from, chunk_), at, (seen >> from & 1) != 0);
    }
  }

 private:
  int row_;
  int chunk_;
};

}  // namespace trunkline::cuda::sm90
