#include "plan/cost_model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "plan/query_time.hpp"

namespace trunkline {

std::int64_t CostModel::to_fixed(double nanoseconds) {
  const double scaled = std::ldexp(nanoseconds, TaskCosts::kFractionBits);
  return scaled < static_cast<double>(TaskCosts::kMaxPerToken) ? std::llround(scaled) : TaskCosts::kMaxPerToken;
}

void CostModel::reset(const MachineProfile& profile, const AttentionShape& shape, std::int64_t queries,
                      std::int64_t shared_tokens) {
  tasks_ = {};
  tasks_.workers = profile.workers;
  tasks_.kv_heads = shape.kv_heads;
  tasks_.group_size = shape.group_size();
  tasks_.narrow_rows = profile.narrow_rows;
  tasks_.row_quantum = profile.row_quantum;
  tasks_.half_rows = profile.half_rows;
  tasks_.half_change = nanoseconds_of(profile.half_change_us);
  tasks_.half_chunk_bits = std::countr_zero(static_cast<std::uint32_t>(profile.half_chunk_tokens));
  tasks_.whole_tiles = profile.device == Device::kCuda;
  tasks_.launch = nanoseconds_of(profile.launch_us + profile.fill_us);
  tasks_.item = nanoseconds_of(profile.item_us);
  tasks_.cut = nanoseconds_of(profile.cut_us);
  tasks_.exposed = to_fixed(std::clamp(1 - profile.memory_overlap, 0.0, 1.0));
  tasks_.token_bytes = shape.kv_bytes_per_token();
  // fp32 O and LSE of a query's rows; its time per KiB counts writing and reading them.
  const std::int64_t partial = std::int64_t{4} * shape.group_size() * (shape.head_dim_v + 1);
  tasks_.partial_bytes = partial;
  tasks_.partial = to_fixed(static_cast<double>(partial) / 1024 * profile.partial_us_per_kib * 1e3);

  const double workers = profile.workers;
  const double token_bytes = static_cast<double>(tasks_.token_bytes);
  tasks_.first_read_per_token = to_fixed(token_bytes * 1e3 * workers / profile.read_bytes_per_us);
  const bool cached = shared_tokens <= profile.llc_bytes / (tasks_.token_bytes * shape.kv_heads);
  const double reread_rate =
      cached ? std::max(profile.cache_bytes_per_us, profile.read_bytes_per_us) : profile.read_bytes_per_us;
  tasks_.reread_per_token = to_fixed(token_bytes * 1e3 * workers / reread_rate);
  if (profile.worker_read_bytes_per_us * workers > profile.read_bytes_per_us) {
    tasks_.alone_per_token = to_fixed(token_bytes * 1e3 / profile.worker_read_bytes_per_us);
  }
  tasks_.query_time = query_time(queries, query_bytes(shape), profile.read_bytes_per_us);
  tasks_.memory_per_token = tasks_.alone_per_token > 0 ? tasks_.alone_per_token : tasks_.first_read_per_token;
  tasks_.compute_per_row = to_fixed(2.0 * (shape.head_dim_qk + shape.head_dim_v) * 1e3 * workers /
                                    (profile.flops_per_us * profile.flop_efficiency));
}

// All tokens read as one task, spread over all workers. Items lose less than 2 ns each to rounding, in their costs and
// in the means of their classes; where their fixed cost does not make up for it, nothing is certain.
Nanoseconds CostModel::min_time(std::int64_t tokens) const {
  if (tasks_.item < 2) return tasks_.launch;
  return tasks_.launch + (task(tokens, 0, 0, 0) - tasks_.item) * tasks_.kv_heads / tasks_.workers;
}

// The same rounding counts here. What a token costs is known where it does not depend on what a plan reads, and adds up
// where no product is rounded more coarsely.
Nanoseconds CostModel::min_time(std::int64_t tokens, std::int64_t items, std::int64_t merged_items) const {
  if (tasks_.item < 2 || tasks_.alone_per_token == 0 || tokens >= TaskCosts::kExactTokens) return tasks_.launch;
  const Nanoseconds reading = task(tokens, 0, 0, 0) - tasks_.item;
  const Nanoseconds work = reading + items * (tasks_.item - 2) + merged_items * tasks_.cut;
  return tasks_.launch + std::min(work, TaskCosts::kMaxTask) * tasks_.kv_heads / tasks_.workers;
}

}  // namespace trunkline
