// The queries of a task: their distribution over the two halves of its rows, and the queries that a token precedes.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/common/kernel_args.hpp"
#include "exec/cuda/kernels/common/ptx.cuh"
#include "exec/cuda/kernels/sm90/forward/config.hpp"

namespace trunkline::cuda::sm90 {

/// A set of an item's queries: bit i of the 128 bits is the i-th query; or, if so stated, a word for each half.
struct QuerySet {
  std::uint64_t words[2];

  __device__ __forceinline__ QuerySet operator&(const QuerySet& other) const {
    return {{words[0] & other.words[0], words[1] & other.words[1]}};
  }
  __device__ __forceinline__ bool empty() const { return (words[0] | words[1]) == 0; }
};

inline constexpr QuerySet kAllQueries{{~std::uint64_t{0}, ~std::uint64_t{0}}};

/// Returns a mask of the plan as a set; all queries if there is no mask.
__device__ __forceinline__ QuerySet mask_at(const DevicePlan& plan, std::int64_t mask) {
  if (mask < 0) return kAllQueries;
  const auto words = *reinterpret_cast<const ulonglong2*>(plan.masks + 2 * mask);
  return {{words.x, words.y}};
}

/// The halves of an item's queries, in order.
class QueryHalves {
 public:
  QueryHalves() = default;
  /// \param first number of queries of the first half; 0: both warpgroups hold all queries
  __device__ __forceinline__ QueryHalves(int queries, int first)
      : count_(queries), first_(first == 0 ? queries : first), halves_(first == 0 ? 1 : 2) {}

  __device__ __forceinline__ int count() const { return count_; }
  __device__ __forceinline__ int halves() const { return halves_; }
  __device__ __forceinline__ int first_of(int half) const { return half == 0 ? 0 : first_; }
  __device__ __forceinline__ int count_of(int half) const { return half == 0 ? first_ : count_ - first_; }

  /// Returns the queries of a set that the item has.
  __device__ __forceinline__ QuerySet within(const QuerySet& set) const {
    QuerySet some{{set.words[0] & first_of_word(count_), 0}};
    if (count_ > 64) some.words[1] = set.words[1] & first_of_word(count_ - 64);
    return some;
  }
  /// Returns a set as a word for each half, whose bit i is the half's i-th query.
  __device__ __forceinline__ QuerySet by_half(const QuerySet& set) const {
    if (halves_ == 1) return {{set.words[0] & every(0), 0}};
    const std::uint64_t second =
        first_ == kGroupRows ? set.words[1] : set.words[0] >> first_ | set.words[1] << (kGroupRows - first_);
    return {{set.words[0] & every(0), second & every(1)}};
  }
  /// Returns the word with all queries of a half.
  __device__ __forceinline__ std::uint64_t every(int half) const { return first_of_word(count_of(half)); }

 private:
  static __device__ __forceinline__ std::uint64_t first_of_word(int count) {
    return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
  }

  int count_ = 0;
  int first_ = 0;
  int halves_ = 1;
};

__device__ __forceinline__ QueryHalves halves_of(const TaskHeader& task) {
  return QueryHalves(task.rows.end - task.rows.begin, task.tile_m > kGroupRows ? task.first_half : 0);
}

/// Returns the minimal limit of a set's queries; KV positions from a query's limit on come after it. \param rows
/// queries of the item
__device__ __forceinline__ std::int32_t min_limit(const QuerySet& set, const ItemRow* rows) {
  std::int32_t min_of_set = INT32_MAX;
#pragma unroll
  for (int word = 0; word < 2; ++word) {
    for (std::uint64_t rest = set.words[word]; rest != 0; rest &= rest - 1)
      min_of_set = min(min_of_set, rows[64 * word + __ffsll(static_cast<long long>(rest)) - 1].limit);
  }
  return min_of_set;
}

/// Returns the queries of a set, by half, that come after a position.
__device__ __forceinline__ QuerySet after(const QuerySet& set, std::int32_t position, const QueryHalves& halves,
                                          const ItemRow* rows) {
  QuerySet reached = set;
#pragma unroll
  for (int half = 0; half < kGroups; ++half) {
    const ItemRow* of_half = rows + halves.first_of(half);
    for (std::uint64_t rest = set.words[half]; rest != 0; rest &= rest - 1) {
      const std::uint64_t query = rest & (~rest + 1);
      if (position >= of_half[__ffsll(static_cast<long long>(rest)) - 1].limit) reached.words[half] &= ~query;
    }
  }
  return reached;
}

}  // namespace trunkline::cuda::sm90
