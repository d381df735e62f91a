// PAT's selector of the KV tile (section 5.2): thresholds from a sweep over lengths.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "base/check.hpp"
#include "trunkline/tiles.hpp"

namespace trunkline {
namespace {

void check_axis(const char* name, const std::vector<std::int32_t>& axis) {
  if (axis.empty()) fail(ErrorCode::kInvalidArgument, "sweep.", name, " is empty");
  for (std::size_t i = 0; i < axis.size(); ++i) {
    if (axis[i] > (i == 0 ? 0 : axis[i - 1])) continue;
    fail(ErrorCode::kInvalidArgument, "sweep.", name, "[", i, "] is ", axis[i], "; they must be >= 1 and rise");
  }
}

void check_sweep(const TileSweep& sweep, double tolerance) {
  check_axis("n", sweep.n);
  check_axis("tokens", sweep.tokens);
  if (sweep.us.size() != sweep.n.size() * sweep.tokens.size()) {
    fail(ErrorCode::kInvalidArgument, "sweep.us has ", sweep.us.size(), " times for ", sweep.n.size(), " n and ",
         sweep.tokens.size(), " lengths; one for each pair is needed");
  }
  for (std::size_t i = 0; i < sweep.us.size(); ++i) {
    if (sweep.us[i] > 0 && std::isfinite(sweep.us[i])) continue;
    fail(ErrorCode::kInvalidArgument, "sweep.us[", i, "] is ", sweep.us[i], "; times must be > 0");
  }
  if (!(tolerance >= 0) || !std::isfinite(tolerance)) {
    fail(ErrorCode::kInvalidArgument, "tolerance is ", tolerance, "; it must be >= 0");
  }
}

/// The choice for lengths [first, last) of the sweep.
std::int32_t choose_n(const TileSweep& sweep, std::size_t first, std::size_t last, double tolerance) {
  const auto us = [&](std::size_t n, std::size_t at) { return sweep.us[n * sweep.tokens.size() + at]; };
  std::size_t best = 0;
  double min_sum = 0;
  for (std::size_t n = sweep.n.size(); n-- > 0;) {
    bool equivalent = true;
    double sum = 0;
    for (std::size_t at = first; at < last; ++at) {
      double fastest = us(0, at);
      for (std::size_t other = 1; other < sweep.n.size(); ++other) fastest = std::min(fastest, us(other, at));
      equivalent = equivalent && us(n, at) <= fastest * (1 + tolerance);
      sum += us(n, at) / fastest;
    }
    if (equivalent) return sweep.n[n];
    if (min_sum == 0 || sum < min_sum) {
      best = n;
      min_sum = sum;
    }
  }
  return sweep.n[best];
}

}  // namespace

std::vector<TileStep> derive_tile_steps(const TileSweep& sweep, double tolerance) {
  check_sweep(sweep, tolerance);
  const auto octave = [&](std::size_t at) { return std::bit_width(static_cast<std::uint32_t>(sweep.tokens[at])); };
  std::vector<TileStep> steps;
  for (std::size_t first = 0; first < sweep.tokens.size();) {
    std::size_t last = first + 1;
    while (last < sweep.tokens.size() && octave(last) == octave(first)) ++last;
    const std::int32_t n = choose_n(sweep, first, last, tolerance);
    if (steps.empty()) {
      steps.push_back({0, n});
    } else if (steps.back().n != n) {
      steps.push_back({std::int32_t{1} << (octave(first) - 1), n});
    }
    first = last;
  }
  return steps;
}

}  // namespace trunkline
