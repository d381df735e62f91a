// Costs by size class: what sorting would tell within 3 %, in one pass over the items.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/host_device.hpp"
#include "plan/task_costs.hpp"

namespace trunkline {

/// 32 classes an octave, for costs from 0 to TaskCosts::kMaxTask. Adding is all that costs time per item; sums do not
/// depend on the order of adding.
class CostClasses {
 public:
  static constexpr std::size_t kClasses = 43 * 32;  // up to TaskCosts::kMaxTask

  TRUNKLINE_HOST_DEVICE static std::size_t class_of(Nanoseconds cost) {
    const auto value = static_cast<std::uint64_t>(cost);
    const int octave = bit_width(value) - 6;
    if (octave <= 0) return value;
    return (static_cast<std::size_t>(octave) << 5) + static_cast<std::size_t>(value >> octave);
  }

  TRUNKLINE_HOST_DEVICE void clear() {
    for (std::size_t i = 0; i <= highest_; ++i) counts_[i] = 0;
    for (std::size_t i = 0; i <= highest_; ++i) sums_[i] = 0;
    total_ = 0;
    highest_ = 0;
  }
  TRUNKLINE_HOST_DEVICE void add(Nanoseconds cost, std::int32_t times = 1) {
    const std::size_t index = class_of(cost);
    const Nanoseconds sum = product(cost, times);
    counts_[index] += times;
    sums_[index] = least(sums_[index] + sum, kMaxSum);
    total_ = least(total_ + sum, kMaxSum);
    if (index > highest_) highest_ = index;
  }
  /// Of the added costs.
  TRUNKLINE_HOST_DEVICE Nanoseconds total() const { return total_; }

  /// When workers are done with `copies` tasks of every added cost, were all of them busy to the end.
  TRUNKLINE_HOST_DEVICE Nanoseconds ideal(std::int32_t workers, std::int32_t copies) const {
    return product(total_, copies) / workers;
  }
  /// No order of `copies` tasks of every added cost takes less: of any k * workers + 1 tasks some worker has k + 1.
  /// Longest-first order is seldom more than some percent above it.
  TRUNKLINE_HOST_DEVICE Nanoseconds bound(std::int32_t workers, std::int32_t copies) const {
    Nanoseconds bound = ceil_div<Nanoseconds>(product(total_, copies), workers);
    std::int64_t tasks = 0;
    for (std::size_t index = highest_ + 1; index-- > 0;) {
      if (counts_[index] == 0) continue;
      tasks += counts_[index] * copies;
      bound = most(bound, product((tasks - 1) / workers + 1, sums_[index] / counts_[index]));
    }
    return bound;
  }
  /// When workers that take the longest task next are done with `copies` tasks of every added cost.
  /// \param loads scratch
  Nanoseconds makespan(std::int32_t workers, std::int32_t copies, std::vector<Nanoseconds>& loads) const;

 private:
  // Sums stay at this, 18 years, so that they overflow for no batch.
  static constexpr Nanoseconds kMaxSum = Nanoseconds{1} << 59;

  TRUNKLINE_HOST_DEVICE static Nanoseconds product(Nanoseconds a, Nanoseconds b) {
    const bool small = a < Nanoseconds{1} << 29 && b < Nanoseconds{1} << 29;  // as most: divisions are slow
    return small || a == 0 || b <= kMaxSum / a ? a * b : kMaxSum;
  }
  TRUNKLINE_HOST_DEVICE static int bit_width(std::uint64_t value) {
#if defined(__CUDA_ARCH__)
    return 64 - __clzll(static_cast<long long>(value));
#else
    return value == 0 ? 0 : 64 - __builtin_clzll(value);
#endif
  }

  std::int64_t counts_[kClasses] = {};
  Nanoseconds sums_[kClasses] = {};
  Nanoseconds total_ = 0;
  std::size_t highest_ = 0;
};

}  // namespace trunkline
