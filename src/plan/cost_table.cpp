#include "plan/cost_table.hpp"

#include <algorithm>
#include <cmath>

namespace trunkline {
namespace {

// Limits of a point, 2 s, and of what is derived from one, 18 minutes, so that no product below overflows.
constexpr Nanoseconds kMaxPoint = Nanoseconds{1} << 31;
constexpr Nanoseconds kMaxTask = Nanoseconds{1} << 40;

/// \param points rising
/// \param value (index of a point) -> its value
template <class Value>
Nanoseconds interpolate(const std::vector<std::int32_t>& points, std::int64_t at, Value value) {
  const auto next = static_cast<std::size_t>(std::upper_bound(points.begin(), points.end(), at) - points.begin());
  if (next == 0) return value(0);
  const Nanoseconds low = value(next - 1);
  const std::int64_t begin = points[next - 1];
  if (next == points.size()) return std::min(low * at / begin, kMaxTask);
  return low + (value(next) - low) * (at - begin) / (points[next] - begin);
}

}  // namespace

void MeasuredCosts::reset(const CostTable& table, std::int32_t head_dim) {
  rows_.assign(table.rows.begin(), table.rows.end());
  tokens_.assign(table.tokens.begin(), table.tokens.end());
  const std::size_t width = tokens_.size();
  costs_.clear();
  for (std::size_t i = 0; i < rows_.size() * width; ++i) {
    const double nanoseconds = table.us[i] * 1e3 * head_dim / table.head_dim;
    Nanoseconds cost = std::llround(std::min(nanoseconds, static_cast<double>(kMaxPoint)));
    if (i % width > 0) cost = std::max(cost, costs_[i - 1]);
    if (i >= width) cost = std::max(cost, costs_[i - width]);
    costs_.push_back(cost);
  }
}

Nanoseconds MeasuredCosts::at_row(std::size_t row, std::int64_t tokens) const {
  return interpolate(tokens_, tokens, [&](std::size_t point) { return costs_[row * tokens_.size() + point]; });
}

Nanoseconds MeasuredCosts::task(std::int32_t rows, std::int64_t tokens) const {
  return interpolate(rows_, rows, [&](std::size_t row) { return at_row(row, tokens); });
}

}  // namespace trunkline
