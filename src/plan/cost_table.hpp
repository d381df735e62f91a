// C(rows, tokens) from a profile's measured points, in integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/cost_model.hpp"
#include "trunkline/machine.hpp"

namespace trunkline {

/// Looks up MachineProfile::cost_table. Between the points it interpolates linearly, in tokens and in rows; beyond the
/// last it goes on in proportion; below the first it stays, since what a task costs at least does not shrink with it.
/// More rows or more tokens never cost less: where a measurement says so, the larger of both figures counts.
class MeasuredCosts {
 public:
  /// \param head_dim of the shape to plan for: times are scaled to it in proportion, as tasks of many tokens are.
  void reset(const CostTable& table, std::int32_t head_dim);
  /// Whether nothing was measured; then there is nothing to look up.
  bool empty() const { return costs_.empty(); }
  /// Time of one (item, KV head) on one worker.
  Nanoseconds task(std::int32_t rows, std::int64_t tokens) const;

 private:
  Nanoseconds at_row(std::size_t row, std::int64_t tokens) const;

  std::vector<std::int32_t> rows_;
  std::vector<std::int32_t> tokens_;
  std::vector<Nanoseconds> costs_;  // [rows, tokens]
};

}  // namespace trunkline
