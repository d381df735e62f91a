#include "plan/cost_model.hpp"

#include <algorithm>
#include <cmath>

namespace trunkline {
namespace {

// More placements than this one by one cost more planning time than their exact order is worth.
constexpr std::int64_t kExactTasks = 512;

/// Adds to the least element of a min-heap. \return its new value.
Nanoseconds add_to_least(std::vector<Nanoseconds>& heap, Nanoseconds cost) {
  const Nanoseconds value = heap.front() + cost;
  std::size_t hole = 0;
  for (std::size_t child = 1; child < heap.size(); child = 2 * hole + 1) {
    if (child + 1 < heap.size() && heap[child + 1] < heap[child]) ++child;
    if (heap[child] >= value) break;
    heap[hole] = heap[child];
    hole = child;
  }
  heap[hole] = value;
  return value;
}

}  // namespace

std::int64_t CostModel::to_fixed(double nanoseconds) {
  const double scaled = std::ldexp(nanoseconds, kFractionBits);
  return scaled < static_cast<double>(kMaxPerToken) ? std::llround(scaled) : kMaxPerToken;
}

Nanoseconds CostModel::to_nanoseconds(double microseconds) {
  return std::min<Nanoseconds>(std::llround(std::min(microseconds, 1e9) * 1e3), kMaxTask);
}

void CostModel::reset(const MachineProfile& profile, const AttentionShape& shape) {
  workers_ = profile.workers;
  kv_heads_ = shape.kv_heads;
  launch_ = to_nanoseconds(profile.launch_us);
  item_ = to_nanoseconds(profile.item_us);
  exposed_ = to_fixed(std::clamp(1 - profile.memory_overlap, 0.0, 1.0));

  const double workers = profile.workers;
  memory_per_token_ =
      to_fixed(static_cast<double>(shape.kv_bytes_per_token()) * 1e3 * workers / profile.read_bytes_per_us);
  const double row_ns =
      4.0 * shape.head_dim * 1e3 * workers / (profile.flops_per_us * profile.flop_efficiency);  // one token, one row
  for (std::size_t queries = 0; queries < kQueryCounts; ++queries) {
    const std::int32_t rows = static_cast<std::int32_t>(queries) * shape.group_size();
    const std::int32_t quantum = rows <= profile.narrow_rows ? 1 : profile.row_quantum;
    padded_rows_[queries] = (rows + quantum - 1) / quantum * quantum;
    compute_per_token_[queries] = to_fixed(row_ns * padded_rows_[queries]);
  }
  // fp32 O and LSE of a query's rows.
  const double partial_kib = 4.0 * shape.group_size() * (shape.head_dim + 1) / 1024;
  partial_ = to_fixed(partial_kib * profile.partial_us_per_kib * 1e3);
}

// All tokens read as one task, spread over all workers. Items lose less than 2 ns each to rounding, in their costs and
// in the means of their classes; where their fixed cost does not make up for it, nothing is certain.
Nanoseconds CostModel::least_time(std::int64_t tokens) const {
  if (item_ < 2) return launch_;
  return launch_ + (task(tokens, 0, 0) - item_) * kv_heads_ / workers_;
}

void CostClasses::clear() {
  std::fill_n(counts_.begin(), highest_ + 1, 0);
  std::fill_n(sums_.begin(), highest_ + 1, 0);
  total_ = 0;
  highest_ = 0;
}

// Longest first. Where the workers' loads differ by no more than a task, whole rounds of equal tasks go to all of them
// alike; otherwise the next goes to the least loaded. When too many were placed one by one, list scheduling's bound
// stands for the others: no worker is idle before the last task begins, so all end by the mean load plus one task, the
// longest that is left.
Nanoseconds CostClasses::makespan(std::int32_t workers, std::int32_t copies) {
  loads_.assign(static_cast<std::size_t>(workers), 0);
  Nanoseconds rounds = 0;   // load that all workers have alike
  Nanoseconds longest = 0;  // load beyond that
  std::int64_t placed = 0;
  for (std::size_t index = highest_ + 1; index-- > 0;) {
    if (counts_[index] == 0) continue;
    const Nanoseconds cost = sums_[index] / counts_[index];
    std::int64_t tasks = std::int64_t{counts_[index]} * copies;
    while (tasks > 0) {
      if (tasks >= workers && longest - loads_.front() <= cost) {
        rounds += tasks / workers * cost;
        tasks %= workers;
        continue;
      }
      if (++placed > kExactTasks) {
        const Nanoseconds mean = total_ * copies / workers;
        return std::max(rounds + longest, mean + cost - cost / workers);
      }
      longest = std::max(longest, add_to_least(loads_, cost));
      --tasks;
    }
  }
  return rounds + longest;
}

}  // namespace trunkline
