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
  group_size_ = shape.group_size();
  half_rows_ = profile.half_rows;
  tile_rows_ = profile.device == Device::kCuda;
  launch_ = to_nanoseconds(profile.launch_us + profile.fill_us);
  item_ = to_nanoseconds(profile.item_us);
  cut_ = to_nanoseconds(profile.cut_us);
  exposed_ = to_fixed(std::clamp(1 - profile.memory_overlap, 0.0, 1.0));

  const double workers = profile.workers;
  const double token_bytes = static_cast<double>(shape.kv_bytes_per_token());
  first_read_per_token_ = to_fixed(token_bytes * 1e3 * workers / profile.read_bytes_per_us);
  const double cache_rate = std::max(profile.cache_bytes_per_us, profile.read_bytes_per_us);
  cache_per_token_ = to_fixed(token_bytes * 1e3 * workers / cache_rate);
  memory_per_token_ = first_read_per_token_;
  compute_per_row_ = to_fixed(4.0 * shape.head_dim * 1e3 * workers / (profile.flops_per_us * profile.flop_efficiency));
  for (std::size_t queries = 0; queries < kQueryCounts; ++queries) {
    const std::int32_t rows = static_cast<std::int32_t>(queries) * group_size_;
    const std::int32_t quantum = rows <= profile.narrow_rows ? 1 : profile.row_quantum;
    padded_rows_[queries] = (rows + quantum - 1) / quantum * quantum;
  }
  // fp32 O and LSE of a query's rows, written and read.
  const double partial_bytes = 4.0 * group_size_ * (shape.head_dim + 1);
  partial_ = to_fixed(partial_bytes / 1024 * profile.partial_us_per_kib * 1e3);
  partial_tokens_ = std::llround(std::ceil(2 * partial_bytes / token_bytes));
}

void CostModel::set_rereads(std::int64_t distinct_tokens, std::int64_t read_tokens) {
  memory_per_token_ = first_read_per_token_;
  if (read_tokens <= distinct_tokens) return;
  const double share = static_cast<double>(distinct_tokens) / static_cast<double>(read_tokens);
  const std::int64_t first = static_cast<std::int64_t>(std::ldexp(share, kFractionBits));
  memory_per_token_ = cache_per_token_ + (((first_read_per_token_ - cache_per_token_) * first) >> kFractionBits);
}

// All tokens read as one task, spread over all workers. Items lose less than 2 ns each to rounding, in their costs and
// in the means of their classes; where their fixed cost does not make up for it, nothing is certain.
Nanoseconds CostModel::least_time(std::int64_t tokens) const {
  if (item_ < 2) return launch_;
  return launch_ + (task(tokens, 0, 0, 0) - item_) * kv_heads_ / workers_;
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
