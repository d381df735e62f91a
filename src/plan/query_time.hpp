// The cost of a plan's Q and O. It is the one figure of a batch that is computed with fractions, so it is written once
// for host and device, with products and quotients alone, whose bits are the same on both.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.hpp"
#include "plan/task_costs.hpp"
#include "trunkline/types.hpp"

namespace trunkline {

TRUNKLINE_HOST_DEVICE inline Nanoseconds nanoseconds_of(double microseconds) {
  return min<Nanoseconds>(llround(min(microseconds, 1e9) * 1e3), TaskCosts::kMaxTask);
}

/// Q and O of one query token, in all heads.
inline double query_bytes(const AttentionShape& shape) {
  return static_cast<double>(std::int64_t{shape.q_heads} * (shape.head_dim_qk + shape.head_dim_v)) *
         static_cast<double>(size_of(shape.q_dtype));
}

/// The time of Q and O of `queries` query tokens, spread over all workers.
TRUNKLINE_HOST_DEVICE inline Nanoseconds query_time(std::int64_t queries, double bytes, double bytes_per_us) {
  return nanoseconds_of(static_cast<double>(queries) * bytes / bytes_per_us);
}

}  // namespace trunkline
