// Costs by size class: an approximate sort, within 3 %, in one pass over the items.
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
    for (std::size_t i = next_below(kClasses); i != kNone; i = next_below(i)) classes_[i] = {};
    for (std::uint64_t& word : occupied_) word = 0;
  }
  TRUNKLINE_HOST_DEVICE void add(Nanoseconds cost) { add(class_of(cost), 1, cost); }
  TRUNKLINE_HOST_DEVICE void add(Nanoseconds cost, std::int32_t times) {
    add(class_of(cost), times, product(cost, times));
  }
  /// The sum of the added costs.
  TRUNKLINE_HOST_DEVICE Nanoseconds total() const {
    Nanoseconds total = 0;
    for (std::size_t i = next_below(kClasses); i != kNone; i = next_below(i)) {
      total = min(total + classes_[i].sum, kMaxSum);
    }
    return total;
  }

  /// When workers are done with `copies` tasks of every added cost, were all of them busy to the end.
  TRUNKLINE_HOST_DEVICE Nanoseconds ideal(std::int32_t workers, std::int32_t copies) const {
    return product(total(), copies) / workers;
  }
  /// The same, of the workers that have a task.
  TRUNKLINE_HOST_DEVICE Nanoseconds ideal_of_busy(std::int32_t workers, std::int32_t copies) const {
    std::int64_t tasks = 0;
    for (std::size_t i = next_below(kClasses); i != kNone; i = next_below(i)) tasks += classes_[i].tasks * copies;
    return product(total(), copies) / max<std::int64_t>(min<std::int64_t>(workers, tasks), 1);
  }
  /// No order of `copies` tasks of every added cost takes less: of any k * workers + 1 tasks some worker has k + 1.
  /// Longest-first order is seldom more than some percent above it.
  TRUNKLINE_HOST_DEVICE Nanoseconds bound(std::int32_t workers, std::int32_t copies) const {
    Nanoseconds bound = ceil_div<Nanoseconds>(product(total(), copies), workers);
    std::int64_t tasks = 0;
    for (std::size_t i = next_below(kClasses); i != kNone; i = next_below(i)) {
      tasks += classes_[i].tasks * copies;
      bound = max(bound, product((tasks - 1) / workers + 1, classes_[i].mean()));
    }
    return bound;
  }
  /// When workers that take the longest task next are done with `copies` tasks of every added cost.
  /// \param loads scratch
  Nanoseconds makespan(std::int32_t workers, std::int32_t copies, std::vector<Nanoseconds>& loads) const;

  /// Sums stay at this, 18 years, so that they overflow for no batch.
  static constexpr Nanoseconds kMaxSum = Nanoseconds{1} << 59;
  /// The product of two values that are not negative; at most kMaxSum.
  TRUNKLINE_HOST_DEVICE static Nanoseconds product(Nanoseconds a, Nanoseconds b) {
    const bool small = a < Nanoseconds{1} << 29 && b < Nanoseconds{1} << 29;  // as most: divisions are slow
    return small || a == 0 || b <= kMaxSum / a ? a * b : kMaxSum;
  }

 private:
  static constexpr std::size_t kNone = kClasses;

  struct Class {
    std::int64_t tasks = 0;
    Nanoseconds sum = 0;

    TRUNKLINE_HOST_DEVICE Nanoseconds mean() const { return sum / tasks; }
  };

  TRUNKLINE_HOST_DEVICE void add(std::size_t index, std::int32_t tasks, Nanoseconds sum) {
    Class& to = classes_[index];
    if (to.tasks == 0) occupied_[index / 64] |= std::uint64_t{1} << (index % 64);
    to.tasks += tasks;
    to.sum = min(to.sum + sum, kMaxSum);
  }

  /// The highest class below this one that has tasks; kNone where none has.
  TRUNKLINE_HOST_DEVICE std::size_t next_below(std::size_t index) const {
    if (index % 64 != 0) {
      const std::uint64_t rest = occupied_[index / 64] & ((std::uint64_t{1} << (index % 64)) - 1);
      if (rest != 0) return last_of(index / 64, rest);
    }
    for (std::size_t word = index / 64; word-- > 0;) {
      if (occupied_[word] != 0) return last_of(word, occupied_[word]);
    }
    return kNone;
  }
  TRUNKLINE_HOST_DEVICE static std::size_t last_of(std::size_t word, std::uint64_t bits) {
    return word * 64 + static_cast<std::size_t>(bit_width(bits)) - 1;
  }

  Class classes_[kClasses] = {};
  std::uint64_t occupied_[kClasses / 64 + 1] = {};  // bit by class: whether it has tasks, since few have
};

}  // namespace trunkline
